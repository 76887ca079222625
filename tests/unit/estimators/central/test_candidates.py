from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from math import prod

import numpy as np
import pytest

from calmstream.estimators.central import candidates as module
from calmstream.estimators.central.candidates import candidates, grow
from calmstream.estimators.central.tuples import size

Cells = Mapping[tuple[int, ...], np.ndarray]


def some_tuples(k: int, radix: tuple[int, ...], seed: int, share: float = 0.6) -> Cells:
    rng = np.random.default_rng(seed)
    previous = {}
    for key in combinations(range(len(radix)), k - 1):
        cells = np.flatnonzero(rng.random(prod(radix[i] for i in key)) < share)
        if len(cells):
            previous[key] = cells
    return previous


def decoded(cells: Cells, radix: tuple[int, ...]) -> set[tuple[tuple[int, int], ...]]:
    tuples = set()
    for key, own in cells.items():
        places = np.unravel_index(own, [radix[i] for i in key])
        for values in zip(*places, strict=True):
            tuples.add(tuple(zip(key, map(int, values), strict=True)))
    return tuples


def expected(
    previous: set[tuple[tuple[int, int], ...]], k: int, radix: tuple[int, ...]
) -> set[tuple[tuple[int, int], ...]]:
    tuples = set()
    for key in combinations(range(len(radix)), k):
        for values in np.ndindex(*(radix[i] for i in key)):
            whole = tuple(zip(key, values, strict=True))
            if all(whole[:i] + whole[i + 1 :] in previous for i in range(k)):
                tuples.add(whole)
    return tuples


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("rows", [1 << 20, 3])
def test_they_are_exactly_those_whose_subtuples_all_stand(
    k: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_JOIN_ROWS", rows)
    radix = (3, 2, 4, 2, 3)
    made = 0
    for seed in range(15):
        previous = some_tuples(k, radix, seed, 0.8)
        result = candidates(previous, radix)
        assert all((np.diff(own) > 0).all() for own in result.values())
        assert decoded(result, radix) == expected(decoded(previous, radix), k, radix)
        made += size(result)
    assert made > 100


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("limit", [0, 1, 25, 70])
def test_too_many_candidates_are_reduced_by_the_noisy_counts_only(
    k: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_CANDIDATES", limit)
    radix = (6, 5, 7, 6)
    previous = some_tuples(k, radix, 1)
    rng = np.random.default_rng(2)
    counts = {key: rng.integers(1, 60, len(own)) for key, own in previous.items()}
    universe = grow(previous, counts, radix)
    assert size(universe.cells) <= limit
    assert universe.above is not None
    kept = {key: own[counts[key] > universe.above] for key, own in previous.items()}
    assert universe.parents == sum(map(len, kept.values()))
    assert decoded(universe.cells, radix) == expected(decoded(kept, radix), k, radix)
    # One step lower and there are too many: no tuple is left out without need.
    lower = {key: own[counts[key] >= universe.above] for key, own in previous.items()}
    lower = {key: own for key, own in lower.items() if len(own)}
    assert not module._fits(lower, radix)


def test_so_are_too_many_column_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_COLUMN_SETS", 10)
    radix = (2,) * 8
    previous = {(i,): np.arange(2) for i in range(8)}
    counts = {(i,): np.array([100 + i, 10]) for i in range(8)}
    universe = grow(previous, counts, radix)
    assert universe.above == 102
    assert set(universe.cells) == set(combinations(range(3, 8), 2))


def test_column_sets_beyond_64_bits_are_left_out() -> None:
    radix = (1 << 21,) * 3 + (2,)
    previous = {key: np.array([0, 5]) for key in combinations(range(4), 2)}
    result = candidates(previous, radix)
    assert (0, 1, 2) not in result
    assert (0, 1, 3) in result
