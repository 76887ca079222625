"""Every method with too few reports for any claim, or with none from a group, up to snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from calmstream.consumer.publish.build import build_set
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.estimators import methods
from calmstream.estimators.analysis.report import analyse, associate
from calmstream.estimators.marginal import is_noise
from calmstream.estimators.plan import Plan
from calmstream.estimators.planning import empty_tallies
from calmstream.estimators.tally import Tally
from calmstream.estimators.tracking.tracker import Tracker
from calmstream.estimators.wire.snapshot import Kind, MarginalRecord, decode
from calmstream.estimators.wire.state import WindowCount
from calmstream.evaluation.population import collect
from tests.support.plans import COLLECTED, draft, mixed_domain

PARAMETERS = {"inp-em": {"stop": "likelihood"}}


def planned(method: str, cards: tuple[int, ...], epsilon: str) -> Plan:
    return draft(mixed_domain(*cards), epsilon, 3000, 2, method, PARAMETERS.get(method))[0]


def counted(plan: Plan, devices: int) -> list[Tally]:
    random = np.random.default_rng(devices)
    shape = (devices, len(plan.domain))
    codes = random.integers(0, plan.domain.cardinalities, size=shape).astype(np.uint16)
    return collect(plan, codes, np.random.SeedSequence(1), exact=False)


def published(plan: Plan, tallies: Sequence[Tally]) -> list[MarginalRecord]:
    """Return the snapshots that readers get for these counts; check every table."""
    counts = tuple(WindowCount(tally) for tally in tallies)
    made = build_set(plan, MergedWindow(0, Kind.FINAL, (1,) * len(tallies), counts))
    records = [decode(value, plan) for _, value in made.tables()]
    for record in records:
        assert isinstance(record, MarginalRecord)
        table, stderr = np.array(record.table), np.array(record.stderr)
        assert np.isfinite(table).all()
        assert np.isfinite(stderr).all()
        assert (stderr >= 0).all()
        assert record.noise_floor == pytest.approx(np.square(stderr).sum())
        if "raw" not in record.flags:
            assert (table >= 0).all()
            assert table.sum() == pytest.approx(1.0, abs=1e-9)
    return records


def without_each_group(plan: Plan, tallies: list[Tally]) -> Iterator[list[Tally]]:
    nothing = empty_tallies(plan)
    for silent in range(len(tallies)):
        yield [nothing[g] if g == silent else tally for g, tally in enumerate(tallies)]


@pytest.mark.parametrize("epsilon", ["0.2", pytest.param("2", marks=pytest.mark.slow)])
@pytest.mark.parametrize("cards", [(2, 3, 2), (2, 2, 2, 2)])
@pytest.mark.parametrize("method", COLLECTED)
def test_a_handful_of_reports_makes_no_claim(
    method: str, cards: tuple[int, ...], epsilon: str
) -> None:
    plan = planned(method, cards, epsilon)
    for devices in (1, 3):
        records = published(plan, counted(plan, devices))
        assert len(records) == len(plan.marginals)
        for record in records:
            assert {"noise", "uniform"} & set(record.flags), record
            widest = 1.96 * max(record.stderr)
            assert widest > 0.35  # if all tables of four cells are equally likely: 0.38
            assert record.noise_floor > 0.05


@pytest.mark.parametrize("cards", [(2, 3, 2), (2, 2, 2, 2)])
@pytest.mark.parametrize("method", COLLECTED)
def test_a_silent_group_is_no_matter(method: str, cards: tuple[int, ...]) -> None:
    plan = planned(method, cards, "2")
    for left in without_each_group(plan, counted(plan, 3000)):
        for record in published(plan, left):
            if record.reports == 0:
                assert "uniform" in record.flags
    assert published(plan, empty_tallies(plan)) == []


@pytest.mark.parametrize("method", COLLECTED)
def test_every_method_that_collects_says_what_is_now(method: str) -> None:
    """Only methods for evaluation read single reports; all others take tracked counts."""
    plan = planned(method, (2, 2, 2, 2), "2")
    windows = [counted(plan, 3000 + window) for window in range(4)]
    tracker = Tracker(plan)
    for window, tallies in enumerate(windows):
        tracker.add(window, tallies)
    found, final = (published(plan, one) for one in (tracker.current().tallies, windows[-1]))
    assert sum(r.noise_floor for r in found) < 0.8 * sum(r.noise_floor for r in final)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("method", COLLECTED)
def test_the_association_is_a_number_whatever_is_missing(method: str) -> None:
    plan = replace(planned(method, (2, 3, 2), "2"), analysis=True)
    for devices in (1, 3, 3000):
        for left in without_each_group(plan, counted(plan, devices)):
            n = sum(int(tally.n.sum()) for tally in left)
            if n == 0:
                continue
            model = methods.get(method).fit(plan, left)
            for pair in analyse(model, plan.domain, plan.marginals, n)["pairs"]:
                numbers = [pair["mutual_information"], pair["cramers_v"]]
                numbers += pair.get("chi_square", {}).values()
                assert np.isfinite(numbers).all(), pair


@pytest.mark.parametrize("devices", [3, 30, 1000])
@pytest.mark.parametrize(
    "method", ["calm", "inp-olh", "inp-ps", "marg-ht", "marg-ps", "rr-joint", "rr-hybrid", "lopub"]
)
def test_noise_that_exceeds_every_table_is_no_dependence(method: str, devices: int) -> None:
    """Margins of such noise have a product that is larger than the noise of the cells."""
    plan = planned(method, (2, 3, 2), "0.2")
    random = np.random.default_rng(79)
    rejected = tests = 0
    for run in range(200):
        codes = random.integers(0, (2, 3, 2), size=(devices, 3)).astype(np.uint16)
        tallies = collect(plan, codes, np.random.SeedSequence((80, run)), exact=False)
        model = methods.get(method).fit(plan, tallies)
        result = associate(model, plan.domain, (0, 1), devices).test
        if result is not None:
            tests += 1
            rejected += result.dependent
    assert tests > 100
    assert rejected <= binom.isf(1e-6, tests, 0.05)


@pytest.mark.parametrize("method", COLLECTED)
def test_nothing_counted_is_uniform_for_whoever_asks(method: str) -> None:
    plan = planned(method, (2, 3, 2), "1")
    model = methods.get(method).fit(plan, empty_tallies(plan))
    for attributes in plan.marginals:
        answer = model.marginal(attributes)
        np.testing.assert_allclose(answer.table, 1 / answer.table.size)
        assert "uniform" in answer.flags
        assert answer.reports == 0
        assert answer.stderr.min() > 0.3


def test_noise_is_flagged_by_the_distance_and_by_its_own_size() -> None:
    near, far = np.array([0.52, 0.48]), np.array([0.9, 0.1])
    assert is_noise(near, np.full(2, 0.05))
    assert not is_noise(far, np.full(2, 0.05))
    assert not is_noise(far, np.full(2, 0.17))
    assert is_noise(far, np.full(2, 0.18))
