# ruff: noqa: E741 - l is the papers' symbol
from __future__ import annotations

from itertools import combinations
from math import prod

import numpy as np
import pytest

from calmstream.estimators.numerics import covering as module
from calmstream.estimators.numerics.covering import balanced, covering, schoenheim
from calmstream.estimators.numerics.subsets import elementary

MANY = 10**6
Sets = tuple[tuple[int, ...], ...]


def checked(sets: Sets | None, d: int, k: int, l: int) -> Sets:
    assert sets is not None
    subsets = {subset for members in sets for subset in combinations(members, k)}
    assert subsets == set(combinations(range(d), k))
    assert len(sets) >= schoenheim(d, k, l)
    return sets


@pytest.mark.parametrize(
    ("d", "k", "l"), [(8, 3, 5), (9, 2, 4), (16, 3, 5), (16, 6, 8), (7, 7, 7), (6, 1, 4), (5, 5, 5)]
)
def test_designs_cover_and_respect_the_bound(d: int, k: int, l: int) -> None:
    sets = checked(covering(d, k, l, MANY), d, k, l)
    assert list(sets) == sorted(set(sets))
    assert all(len(members) == l and list(members) == sorted(set(members)) for members in sets)


def test_schoenheim_bound_on_known_values() -> None:
    # Fano plane complement family and the tables of Gordon, Kuperberg and Patashnik.
    assert [schoenheim(8, 3, l) for l in (3, 4, 5, 6)] == [56, 14, 7, 4]
    assert schoenheim(7, 2, 3) == 7
    assert schoenheim(32, 3, 6) == 267
    assert schoenheim(10, 1, 3) == 4


def test_growing_also_covers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_INCIDENCES", 0)
    for d, k, l in [(10, 3, 5), (9, 2, 4), (8, 1, 3), (11, 4, 6)]:
        checked(covering.__wrapped__(d, k, l, MANY), d, k, l)


@pytest.mark.parametrize("limit", [13, 1, 0])
def test_more_sets_than_allowed_is_none(limit: int) -> None:
    assert covering(8, 3, 4, 14) is not None
    assert covering(8, 3, 4, limit) is None
    assert covering(16, 3, 5, 61) is None, "the bound is 61, the greedy design larger"


@pytest.mark.parametrize(("d", "l", "m"), [(16, 2, 65), (32, 2, 65), (16, 3, 262), (7, 3, 5)])
def test_balanced_choice(d: int, l: int, m: int) -> None:
    sets = np.array(balanced(d, l, m))
    assert len({tuple(members) for members in sets.tolist()}) == m
    use = np.bincount(sets.ravel(), minlength=d)
    assert use.max() - use.min() <= 1
    together = np.zeros((d, d), int)
    for members in sets:
        together[np.ix_(members, members)] += 1
    pairs = together[np.triu_indices(d, 1)]
    assert pairs.max() - pairs.min() <= 2


def test_elementary_sums_the_products_of_all_subsets() -> None:
    values = [2, 3, 5, 7]
    every = [sum(prod(s) for s in combinations(values, size)) for size in range(6)]
    assert elementary(values, 5) == every
