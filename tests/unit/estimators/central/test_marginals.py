"""Check DP Marginals against a slow reference: tuples, limits, thresholds, budgets."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from statistics import NormalDist

import numpy as np
import pytest

from calmstream.estimators.central.accounting import Spend, allocate
from calmstream.estimators.central.dp_marginals import DpMarginals
from calmstream.estimators.central.noise import universe_threshold, unseen_threshold
from calmstream.estimators.central.quantile import private_quantile
from calmstream.estimators.central.tuples import Records, size
from calmstream.estimators.randomness import SeededRandomness
from tests.support.repeats import repeats

# So little noise that every count is exact: for tests of everything but the noise.
CLEAR = Spend(Fraction(30_000), 3, Fraction(1 << 10), Fraction(1, 10**6))


def table(n: int, d: int, seed: int) -> Records:
    rng = np.random.default_rng(seed)
    radix = [2 + j % 3 for j in range(d)]
    codes = np.stack([rng.integers(0, r, n) for r in radix], axis=1)
    codes[rng.random((n, d)) < 0.25] = -1
    return Records(codes, tuple(radix))


def naive_counts(records: Records, k: int) -> dict[tuple[tuple[int, int], ...], int]:
    tuples: dict[tuple[tuple[int, int], ...], int] = {}
    for row in records.codes:
        values = [(i, int(v)) for i, v in enumerate(row) if v >= 0]
        for chosen in combinations(values, k):
            tuples[chosen] = tuples.get(chosen, 0) + 1
    return tuples


def as_tuples(result, k: int) -> dict[tuple[tuple[int, int], ...], int]:  # type: ignore[no-untyped-def]  # noqa: ANN001
    level = result.levels[k - 1]
    count_of_tuple = {}
    for columns, cells in level.cells.items():
        for cell, count in zip(cells.tolist(), level.counts[columns].tolist(), strict=True):
            values, rest = [], cell
            for i in reversed(columns):
                rest, v = divmod(rest, len(result.values[i]))
                values.append((i, int(result.values[i][v])))
            count_of_tuple[tuple(reversed(values))] = count
    return count_of_tuple


@pytest.mark.parametrize("seen_only", [False, True])
def test_without_noise_every_frequent_tuple_has_its_exact_count(seen_only: bool) -> None:
    records = table(400, 5, 1)
    method = DpMarginals(CLEAR, Fraction(1), seen_only=seen_only)
    result = method.release(records, SeededRandomness(1))
    for k in (1, 2, 3):
        exact = naive_counts(records, k)
        level = result.levels[k - 1]
        published = as_tuples(result, k)
        assert published
        assert all(exact[t] == count for t, count in published.items())
        if k == 1 or seen_only:
            frequent = {t for t, count in exact.items() if count > level.threshold}
            assert set(published) == frequent


def test_tuples_grow_only_from_their_subtuples() -> None:
    # Column 0 and 1 are always equal, so (0, 1) never occurs, nor may anything above it.
    codes = np.array([[0, 0, 0], [1, 1, 0], [0, 0, 1], [1, 1, 1]] * 50)
    result = DpMarginals(CLEAR).release(Records(codes, (2, 2, 2)), SeededRandomness(2))
    pairs, triples = as_tuples(result, 2), as_tuples(result, 3)
    assert ((0, 0), (1, 1)) not in pairs
    assert result.levels[1].candidates == 12
    assert result.levels[2].candidates == 4
    assert set(triples.values()) == {50}


@pytest.mark.parametrize("lookup", [1 << 22, 1])
def test_contributions_are_limited_to_a_uniform_subset(
    lookup: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calmstream.estimators.central.tuples._LOOKUP", lookup)
    codes = np.zeros((6000, 6), np.int64)
    codes[:3000, 3:] = -1  # half of the records hold 3 pairs, the others 15
    records = Records(codes, (1,) * 6)
    universe = {key: np.array([0]) for key in combinations(range(6), 2)}
    sizes = records.sizes(universe)
    assert sizes[:3000].tolist() == [3] * 3000
    assert sizes[3000:].tolist() == [15] * 3000
    counts = records.count(universe, sizes, 5, SeededRandomness(4))
    total = {key: int(c[0]) for key, c in counts}
    assert sum(total.values()) == 3000 * 3 + 3000 * 5
    for key, count in total.items():
        mean = 1000 + (3000 if max(key) < 3 else 0)
        assert abs(count - mean) < 5 * (3000 * (1 / 3) * (2 / 3)) ** 0.5, key
    for key, count in records.count(universe, sizes, 15, SeededRandomness(4)):
        assert count.tolist() == [6000 if max(key) < 3 else 3000]


@pytest.mark.slow
def test_the_noise_s_largest_variance_bounds_the_limit_and_refuses_nothing() -> None:
    # A limit of 10 would ask for a variance of 10 · 2^26; nearly 2^28 is the most that is drawn.
    spend = Spend(Fraction(2, 1 << 26), 2, Fraction(1 << 10), Fraction(1, 10**6))
    records = Records(np.zeros((600_000, 10), np.int64), (1,) * 10)
    result = DpMarginals(spend, Fraction(1)).release(records, SeededRandomness(12))
    assert [level.limit for level in result.levels] == [3, 3]
    assert result.levels[0].variance == 3 * (1 << 26) + 3


def test_which_limits_are_possible_does_not_depend_on_the_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Check that one user with a value in an otherwise empty column does not widen the range."""
    limits = []

    def spy(sizes: np.ndarray, largest: int, *rest: object) -> int:
        limits.append(largest)
        return private_quantile(sizes, largest, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr("calmstream.estimators.central.dp_marginals.private_quantile", spy)
    codes = np.zeros((400, 3), np.int64)
    codes[:, 2] = -1
    for last in (-1, 0):
        codes[0, 2] = last
        radix = (1, 1, last + 1)
        DpMarginals(CLEAR).release(Records(codes.copy(), radix), SeededRandomness(13))
    assert limits == [3, 1, 3, 1]


def test_thresholds_are_the_paper_s_rounded_up() -> None:
    normal, delta = NormalDist(), 5e-7
    exact = 1 + 1600.5**0.5 * normal.inv_cdf((1 - delta) ** (1 / 16))
    assert unseen_threshold(Fraction(3201, 2), 16, Fraction(5, 10**7)) == int(exact) + 1
    threshold, bound = universe_threshold(Fraction(900), 40, 800, Fraction(1, 10))
    assert threshold == int(30 * normal.inv_cdf(1 - 0.1 * 40 / 800)) + 1
    assert bound <= 0.1 * 40
    # A certain tail: with a huge deviation and one candidate it may be negative, never wrong.
    assert universe_threshold(Fraction(4), 1, 1, Fraction(1, 2))[0] >= 0


def test_spurious_tuples_stay_within_their_bound_over_many_runs() -> None:
    # Columns come in equal pairs: two thirds of the cells of their pairs are held by nobody.
    rng = np.random.default_rng(10)
    base = rng.integers(0, 3, (600, 4))
    records = Records(np.concatenate([base, base], axis=1), (3,) * 8)
    method = DpMarginals(allocate("8", "1e-6", 3, 1), spurious=Fraction(1, 5))
    exact = [naive_counts(records, k) for k in (1, 2, 3)]
    spurious = np.zeros(4)
    bounds = np.zeros(4)
    allowed = np.zeros(4)
    for seed in range(repeats(10, 200)):
        result = method.release(records, SeededRandomness(1000 + seed))
        for level in result.levels:
            published = as_tuples(result, level.k)
            spurious[level.k] += sum(t not in exact[level.k - 1] for t in published)
            bounds[level.k] += level.spurious_bound
            if level.k > 1:
                allowed[level.k] += 0.2 * size(result.levels[level.k - 2].cells)
    assert spurious[1] == 0
    assert spurious[2] > 0  # the bound is put to the test
    for k in (2, 3):
        assert bounds[k] <= allowed[k] + 1e-9
        assert spurious[k] <= bounds[k] + 5 * bounds[k] ** 0.5, k


def test_remark_1_1_never_makes_a_tuple_up() -> None:
    records = table(500, 5, 11)
    method = DpMarginals(allocate("16", "1e-6", 3, 1), seen_only=True)
    for seed in range(20):
        result = method.release(records, SeededRandomness(seed))
        for level in result.levels:
            exact = naive_counts(records, level.k)
            assert set(as_tuples(result, level.k)) <= set(exact)
            assert level.candidates is None
            assert level.spurious_bound == 0.0
