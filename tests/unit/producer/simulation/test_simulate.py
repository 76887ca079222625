"""Check a table as a population: every device reports once, for its own view, in random order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from calmstream.broker.transport import Partition, Record
from calmstream.estimators.plan import Guarantee, Plan
from calmstream.estimators.tally import Tally
from calmstream.producer.gateway.encoding import EncodedBatch
from calmstream.producer.simulation.fleet import Fleet
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
    """Return the counts of the groups with GRR as they are without randomisation."""
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


def test_the_ledger_is_written_before_anything_is_perturbed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = make_plan()
    population = Population(plan, some_codes(100))

    def refuse(*_: object) -> None:
        raise OSError("no space")

    for mechanism in {type(m) for m in plan.mechanisms}:
        monkeypatch.setattr(
            mechanism, "perturb", lambda *_: pytest.fail("perturbed without a ledger entry")
        )
    monkeypatch.setattr(Fleet, "claim", refuse)
    with pytest.raises(OSError, match="no space"):
        list(encoded_batches(plan, population, 0))
