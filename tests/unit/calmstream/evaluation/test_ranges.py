from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from calmstream.estimators.domain import Attributes, Codes, Domain
from calmstream.estimators.marginal import Marginal
from calmstream.evaluation.ranges import RangeQuestions

DOMAIN = Domain.from_dictionary(
    [
        {"name": "x", "kind": "number", "edges": [0, 1, 10, 100], "rounding": "grid"},
        {"name": "y", "labels": ["a", "b", "c"]},
    ]
)
TARGETS: tuple[Attributes, ...] = ((0, 1),)


@dataclass
class Known:
    """A model whose answers are the tables of some records."""

    codes: Codes
    processing: tuple[str, ...] = ()

    def marginal(self, attributes: Attributes) -> Marginal:
        table = DOMAIN.histogram(self.codes, attributes) / len(self.codes)
        return Marginal(attributes, table, np.zeros(table.size), len(self.codes), ())


def records(seed: int) -> Codes:
    return np.random.default_rng(seed).integers((4, 3), size=(500, 2)).astype(np.uint16)


def test_errors_follow_their_definitions() -> None:
    one, other = records(2), records(3)
    other[:, 0] = np.minimum(other[:, 0] + 1, 3)
    questions = RangeQuestions(DOMAIN, TARGETS, 300, np.random.default_rng(4))
    model = Known(other)
    found = questions.errors(
        model, [model.marginal((0, 1)).table], [Known(one).marginal((0, 1)).table],
        [Known(one).marginal(margin).table for margin in questions.margins],
    )  # fmt: skip
    numbers = np.array([0.0, 1.0, 10.0, 100.0])
    distances = [
        wasserstein_distance(numbers[one[:, 0]], numbers[other[:, 0]]),
        wasserstein_distance(one[:, 1], other[:, 1]),
    ]
    assert found["wasserstein"] == pytest.approx(np.mean(distances))
    for name, of in (("mean_error", np.mean), ("median_error", np.median)):
        errors = [
            abs(of(numbers[one[:, 0]]) - of(numbers[other[:, 0]])),
            abs(of(one[:, 1]) - of(other[:, 1])),
        ]
        assert found[name] == pytest.approx(np.mean(errors))
    # All 10 x 6 ranges, each with the probability with which it is drawn.
    squares = []
    for (a, b), (c, d) in product(*(combinations_with_replacement(range(n), 2) for n in (4, 3))):
        inside = [
            ((x[:, 0] >= a) & (x[:, 0] <= b) & (x[:, 1] >= c) & (x[:, 1] <= d)).mean()
            for x in (one, other)
        ]
        squares.append((inside[0] - inside[1]) ** 2)
    # Five standard errors of 300 drawn ranges.
    assert abs(found["range_mse"] - np.mean(squares)) <= 5 * np.std(squares) / 300**0.5
