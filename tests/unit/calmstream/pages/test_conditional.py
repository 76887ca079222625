"""Check conditional tables against tables computed by hand, and against simulation."""

from __future__ import annotations

import numpy as np
import pytest

from calmstream.common.errors import InvalidInput
from calmstream.estimators.wire.snapshot import Kind, MarginalRecord
from calmstream.pages.conditional import conditional

LABELS = (("x", "y"), ("p", "q", "r"))


def record(table: list[float], stderr: list[float]) -> MarginalRecord:
    return MarginalRecord(
        0, Kind.FINAL, (1,), ("a", "b"), LABELS, tuple(table), tuple(stderr), 0.1, 9, ("covered",)
    )


TABLE = record([0.1, 0.2, 0.0, 0.3, 0.4, 0.0], [0.01, 0.02, 0.01, 0.03, 0.02, 0.01])


def test_proportions_add_up_within_the_given_attribute_which_comes_first() -> None:
    result = conditional(TABLE, ["a"])
    assert result.attributes == ("a", "b")
    assert result.labels == LABELS
    assert result.table == pytest.approx((1 / 3, 2 / 3, 0, 3 / 7, 4 / 7, 0))
    assert result.flags == ("covered", "conditional", "approximate")


def test_the_other_way_round_and_a_combination_without_mass() -> None:
    result = conditional(TABLE, ["b"])
    assert result.attributes == ("b", "a")
    assert result.table == pytest.approx((1 / 4, 3 / 4, 1 / 3, 2 / 3, 0, 0))
    assert result.stderr[4:] == (1.0, 1.0)
    assert result.noise_floor == pytest.approx(sum(e * e for e in result.stderr))


def test_the_standard_error_is_that_of_the_ratio() -> None:
    draws = np.random.default_rng(5)
    table, errors = np.array(TABLE.table), np.array(TABLE.stderr)
    noisy = draws.normal(table, errors / 5, (200_000, 6)).reshape(-1, 2, 3)
    ratios = noisy / noisy.sum(axis=2, keepdims=True)
    stderr = np.array(conditional(record(TABLE.table, (errors / 5).tolist()), ["a"]).stderr)
    assert stderr == pytest.approx(ratios.std(axis=0).ravel(), rel=0.02)


def test_errors_never_exceed_one() -> None:
    assert max(conditional(record([0.001] * 6, [0.5] * 6), ["a"]).stderr) == 1.0


@pytest.mark.parametrize("given", [[], ["a", "b"], ["z"], ["a", "a"]])
def test_given_must_be_a_part_of_the_table(given: list[str]) -> None:
    with pytest.raises(InvalidInput, match="expected some, not all, of a,b"):
        conditional(TABLE, given)
