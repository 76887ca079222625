from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from calmstream.estimators import methods
from calmstream.estimators.arrays import Floats
from calmstream.estimators.domain import Domain
from calmstream.estimators.methods.base import Request
from calmstream.estimators.plan import Guarantee, Plan
from calmstream.estimators.planning import empty_tallies
from calmstream.estimators.tally import Tally
from calmstream.estimators.tracking import series
from calmstream.estimators.tracking.candidates import LevelCandidates
from calmstream.estimators.tracking.tracker import Current, Tracker, phases
from calmstream.evaluation.population import collect, local_plan
from tests.support.plans import draft, mixed_domain

DAY = 86_400
NO_SEASON = 60  # seconds of a window
WINDOWS = 120


def only(discount: float) -> Any:
    """Let trackers have one discount and no other."""
    return patch.object(series, "DISCOUNTS", (discount,))


def plan_of(
    users: int, window: int = DAY, epsilon: str = "1", guarantee: Guarantee | None = None
) -> Plan:
    terms = {"window": window, "guarantee": guarantee or Guarantee()}
    domain = mixed_domain(2, 3, 2)
    return draft(domain, epsilon, users, windows=10_000, grace=0, skew=0, **terms)[0]


def law(share: float) -> Floats:
    b = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
    table = np.array([share, 1 - share])[:, None, None] * b[..., None] * np.array([0.7, 0.3])
    return np.asarray(table.ravel())


def stream(plan: Plan, shares: Floats, seed: int) -> Iterator[list[Tally]]:
    generator = np.random.default_rng(seed)
    for share in shares:
        yield perturbed(plan, histograms(plan, law(share), generator), generator)


def histograms(plan: Plan, records: Floats, generator: np.random.Generator) -> list[Floats]:
    """Draw devices: how many of each view hold each of its inputs, per group."""
    weights = np.diff(plan.cumulative_shares, prepend=0) / plan.total_share
    codes = np.stack(np.unravel_index(np.arange(len(records)), plan.domain.cardinalities), 1)
    n = iter(generator.multinomial(plan.users, weights).tolist())
    found = []
    for group, mechanism in zip(plan.groups, plan.mechanisms, strict=True):
        rows = []
        for view in group.views:
            inputs = view.inputs(codes.astype(np.uint16), plan.domain)
            table = np.bincount(inputs, records, mechanism.cells)
            rows.append(generator.multinomial(next(n), table / table.sum()))
        found.append(np.stack(rows))
    return found


def perturbed(plan: Plan, devices: list[Floats], generator: np.random.Generator) -> list[Tally]:
    return [
        Tally(held.sum(axis=1), np.stack([m.draw_tally(row, generator) for row in held]))
        for held, m in zip(devices, plan.mechanisms, strict=True)
    ]


def error(
    plan: Plan, tallies: tuple[Tally, ...] | list[Tally], share: float
) -> tuple[float, float]:
    squares, inside = 0.0, []
    records = np.stack(np.unravel_index(np.arange(12), plan.domain.cardinalities), 1)
    for group, mechanism, tally in zip(plan.groups, plan.mechanisms, tallies, strict=True):
        for view, n, counts in zip(group.views, tally.n, tally.counts, strict=True):
            inputs = view.inputs(records.astype(np.uint16), plan.domain)
            truth = np.bincount(inputs, law(share), mechanism.cells).astype(float)
            found = mechanism.estimate(counts, int(n))
            spread = mechanism.variance(int(n), truth) + truth * (1 - truth) / n
            squares += float(np.square(found - truth).sum())
            inside += (np.abs(found - truth) <= 1.96 * np.sqrt(spread)).tolist()
    return squares, float(np.mean(inside))


def dense_posterior(discount: float, y: Floats, n: Floats) -> tuple[float, float]:
    """Return mean and precision of the last level from the joint distribution of all levels.

    The step to window t has 1/d - 1 times the variance of the posterior at t - 1, and an estimate
    of n reports has the variance 1/n.
    """
    precision = np.zeros((len(y), len(y)))
    weighted = n * y
    for t in range(len(y)):
        if t:
            posterior = np.linalg.inv(precision[:t, :t])[-1, -1]
            step = 1 / ((1 / discount - 1) * posterior)
            precision[t, t] += step
            precision[t - 1, t - 1] += step
            precision[t, t - 1] -= step
            precision[t - 1, t] -= step
        precision[t, t] += n[t]
    covariance = np.linalg.inv(precision)
    return float((covariance @ weighted)[-1]), float(1 / covariance[-1, -1])


