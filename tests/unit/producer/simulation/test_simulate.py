"""Check a table as a population: every device reports once, for its own view, in random order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from calmstream.broker.transport import Partition, Record
from calmstream.estimators.plan import Guarantee, Plan
from calmstream.estimators.tally import Tally
from calmstream.producer.device.assignment import place
from calmstream.producer.device.ledger import DeviceState, status
from calmstream.producer.device.policy import Status
from calmstream.producer.gateway.encoding import EncodedBatch
from calmstream.producer.simulation.simulate import Population
from tests.support.producer import count, make_plan, some_codes


def tallies(plan: Plan, batches: Iterable[EncodedBatch]) -> dict[tuple[int, int], Tally]:
    return count(
        plan,
        (
            (b.group, Record(Partition("t", 0), i, 0, True, b.batch_id, b.value))
            for i, b in enumerate(batches)
        ),
    )


def truth(plan: Plan, population: Population, codes: np.ndarray) -> dict[int, Tally]:
    out = {}
    for g in (0, 2):
        views = plan.groups[g].views
        counts, n = [], []
        for v, view in enumerate(views):
            members = population.flat == plan.first_view[g] + v
            cells = view.inputs(codes[members], plan.domain)
            counts.append(np.bincount(cells, minlength=plan.mechanisms[g].cells))
            n.append(members.sum())
        out[g] = Tally(np.array(n), np.array(counts))
    return out


def encoded_batches(
    plan: Plan, population: Population, window: int, batch_size: int = 1000
) -> Iterator[EncodedBatch]:
    assert plan is population.plan
    return population.reports(window, population.due(window), batch_size)


def test_without_noise_the_counts_are_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, codes = make_plan(), some_codes(3000)
    for g in (0, 2):
        monkeypatch.setattr(
            type(plan.mechanisms[g]), "perturb", lambda _, values, __: {"v": np.asarray(values)}
        )
    population = Population(plan, codes)
    counts = tallies(plan, encoded_batches(plan, population, 2, batch_size=100))
    assert {w for _, w in counts} == {2}
    expected = truth(plan, population, codes)
    assert counts[0, 2] == expected[0]
    assert counts[2, 2] == expected[2]
    assert sum(t.reports for t in counts.values()) == 3000


def test_w_event_devices_report_once_in_every_w_windows() -> None:
    plan = make_plan(guarantee=Guarantee("w-event", 3), windows=12)
    population = Population(plan, some_codes(900))
    who = []
    for window in range(12):
        who.append(set(population.due(window).tolist()))
        assert sum(b.n for b in encoded_batches(plan, population, window)) == len(who[-1])
        assert not population.due(window).size
    for start in range(10):
        assert sorted(x for w in who[start : start + 3] for x in w) == list(range(900))
    assert [who[w] == who[w % 3] for w in range(12)] == [True] * 12
    assert not population.finished(11)
    assert population.finished(12)


@pytest.mark.parametrize("guarantee", [Guarantee(), Guarantee("w-event", 3)])
def test_the_rules_are_those_of_one_device(guarantee: Guarantee) -> None:
    plan, dice = make_plan(guarantee=guarantee, windows=12), np.random.default_rng(5)
    population = Population(plan, some_codes(60))
    states = [DeviceState(secret) for secret in population.secrets]
    for window in range(12):
        now, due = plan.window_start(window), population.due(window)
        alone = [
            status(plan, place(plan, s.secret).slot, s.under(plan.lineage), now) for s in states
        ]
        assert due.tolist() == [i for i, one in enumerate(alone) if one is Status.READY]
        some = due[dice.random(len(due)) < 0.5]
        assert sum(batch.n for batch in population.reports(window, some)) == len(some)
        for i in some:
            states[i] = states[i].spend(plan, window)
