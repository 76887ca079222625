"""Check the Castell methods on the Adult data, with real randomised response.

The expected errors are recorded ones, not those of the paper's Tables V and VI, which are not
outcomes of randomised response. Epsilon is the total of all attributes: 1 per attribute is 8. All
seeds were fixed before the first run. Deviations of five standard errors are allowed unless a test
says otherwise.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from benchmarks.populations import ADULT
from calmstream.estimators.domain import Attributes
from calmstream.estimators.methods.base import Request
from calmstream.estimators.numerics.block_inverse import expected_sse
from calmstream.estimators.papers.castell.design import product_group
from calmstream.estimators.papers.castell.model import ProductModel
from calmstream.estimators.papers.castell.product_grr import ProductGRR, channels
from calmstream.estimators.randomness import SeededRandomness
from calmstream.estimators.tally import Tally
from calmstream.tables.reading import ReadingOptions
from calmstream.tables.records import RecordTable, read_table

SIGMAS = 5.0
RUNS = 40
# Mean squared errors per cell of the joint inverse, and of the product with real noise.
PAIRS = {
    ("sex", "income"): (5.43e-5, 1.905e-3),
    ("race", "sex"): (1.05e-4, 1.342e-4),
    ("education", "occupation"): (1.13e-3, 2.487e-5),
}


@cache
def adult(shared: Path) -> RecordTable:
    return read_table(shared / "data" / "adult.csv.gz", ReadingOptions(columns=ADULT))


def mechanism(table: RecordTable, epsilon: str, tables: tuple[Attributes, ...]) -> ProductGRR:
    single = tuple((i,) for i in range(len(table.domain)))
    request = Request(table.domain, epsilon, len(table.codes), 2)
    return product_group(request, single, tables)[1]


def models(table: RecordTable, m: ProductGRR, seed: int) -> dict[str, ProductModel]:
    values = table.domain.cells(table.codes, range(len(table.domain)))
    reports = m.perturb(values, SeededRandomness(seed))
    tally = Tally(np.array([len(table.codes)]), m.tally(reports, None, 1))
    return {
        scheme: ProductModel(table.domain, m, tally, scheme)
        for scheme in ("joint", "independent", "hybrid", "truncated")
    }


def truth(table: RecordTable, attributes: Attributes) -> np.ndarray:
    return table.domain.histogram(table.codes, attributes) / len(table.codes)


def test_the_three_pairs_of_table_v_with_real_noise(shared: Path) -> None:
    table = adult(shared)
    pairs = {names: table.domain.index(names) for names in PAIRS}
    m = mechanism(table, "8", tuple(pairs.values()))
    errors = {names: ([], []) for names in PAIRS}
    for seed in range(RUNS):
        fitted = models(table, m, 100 + seed)
        for names, pair in pairs.items():
            for own, scheme in zip(errors[names], ("joint", "independent"), strict=True):
                difference = fitted[scheme].marginal(pair).table - truth(table, pair)
                own.append(np.square(difference).mean())
    for names, published in PAIRS.items():
        for own, expected in zip(errors[names], published, strict=True):
            allowed = SIGMAS * np.std(own, ddof=1) / RUNS**0.5
            assert abs(np.mean(own) - expected) < allowed + 0.005 * expected, names
        pair = pairs[names]
        exact = expected_sse(channels(m, pair), len(table.codes)) / table.domain.size(pair)
        assert exact == pytest.approx(published[0], rel=0.006)


def test_rr_independent_s_error_over_all_subsets(shared: Path) -> None:
    table = adult(shared)
    m = mechanism(table, "32", tuple((i,) for i in range(8)))
    fitted = models(table, m, 7)["independent"]
    # w = 2..6 at epsilon 4 per attribute; exact margins give .0406 .0526 .0470 .0370 .0275.
    for w, expected in zip(range(2, 7), (0.0407, 0.0525, 0.0469, 0.0369, 0.0275), strict=True):
        worst = [
            np.abs(fitted.marginal(s).table - truth(table, s)).max()
            for s in combinations(range(8), w)
        ]
        assert np.mean(worst) == pytest.approx(expected, rel=0.05), w


def test_stated_errors_are_honest(shared: Path) -> None:
    table = adult(shared)
    subsets = [(6, 7), (1, 7), (2, 4, 6)]
    m = mechanism(table, "8", tuple(subsets))
    scores = []
    for seed in range(40):
        fitted = models(table, m, 200 + seed)["joint"]
        for s in subsets:
            answer = fitted.marginal(s)
            scores.append((answer.table - truth(table, s)) / answer.stderr)
    z = np.concatenate(scores)
    assert np.abs(z).max() < 6
    # Cells of one table hang together; 120 seeds and tables of 2 to 84 degrees of freedom.
    assert 0.85 < np.square(z).mean() < 1.15