@pytest.mark.parametrize("discount", [0.25, 0.75, 0.9375])
def test_a_level_is_the_posterior_of_a_random_walk(discount: float) -> None:
    generator = np.random.default_rng(5)
    n, y = generator.integers(50, 500, 8).astype(float), generator.random(8)
    levels = LevelCandidates((discount,), np.zeros(1), 1)
    for t in range(8):
        levels.add(t, n[t : t + 1], (n * y)[t : t + 1, None], np.zeros(1, bool))
        mean, worth = dense_posterior(discount, y[: t + 1], n[: t + 1])
        assert levels.now().mean[0, 0, 0] == pytest.approx(mean, rel=1e-9)
        assert levels.now().n[0, 0] == pytest.approx(worth, rel=1e-9)


@pytest.mark.parametrize("discount", [0.25, 0.75, 0.9375])
def test_drift_stays_where_views_are_averaged(discount: float) -> None:
    """Four views follow one walk: their mean has all of its drift, and a quarter of the noise."""
    generator, views, windows, n = np.random.default_rng(5), 4, 8_000, 100.0
    posterior = (1 - discount) / n
    steps = generator.normal(0, np.sqrt((1 / discount - 1) * posterior), windows).cumsum()
    seen = steps[:, None] + generator.normal(0, n**-0.5, (windows, views))
    levels, errors = LevelCandidates((discount,), np.zeros(views), 1), []
    for t in range(windows):
        levels.add(t, np.full(views, n), n * seen[t][:, None], np.zeros(views, bool))
        errors.append(levels.now().mean[0, :, 0].mean() - steps[t])
    share = levels.drift()[0, 0]
    assert share == pytest.approx(discount / (1 + discount))
    expected = posterior * (share + (1 - share) / views)
    assert np.mean(np.square(errors[100:])) == pytest.approx(expected, rel=0.1)


def following(
    plan: Plan, shares: Floats, seed: int, first: int = 0
) -> Iterator[tuple[float, list[Tally], Current]]:
    """Yield the share, the tallies and what is known after each window from the first on."""
    tracker = Tracker(plan)
    for window, tallies in enumerate(stream(plan, shares, seed)):
        tracker.add(window, tallies)
        if window >= first:
            yield shares[window], tallies, tracker.current()


def tracked(plan: Plan, shares: Floats, seed: int) -> Current:
    return next(following(plan, shares, seed, len(shares) - 1))[2]


@only(0.75)
def test_what_a_plan_states_contains_the_drift_of_views_that_are_combined() -> None:
    found = tracked(plan_of(3_000, NO_SEASON), np.full(30, 0.4), 1)
    # Each attribute of a view is in one other view.
    assert found.variance == pytest.approx(1 + 0.75 / 1.75, rel=0.01)


@pytest.mark.parametrize("discount", [0.0, 1.0])
def test_the_ends_are_the_final_and_the_total(discount: float) -> None:
    total: list[Tally] = []
    with only(discount):
        for _, tallies, found in following(plan_of(3_000, NO_SEASON), np.full(20, 0.4), 1):
            total = [a + b for a, b in zip(total, tallies, strict=True)] if total else tallies
            assert list(found.tallies) == (total if discount else tallies)


def test_windows_that_were_not_counted_are_stated() -> None:
    plan = plan_of(3_000)
    tracker = Tracker(plan)
    for window, tallies in zip((3, 4, 7), stream(plan, np.full(3, 0.4), 1), strict=True):
        tracker.add(window, tallies)
    stated = tracker.current().to_json()
    assert (stated["since"], stated["missing"]) == (3, 2)
    assert stated["reports"] == [int(n) for t in tracker.current().tallies for n in t.n]


def test_missing_windows_count_as_time() -> None:
    levels = LevelCandidates((0.5,), np.zeros(1), 1)
    levels.add(0, np.array([100.0]), np.array([[40.0]]), np.zeros(1, bool))
    levels.add(3, np.array([10.0]), np.array([[5.0]]), np.zeros(1, bool))
    assert levels.now().n[0, 0] == 100 / 8 + 10


def test_views_say_together_that_their_attribute_moves() -> None:
    """Twelve views of few reports each hold the attribute that moves; each alone sees nothing."""
    domain = Domain.binary(13)
    plan = local_plan(methods.get("calm"), Request(domain, "1", 6_000, 2))
    plan = replace(plan, window=NO_SEASON, expires=NO_SEASON * 200)
    tracker, generator = Tracker(plan), np.random.default_rng(3)
    for t in range(100):
        codes = generator.integers(0, 2, (plan.users, len(domain))).astype(np.uint16)
        codes[:, 0] = generator.random(plan.users) < 0.3 + 0.4 * (t > 60) * min(t - 60, 20) / 20
        tracker.add(t, collect(plan, codes, np.random.SeedSequence((4, t)), exact=True))
    current = tracker.current()
    holds = [0 in view.attributes for group in plan.groups for view in group.views]
    moved, rest = np.mean(current.windows[holds]), np.mean(current.windows[np.invert(holds)])
    assert moved < 3 < 0.2 * rest


