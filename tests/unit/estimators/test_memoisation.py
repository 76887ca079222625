"""The numbers of docs/memoisation.md, by enumeration of all sequences of values and reports."""

from __future__ import annotations

import re
from itertools import product
from math import exp, log
from pathlib import Path

import numpy as np

from calmstream.estimators.arrays import Floats

PAGE = (Path(__file__).parents[3] / "docs" / "memoisation.md").read_text()
BUCKETS, PERMANENT, FIRST = 2, 1.0, 0.5
LENGTHS = 8


def keeps(epsilon: float) -> float:
    """Return the probability of an answer that does not depend on the input, taken from 1."""
    return (exp(epsilon) - 1) / (exp(epsilon) + BUCKETS - 1)


def response(keep: float) -> Floats:
    return np.eye(BUCKETS) * keep + (1 - keep) / BUCKETS


MEMO = response(keeps(PERMANENT))
FRESH = response(keeps(FIRST) / keeps(PERMANENT))


def probabilities(length: int) -> Floats:
    """Return P(reports | values) of all pairs of sequences: shape (values, reports)."""
    reports = np.array(list(product(range(BUCKETS), repeat=length)))
    rows = []
    for values in product(range(BUCKETS), repeat=length):
        row = np.ones(len(reports))
        for bucket in set(values):
            at = [t for t, value in enumerate(values) if value == bucket]
            # One memo for all windows with this value; a fresh answer about the memo in each.
            given_memo = np.prod(FRESH[:, reports[:, at]], axis=2)
            row *= MEMO[bucket] @ given_memo
        rows.append(row)
    return np.array(rows)


def worst(length: int) -> float:
    table = probabilities(length)
    return float(log((table.max(axis=0) / table.min(axis=0)).max()))


def test_the_page_has_the_exact_losses() -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("| loss"))
    stated = [float(cell) for cell in re.findall(r"\d\.\d\d", row)]
    assert stated == [round(worst(length), 2) for length in range(1, LENGTHS + 1)]


def test_the_printed_bound_is_passed_at_the_fourth_window() -> None:
    bound = BUCKETS * PERMANENT
    assert worst(3) < bound < worst(4)
