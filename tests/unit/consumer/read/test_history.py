"""Questions answered from kept counts, against the tables that the publisher made itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Partition
from calmstream.common.errors import FatalError, ForeignRecord, InvalidInput, PlanError
from calmstream.consumer.read.history import History
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.estimators import methods
from calmstream.estimators.plan import Guarantee
from calmstream.estimators.wire.counts import decode_counts, encode_counts
from calmstream.estimators.wire.snapshot import Kind
from tests.support.publisher import Bench, count_of, published_plan, work
from tests.support.serving import asking, filled, recount


@pytest.fixture(scope="module")
def bench() -> Bench:
    return filled()


def snapshot(bench: Bench, window: int, kind: Kind) -> Snapshot:
    return next(s for s in bench.shown() if (s.window, s.kind) == (window, kind))


@pytest.mark.parametrize(
    ("windows", "window", "kind"),
    [
        ("total", 2, Kind.TOTAL),
        ("latest", 2, Kind.FINAL),
        ("1", 1, Kind.FINAL),
        ("current", 2, Kind.CURRENT),
    ],
)
def test_a_published_table_is_answered_as_it_was_published(
    bench: Bench, windows: str, window: int, kind: Kind
) -> None:
    published = snapshot(bench, window, kind)
    with asking(bench) as history:
        answer = history.ask(["a0", "a1"], windows)
    record = published.record("a0", "a1")
    assert answer.table.ravel() == pytest.approx(np.array(record.table), abs=1e-12)
    assert answer.stderr.ravel() == pytest.approx(np.array(record.stderr), rel=1e-9)
    assert answer.revision == published.revision
    assert answer.reports == record.reports
    assert set(record.flags) - {"suspicious"} <= set(answer.flags)


def test_axes_come_in_the_order_asked_for(bench: Bench) -> None:
    with asking(bench) as history:
        one, other = history.ask(["a0", "a2"]), history.ask(["a2", "a0"])
    assert other.attributes == ("a2", "a0")
    assert np.array_equal(one.table.T, other.table)
    assert np.array_equal(one.stderr.T, other.stderr)


def test_a_range_is_fitted_to_the_sum_of_its_windows(bench: Bench) -> None:
    plan = bench.plan
    tallies = []
    for group in range(3):
        logs = [log for log in bench.logs if log.group == group]
        tallies.append(
            count_of([c for log in logs for w in (1, 2) for c in log.cells(9999, w)]).tally
        )
    expected = methods.get(plan.method).fit(plan, tallies).marginal((0, 2))
    with asking(bench) as history:
        answer = history.ask(["a0", "a2"], "1..2")
    assert answer.table.ravel() == pytest.approx(expected.table, abs=1e-12)


def test_after_a_window_that_is_not_kept_windows_are_added() -> None:
    bench = filled()
    with asking(bench) as history:
        table = history.ask(["a0"], "1..2").table
        del history._kept._records[0]
        history._kept._counted.clear()
        assert np.array_equal(history.ask(["a0"], "1..2").table, table)


def test_damaged_counts_are_left_out_of_what_is_known_now() -> None:
    bench = filled()
    where = Partition(bench.names.counts, 0)
    key, value = next((r.key, r.value) for r in bench.broker.records(where) if r.key == b"1/0000")
    header, _, body = (value or b"").partition(b"\n")
    bench.sink.send(bench.names.counts, key, header + b"\n" + body[:-4], partition=0).wait(5)
    with asking(bench) as history:
        now = history.ask(["a0"], "current")
        with pytest.raises(ForeignRecord, match="damaged"):
            history.ask(["a0"], "1")
    assert now.reports > 0
    assert np.isfinite(now.table).all()


def test_running_totals_bridge_windows_that_are_not_kept() -> None:
    bench = filled()
    with asking(bench) as history:
        before = history.ask(["a0"], "1..2").table
    recount(bench, lambda key: not key.startswith(b"1/"))
    with asking(bench) as history:
        assert history.windows() == [0, 2]
        assert np.array_equal(history.ask(["a0"], "1..2").table, before)
        with pytest.raises(InvalidInput, match="window 1 is not kept: its counts are missing"):
            history.ask(["a0"], "1")


def test_a_method_that_cannot_answer_refuses_when_it_is_asked(bench: Bench) -> None:
    plan = replace(bench.plan, method="rr-clusters")
    names = TopicNames.of(plan, bench.names.namespace)
    bench.topics.create([s for s in names.specs(0) if s.name == names.counts])
    for record in bench.broker.records(Partition(bench.names.counts, 0)):
        value = encode_counts(plan, decode_counts(bench.plan, record.value or b""))
        bench.sink.send(names.counts, record.key, value, partition=0).wait(5)
    with History(plan, bench.broker, namespace=bench.names.namespace) as history:
        assert history.windows() == [0, 1, 2]
        with pytest.raises(PlanError, match="rr-clusters needs exactly one group"):
            history.ask(["a0"])


def test_without_the_topic_the_remedy_is_named() -> None:
    bench = filled()
    bench.topics.delete([bench.names.counts])
    with (
        asking(bench) as history,
        pytest.raises(FatalError, match="retired with its counts"),
    ):
        history.ask(["a0"])


def test_a_range_is_fitted_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    fits = []
    real = methods.get(bench.plan.method)

    class Counting:
        def fit(self, *given: object) -> object:
            fits.append(given)
            return real.fit(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(methods, "get", lambda _name: Counting())
    with asking(bench) as history:
        history.ask(["a0"], "1..2")
        once = len(fits)
        for attributes in (["a0"], ["a1"], ["a0", "a2"]):
            history.ask(attributes, "1..2", group="a0=0|1" if "a0" in attributes else "")
        assert len(fits) == once > 0
        history.ask(["a0"], "1")
    assert len(fits) > once


def test_a_difference_is_of_two_independent_tables(bench: Bench) -> None:
    with asking(bench) as history:
        after, before = history.ask(["a0", "a1"], "2"), history.ask(["a0", "a1"], "0..1")
        change = history.difference(["a0", "a1"], "2", "0..1")
        assert change.stderr == pytest.approx(np.hypot(after.stderr, before.stderr))
        assert change.table.sum() == pytest.approx(0.0, abs=1e-9)
        assert "difference" in change.flags
        assert [str(w) for w in change.windows] == ["window 2", "windows 0 to 1"]
        with pytest.raises(InvalidInput, match="windows 0 to 1 and window 1 overlap"):
            history.difference(["a0"], "0..1", "1")
        with pytest.raises(InvalidInput, match="overlap"):
            history.difference(["a0"], "total", "0")


def test_where_is_the_part_of_a_conditional_table(bench: Bench) -> None:
    within = {"given": ["a0"], "group": "a0=1"}
    with asking(bench) as history:
        for part, whole in (
            (
                history.ask(["a2"], "1", where="a0=1"),
                history.ask(["a2", "a0"], "1", **within),  # type: ignore[arg-type]
            ),
            (
                history.difference(["a2"], "2", "0..1", where={"a0": "1"}),
                history.difference(["a2", "a0"], "2", "0..1", **within),  # type: ignore[arg-type]
            ),
        ):
            assert (part.attributes, part.flags) == (("a2",), whole.flags)
            assert np.array_equal(part.table, whole.table[0])
            assert np.array_equal(part.stderr, whole.stderr[0])


def test_windows_in_which_a_device_may_report_twice_are_dependent() -> None:
    bench = filled(published_plan(groups=3, guarantee=Guarantee("w-event", 2)))
    with asking(bench) as history:
        assert "dependent" not in history.ask(["a0"], "0..1").flags
        assert "dependent" in history.ask(["a0"], "0..2").flags
        assert "dependent" in history.difference(["a0"], "2", "0").flags
        assert "dependent" not in history.difference(["a0"], "1", "0").flags


def test_forged_counts_are_flagged() -> None:
    bench = Bench(published_plan(groups=3))
    for log in bench.logs:
        log.report(0, *([log.group] * 3000)).close(0)
    bench.put_all()
    work(bench.publication())
    with asking(bench) as history:
        assert "suspicious" in history.ask(["a0"], "0").flags
