"""Choose sets of attributes on which devices report: covering designs and balanced families.

A (d, l, k) *covering design* is a family of l-subsets of d attributes such that every k-subset is
in one of them; C(d, l, k) is the size of the smallest; `l` is the papers' symbol. All is
deterministic: of equally good sets the first one is chosen, and counts, not time, limit the work.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain, combinations
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.domain import Attributes

Sets = NDArray[np.int64]  # shape (number, size): one ascending attribute set per row
MAX_INCIDENCES = 1 << 23
"""Maximum number of pairs of an l-set and one of its k-subsets for which every step compares all
l-sets; it limits memory and time."""

MAX_TARGETS = 1 << 21  # maximum number of k-sets to be covered; with more, no design is computed
MAX_LOOKUPS = 1 << 28
"""Maximum number of table look-ups while sets grow by one attribute at a time; a few seconds."""


def schoenheim(d: int, k: int, l: int) -> int:  # noqa: E741 - the papers' symbol
    """Return Schönheim's lower bound of C(d, l, k), for k <= l <= d."""
    bound = 1
    for i in range(k - 1, -1, -1):
        bound = -(-(d - i) * bound // (l - i))
    return bound


@lru_cache(maxsize=64)
def covering(d: int, k: int, l: int, limit: int) -> tuple[Attributes, ...] | None:  # noqa: E741
    """Return a greedy covering design for k <= l <= d, sorted; None beyond ``limit`` or the limits.

    Every step chooses the l-set that contains the most uncovered k-sets. If there are too many
    l-sets for that, a set starts as the first uncovered k-set and grows by the attribute that
    covers most. At the end, sets that the others make redundant are dropped.
    """
    if schoenheim(d, k, l) > limit or comb(d, k) > MAX_TARGETS:
        return None
    if l == k:
        return tuple(combinations(range(d), l))
    if comb(d, l) * comb(l, k) <= MAX_INCIDENCES:
        chosen = _greedy(d, k, l, limit)
    else:
        affordable = MAX_LOOKUPS // ((l - k) * d * comb(l, k - 1))
        chosen = _grow(d, k, l, min(limit, affordable))
    return None if chosen is None else tuple(sorted(_prune(d, k, chosen)))


def _prune(d: int, k: int, chosen: list[Attributes]) -> list[Attributes]:
    """Drop every set whose k-subsets are all in other sets, from the last chosen to the first."""
    sets = np.array(chosen)
    held = _ranks(d, sets[:, _subsets(sets.shape[1], k)])
    times = np.bincount(held.ravel(), minlength=comb(d, k))
    kept = []
    for members, ranks in zip(reversed(chosen), held[::-1], strict=True):
        if times[ranks].min() > 1:
            times[ranks] -= 1
        else:
            kept.append(members)
    return kept


def _greedy(d: int, k: int, l: int, limit: int) -> list[Attributes] | None:  # noqa: E741
    """Choose l-sets by comparing all of them in every step; None if ``limit`` is too small."""
    sets, inner, others = _subsets(d, l), _subsets(l, k), _subsets(d - k, l - k)
    gain = np.full(len(sets), comb(l, k), np.int64)
    covered = np.zeros(comb(d, k), bool)
    chosen: list[Attributes] = []
    while not covered.all():
        if len(chosen) == limit:
            return None
        best = sets[np.argmax(gain)]
        chosen.append(tuple(best.tolist()))
        held = best[inner]
        ranks = _ranks(d, held)
        new = held[~covered[ranks]]
        covered[ranks] = True
        gain -= np.bincount(_supersets(new, d, others), minlength=len(gain))
    return chosen


def _grow(d: int, k: int, l: int, limit: int) -> list[Attributes] | None:  # noqa: E741
    """Choose l-sets that grow by one attribute at a time; None if ``limit`` is too small."""
    every, inner = _subsets(d, k), _subsets(l, k)
    is_open = np.ones(len(every), bool)
    chosen: list[Attributes] = []
    first = 0
    while is_open[first:].any():
        if len(chosen) >= limit:
            return None
        first += int(np.argmax(is_open[first:]))
        members = every[first]
        while len(members) < l:
            rest = np.setdiff1d(np.arange(d), members)
            partial = members[_subsets(len(members), k - 1)]
            joined = np.concatenate(
                [
                    np.broadcast_to(partial, (len(rest), *partial.shape)),
                    np.broadcast_to(rest[:, None, None], (len(rest), len(partial), 1)),
                ],
                axis=2,
            )
            gain = is_open[_ranks(d, np.sort(joined, axis=2))].sum(axis=1)
            members = np.sort(np.append(members, rest[np.argmax(gain)]))
        chosen.append(tuple(members.tolist()))
        is_open[_ranks(d, members[inner])] = False
    return chosen


def balanced(d: int, l: int, m: int) -> tuple[Attributes, ...]:  # noqa: E741
    """Choose m <= C(d, l) sets so that attributes, then pairs, appear equally often.

    Each step chooses a new set whose attributes, and then pairs, have been used the fewest times.
    CALM's noise error assumes m·l/d sets per attribute; here they differ by at most one. If there
    are too many l-sets to compare, a set grows by one attribute at a time; then there can be fewer
    than m, because a set that exists already is not added again.
    """
    if m == comb(d, l):
        return tuple(combinations(range(d), l))
    pick = _pick_among_all if comb(d, l) * l * l <= MAX_INCIDENCES else _pick_growing
    return tuple(sorted(pick(d, l, m)))


def _pick_among_all(d: int, l: int, m: int) -> list[Attributes]:  # noqa: E741
    """Choose m sets by comparing all l-sets in every step."""
    sets, pairs = _subsets(d, l), _subsets(l, 2)
    use = np.zeros(d, np.int64)
    together = np.zeros((d, d), np.int64)
    free = np.ones(len(sets), bool)
    chosen = []
    for _ in range(m):
        alone = np.where(free, use[sets].sum(axis=1), np.iinfo(np.int64).max)
        least = np.flatnonzero(alone == alone.min())
        pair_use = together[sets[least][:, pairs[:, 0]], sets[least][:, pairs[:, 1]]].sum(axis=1)
        best = least[np.argmin(pair_use)]
        free[best] = False
        use[sets[best]] += 1
        together[sets[best][pairs[:, 0]], sets[best][pairs[:, 1]]] += 1
        chosen.append(tuple(sets[best].tolist()))
    return chosen


def _pick_growing(d: int, l: int, m: int) -> list[Attributes]:  # noqa: E741
    """Choose at most m sets that grow by one attribute at a time."""
    use = np.zeros(d, np.int64)
    together = np.zeros((d, d), np.int64)
    chosen: set[Attributes] = set()
    for _ in range(m):
        members: list[int] = []
        while len(members) < l:
            order = np.lexsort((together[:, members].sum(axis=1), use))
            rest = [int(i) for i in order if i not in members]
            fresh = (i for i in rest if tuple(sorted([*members, i])) not in chosen)
            members.append(next(fresh, rest[0]))
        use[members] += 1
        together[np.ix_(members, members)] += 1
        chosen.add(tuple(sorted(members)))
    return list(chosen)


@lru_cache(maxsize=64)
def _subsets(d: int, size: int) -> Sets:
    """Return all subsets of one size in order: shape (C(d, size), size), read-only."""
    flat = np.fromiter(chain.from_iterable(combinations(range(d), size)), np.int64)
    sets = flat.reshape(comb(d, size), size)
    sets.flags.writeable = False
    return sets


@lru_cache(maxsize=64)
def _steps(d: int, size: int) -> Sets:
    """Return how many subsets follow a member c at place i before the next: shape (size, d)."""
    return np.array(
        [[comb(d - 1 - c, size - i) for c in range(d)] for i in range(size)], np.int64
    ).reshape(size, d)


def _ranks(d: int, sets: NDArray[Any]) -> NDArray[np.int64]:
    """Return the row numbers of ascending subsets (..., size) in ``_subsets(d, size)``."""
    size = sets.shape[-1]
    ranks: NDArray[np.int64] = comb(d, size) - 1 - _steps(d, size)[np.arange(size), sets].sum(-1)
    return ranks


def _supersets(sets: Sets, d: int, others: Sets) -> NDArray[np.int64]:
    """Return the ranks of all l-sets that contain given k-sets (number, k), with repetition."""
    inside = np.zeros((len(sets), d), bool)
    np.put_along_axis(inside, sets, values=True, axis=1)
    rest = np.nonzero(~inside)[1].reshape(len(sets), -1)
    extra = rest[:, others]
    own = np.broadcast_to(sets[:, None, :], (*extra.shape[:2], sets.shape[1]))
    return _ranks(d, np.sort(np.concatenate([own, extra], axis=2), axis=2)).ravel()
