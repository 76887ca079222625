from __future__ import annotations

import numpy as np
import pytest

from calmstream.common.errors import InvalidInput
from calmstream.estimators.analysis.words import (
    MAX_CANDIDATES,
    BucketShares,
    Words,
    bucket_shares,
    candidates,
    decode,
    kind_of,
    reports,
    smallest_share,
)
from calmstream.estimators.domain import Domain
from calmstream.estimators.plan import Plan
from calmstream.estimators.planning import empty_tallies
from calmstream.estimators.tally import Tally
from tests.support.plans import draft

BUCKETS, HASHES = 64, 16
VERSIONS = (0.5, 0.3, 0.2)
DOMAIN = Domain.from_json(
    [
        {"name": "version", "labels": ["1", "2", "3"]},
        {"name": "crash", "kind": "hashed", "buckets": BUCKETS, "hashes": HASHES},
    ]
)
PLAN = draft(DOMAIN, users=1_000_000, method="calm")[0]


def words(count: int, name: str = "word") -> list[bytes]:
    return [f"{name} {i}".encode() for i in range(count)]


def exact(shares: np.ndarray, places: np.ndarray, noise: float, seed: int = 0) -> BucketShares:
    """Estimates of a population with these words, with normal noise of this variance."""
    values = np.random.default_rng(seed).normal(0, noise**0.5, (HASHES, BUCKETS))
    for j in range(HASHES):
        values[j] += np.bincount(places[:, j], shares, BUCKETS)
    values -= values.mean(axis=1, keepdims=True)
    return BucketShares(1.0, values, np.full((HASHES, BUCKETS), max(noise, 1e-15)))


def collected(plan: Plan, shares: np.ndarray, texts: list[bytes]) -> list[Tally]:
    """Tallies of devices of which half of version 3 and nobody else has the first word."""
    random = np.random.default_rng(1)
    places = kind_of(plan, "crash").all_buckets(texts)
    joint = np.outer(VERSIONS, shares)
    joint[:, 0] = [0.0, 0.0, shares[0]]
    # Who has no word has a random bucket.
    rest = np.array(VERSIONS) - joint.sum(axis=1)
    tallies = empty_tallies(plan)
    for tally, group, mechanism in zip(tallies, plan.groups, plan.mechanisms, strict=True):
        for v, view in enumerate(group.views):
            table = np.tile(rest[:, None] / BUCKETS, (1, BUCKETS))
            if view.attributes[-1] > 0:
                own = places[:, view.attributes[-1] - 1]
                table += [np.bincount(own, row, BUCKETS) for row in joint]
            if view.attributes == (0,):
                table = table.sum(axis=1)
            elif len(view.attributes) == 1:
                table = table.sum(axis=0)
            n = plan.users * group.shares[v] // plan.total_share
            tally.n[v] = n
            cells = random.multinomial(n, table.ravel() / table.sum())
            tally.counts[v] = mechanism.draw_tally(cells, random)
    return tallies


def held(found: Words, truth: np.ndarray) -> float:
    return float((np.abs(found.shares - truth) <= 1.96 * found.stderr).mean())


def test_shares_are_those_of_the_devices_and_intervals_hold() -> None:
    shares = 0.9 / np.arange(1, 401)
    shares *= 0.4 / shares.sum()
    texts = words(400)
    tallies = collected(PLAN, shares, texts)
    places = kind_of(PLAN, "crash").all_buckets([*texts, *words(1600, "absent")])
    truth = np.concatenate([shares, np.zeros(1600)])
    found = decode(bucket_shares(PLAN, tallies, "crash")[0], places)
    assert found.seen[0]
    assert found.shares[0] == pytest.approx(shares[0], rel=0.1)
    assert not found.seen[400:].any()
    assert 0.93 < held(found, truth) < 0.995
    assert reports(PLAN, tallies, "crash") == pytest.approx(667_000, rel=0.01)


def test_within_a_label_shares_are_joint_with_it() -> None:
    shares = np.array([0.1, *[0.02] * 10])
    texts = words(11)
    tallies = collected(PLAN, shares, texts)
    places = kind_of(PLAN, "crash").all_buckets(texts)
    found = [decode(one, places) for one in bucket_shares(PLAN, tallies, "crash", given=0)]
    shown = bucket_shares(PLAN, tallies, "crash", given=0)
    assert [one.share for one in shown] == pytest.approx(VERSIONS, abs=0.05)
    assert [bool(one.seen[0]) for one in found] == [False, False, True]
    assert found[2].shares[0] == pytest.approx(0.1, abs=4 * found[2].stderr[0])
    truth = np.outer(VERSIONS, shares)
    truth[:, 0] = [0.0, 0.0, 0.1]
    assert np.mean([held(one, own) for one, own in zip(found, truth, strict=True)]) > 0.9


