from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from calmstream.estimators.analysis import poisoning
from calmstream.estimators.analysis.poisoning import ALPHA, examine
from calmstream.estimators.domain import Domain
from calmstream.estimators.plan import Guarantee, Plan
from calmstream.estimators.tally import Tally
from tests.support.attacks.forgery import honest, skewed, with_forged
from tests.support.plans import draft, mixed_domain

WINDOWS, FEWER = 1000, 250
USERS = 60_000


def plan_with(mechanism: str) -> Plan:
    """Return a plan with views of these sizes; 4 cells get GRR, 16 or more OUE."""
    if mechanism == "grr":
        return draft(Domain.binary(5), "2", USERS, 2)[0]
    return draft(mixed_domain(4, 5, 3, 4), "1", USERS, 2)[0]


@pytest.mark.parametrize(
    ("mechanism", "windows"),
    [("oue", FEWER), *(pytest.param(m, WINDOWS, marks=pytest.mark.slow) for m in ("grr", "oue"))],
)
def test_honest_reports_are_seldom_suspected(mechanism: str, windows: int) -> None:
    plan = plan_with(mechanism)
    assert {m.name for m in plan.mechanisms} == {mechanism}
    generator = np.random.Generator(np.random.PCG64(20261120))
    p_values = []
    for _ in range(windows):
        truth = skewed(plan.domain, generator)
        p_values.append(examine(plan, honest(plan, truth, USERS, generator)))
    tests = {f.test for one in p_values for f in one.findings}
    assert tests == {"shares", "agreement", "cells"} | ({"totals"} if mechanism == "oue" else set())
    # Calibrated where it can be seen with so many windows: at most 1 % below 1 %, give or take.
    for level in (0.01, 0.05):
        count = sum(one.p < level for one in p_values)
        assert stats.binom.sf(count - 1, windows, level) > 1e-6, (level, count)
    assert sum(one.suspicious for one in p_values) <= 2
    for test in tests - {"cells"}:
        p = [f.p for one in p_values for f in one.findings if f.test == test]
        low = sum(x < 0.05 for x in p)
        assert stats.binom.sf(low - 1, windows, 0.05) > 1e-6, (test, low)


@pytest.mark.parametrize(
    ("mechanism", "runs"),
    [("grr", 60), *(pytest.param(m, 150, marks=pytest.mark.slow) for m in ("grr", "oue"))],
)
def test_devices_that_report_several_times_are_seldom_suspected(mechanism: str, runs: int) -> None:
    """Under w-event a running total holds every device many times."""
    plan = replace(plan_with(mechanism), guarantee=Guarantee("w-event", 3))
    generator = np.random.Generator(np.random.PCG64(20261123))
    repeats = 40
    found, naive = [], 0
    for _ in range(runs):
        truth = skewed(plan.domain, generator)
        tallies = honest(plan, truth, 20_000, generator, repeats)
        found.append(examine(plan, tallies, 3 * repeats))
        naive += examine(plan, tallies).suspicious
    assert naive > runs // 2, "the tests of one window do not hold for a total"
    assert sum(one.suspicious for one in found) <= 2
    for test in ("shares", "agreement"):
        low = sum(f.p < 0.05 for one in found for f in one.findings if f.test == test)
        assert stats.binom.sf(low - 1, runs, 0.05) > 1e-6, (test, low)
        if test == "shares":
            assert stats.binom.cdf(low, runs, 0.05) > 1e-6, "the distribution is exact"


@pytest.mark.parametrize("mechanism", ["grr", "oue"])
@pytest.mark.parametrize("attack", ["mga", "rpa"])
def test_forged_reports_in_one_group_are_seen(mechanism: str, attack: str) -> None:
    """Check forged reports in one group: 5 % of all reports, at most as many as its honest ones."""
    plan = plan_with(mechanism)
    generator = np.random.Generator(np.random.PCG64(3))
    suspicious = 0
    for _ in range(40):
        tallies = honest(plan, skewed(plan.domain, generator), USERS, generator)
        suspicious += examine(plan, with_forged(tallies, plan, 0, USERS // 20, attack)).suspicious
    assert suspicious == 40


@pytest.mark.parametrize("mechanism", ["grr", "oue"])
def test_forged_reports_that_replace_honest_ones_show_in_the_tables(mechanism: str) -> None:
    """The group keeps its size, so only its counts can show the attack."""
    plan = plan_with(mechanism)
    generator = np.random.Generator(np.random.PCG64(4))
    suspicious, by = 0, []
    for _ in range(40):
        truth = skewed(plan.domain, generator)
        tallies = honest(plan, truth, USERS, generator)
        first = tallies[0].n[0]
        forged = int(first) // 4
        view = plan.groups[0].views[0].attributes
        distribution = truth.sum(axis=tuple(i for i in range(truth.ndim) if i not in view)).ravel()
        histogram = generator.multinomial(first - forged, distribution / distribution.sum())
        kept = plan.mechanisms[0].draw_tally(histogram, generator)
        tallies[0] = Tally(np.array([first - forged]), kept[None, :])
        examination = examine(plan, with_forged(tallies, plan, 0, forged, "mga"))
        suspicious += examination.suspicious
        by += [f.test for f in examination.findings if f.p < ALPHA / 4]
    assert suspicious >= 36
    assert "shares" not in by
    assert "agreement" in by


def test_the_binomial_tail_is_right() -> None:
    for n, p, least in [(100, 3e-5, 1), (1000, 3e-5, 3), (10, 0.2, 4)]:
        expected = stats.binom.sf(least - 1, n, p)
        assert poisoning._binomial_tail(n, p, least) == pytest.approx(expected, rel=1e-6)