STREAMS = {
    "flat": np.full(WINDOWS, 0.4),
    "sine": 0.5 + 0.3 * np.sin(2 * np.pi * np.arange(WINDOWS) / 60),
    "weekly": 0.3 + 0.3 * (np.arange(WINDOWS) % 7 >= 5),
    "release": 0.3 + 0.4 * (np.arange(WINDOWS) >= 70),
}


@pytest.mark.parametrize("name", STREAMS)
def test_current_is_nearer_to_now_than_a_final_and_its_intervals_hold(name: str) -> None:
    plan, errors = plan_of(20_000), []
    for share, tallies, found in following(plan, STREAMS[name], 7, 20):
        final, _ = error(plan, tallies, share)
        errors.append((final, *error(plan, found.reduced(), share)))
    final, ours, held = np.mean(errors, axis=0)
    assert ours < 0.6 * final
    assert held > 0.9


def test_a_release_begins_anew_and_a_quiet_stream_does_not() -> None:
    plan = plan_of(20_000)
    for name, first in (("flat", 0), ("release", 70)):
        views = [view for group in plan.groups for view in group.views]
        anew = zip(views, tracked(plan, STREAMS[name], 3).anew, strict=True)
        # The release changes `a0`, and `a1` a little.
        assert {began for view, began in anew if 0 in view.attributes} == {first}


@only(15 / 16)
def test_intervals_follow_labels_that_lag() -> None:
    """Where a discount follows tables that mostly stand still, those that move are not missed."""
    plan, held = plan_of(60_000, NO_SEASON), []
    for share, _, found in following(plan, STREAMS["sine"], 7, 61):
        held.append(error(plan, found.reduced(), share)[1])
    assert np.mean(held) > 0.85
    assert found.to_json()["misfit"]


def test_a_season_is_learnt() -> None:
    errors = []
    for plan in (plan_of(20_000), plan_of(20_000, NO_SEASON)):
        found = following(plan, STREAMS["weekly"], 4, 61)
        errors.append(np.mean([error(plan, now.tallies, share)[0] for share, _, now in found]))
    assert errors[0] < 0.7 * errors[1]


@only(1.0)
def test_what_no_candidate_explains_widens_the_intervals() -> None:
    shares = 0.3 + 0.05 * (np.arange(WINDOWS) % 5 >= 3)
    current = tracked(plan_of(200_000, NO_SEASON), shares, 4)
    assert current.misfit.max() > 1.2
    worth = np.concatenate([tally.n for tally in current.reduced()])
    assert worth[current.misfit.argmax()] < 200_000 * WINDOWS / len(worth)


def test_windows_without_reports_change_nothing_but_time() -> None:
    plan = plan_of(20_000)
    tracker = Tracker(plan)
    empty = empty_tallies(plan)
    tracker.add(0, empty)
    assert sum(tally.reports for tally in tracker.current().tallies) == 0
    for t, tallies in enumerate(stream(plan, np.full(30, 0.4), 2), 1):
        tracker.add(t, tallies)
    before = sum(tally.reports for tally in tracker.current().tallies)
    tracker.add(31, empty)
    after = tracker.current()
    assert 0.5 * before < sum(tally.reports for tally in after.tallies) <= before
    assert np.isfinite(after.misfit).all()


@pytest.mark.parametrize(
    ("window", "count"),
    [(3600, 24), (6 * 3600, 4), (DAY, 7), (7 * DAY, 0), (60, 0), (7000, 0), (2 * DAY, 0)],
)
def test_phases(window: int, count: int) -> None:
    assert phases(window) == count


@only(1.0)
@pytest.mark.parametrize(("epsilon", "counts"), [("0.5", False), ("3", True)])
def test_devices_that_come_back_are_no_new_sample(epsilon: str, counts: bool) -> None:
    """Every fourth window has the same devices; the intervals are about those that could have been.

    Most of the noise of epsilon 0.5 is fresh in every report, most of that of epsilon 3 is not.
    """
    cycle, plan = 4, plan_of(4_000, NO_SEASON, epsilon, Guarantee("w-event", 4))
    held, generator = [], np.random.default_rng(6)
    for _ in range(12):
        tracker = Tracker(plan)
        fleet = [histograms(plan, law(0.4), generator) for _ in range(cycle)]
        for window in range(48):
            tracker.add(window, perturbed(plan, fleet[window % cycle], generator))
        found = tracker.current()
        held.append(error(plan, found.reduced(), 0.4)[1])
        assert found.repeats == pytest.approx(48 / cycle)
        assert bool(found.variance.min() > 2) is counts
    assert np.mean(held) > 0.88