def test_large_words_are_taken_out_of_the_buckets_of_others() -> None:
    places = np.random.default_rng(2).integers(0, BUCKETS, (500, HASHES))
    shares = np.array([0.4, 0.2, 0.1, 0.05, 0.02, *np.zeros(495)])
    found = decode(exact(shares, places, 1e-7), places)
    assert np.flatnonzero(found.seen).tolist() == [0, 1, 2, 3, 4]
    assert found.shares == pytest.approx(shares, abs=5 * (1e-7 / HASHES) ** 0.5)
    assert found.unexplained == 0.0


def test_what_no_candidate_explains_is_said_however_many_there_are() -> None:
    places = np.random.default_rng(3).integers(0, BUCKETS, (3001, HASHES))
    shares = np.zeros(3001)
    shares[0], shares[1] = 0.24, 0.1
    made = exact(shares, places, 1e-6)
    found = decode(made, places[1:])  # three times as many candidates as equations
    assert np.flatnonzero(found.seen).tolist() == [0]
    assert found.unexplained == pytest.approx(0.24, rel=0.05)
    assert decode(made, places).unexplained == 0.0
    assert found.shares[0] == pytest.approx(0.1, abs=0.01)


def test_noise_alone_has_no_words() -> None:
    places = np.random.default_rng(4).integers(0, BUCKETS, (20_000, HASHES))
    found = [decode(exact(np.zeros(1), places[:1], 1e-5, seed), places) for seed in range(10)]
    assert sum(int(one.seen.sum()) for one in found) <= 3  # one is expected
    assert [one.unexplained for one in found] == [0.0] * 10


def test_candidates_that_cannot_be_told_apart_are_flagged() -> None:
    places = np.random.default_rng(6).integers(0, BUCKETS, (50, HASHES))
    places[1] = places[0]
    places[3, :8] = places[2, :8]
    found = decode(exact(np.array([0.2, 0, 0.2, 0, 0.1, *[0] * 45]), places, 1e-6), places)
    assert found.seen[:2].sum() == 1
    assert found.collides.tolist() == [*found.seen[:2].tolist(), True, *[False] * 47]
    assert found.seen[4]


def test_intervals_take_in_collisions_with_words_that_are_not_seen() -> None:
    places = np.random.default_rng(7).integers(0, BUCKETS, (1300, HASHES))
    made = exact(np.full(300, 0.003), places[:300], 1e-9)
    found = decode(made, places[300:])
    assert not found.seen.any()
    assert held(found, np.zeros(1000)) > 0.93
    assert found.shares.max() > 1e-3


def test_no_reports_say_nothing() -> None:
    (nothing,) = bucket_shares(PLAN, empty_tallies(PLAN), "crash")
    found = decode(nothing, kind_of(PLAN, "crash").all_buckets(words(10)))
    assert not found.seen.any()
    assert np.isfinite(found.shares).all()


def test_lists_of_candidates() -> None:
    texts, raw = candidates(["a", "", "e\u0301", "\u00e9", "a"])
    assert texts == ["a", "e\u0301"]
    assert raw == [b"a", "\u00e9".encode()]
    for bad, why in (
        ([], "0 candidates"),
        (["", ""], "0 candidates"),
        (["a", "x" * 2**20], "candidate 2"),
        (map(str, range(MAX_CANDIDATES + 1)), "1,000,001 candidates"),
    ):
        with pytest.raises(InvalidInput, match=why):
            candidates(list(bad))
    with pytest.raises(InvalidInput, match="there are crash"):
        kind_of(PLAN, "version")


def test_the_smallest_share_is_four_errors() -> None:
    tallies = collected(PLAN, np.array([1e-6]), words(1))
    found = decode(
        bucket_shares(PLAN, tallies, "crash")[0], kind_of(PLAN, "crash").all_buckets(words(1))
    )
    assert smallest_share(PLAN, "crash") == pytest.approx(4 * found.stderr[0], rel=0.03)
    assert smallest_share(PLAN, "crash") == pytest.approx(found.limit, rel=0.03)
