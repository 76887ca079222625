"""The record of tests of change that a publisher writes beside the counts of a final."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from calmstream.broker.transport import Partition
from calmstream.common.errors import ForeignRecord
from calmstream.consumer.metrics.registry import plan_label
from calmstream.consumer.publish import build, changes
from calmstream.consumer.publish.unfinished import UnfinishedWindows
from calmstream.consumer.read import history
from calmstream.consumer.read.kept import KeptCounts
from calmstream.estimators.analysis.poisoning import Examination
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.wire.changes import (
    ChangesRecord,
    Family,
    changes_key,
    decode_changes,
    encode_changes,
    is_changes_key,
)
from calmstream.estimators.wire.snapshot import Kind
from calmstream.estimators.wire.state import closed_key
from tests.support.publisher import Bench, dying, published_plan, steps, work


def unread(windows: int = 3) -> Bench:
    """Return a bench whose windows are closed, each with other counts; no topic has them yet."""
    found = Bench(published_plan(windows=windows, groups=2), test_changes=True)
    for log in found.logs:
        for window in range(windows):
            log.report(window, *([0, 1, 2, 3] * 30), *([window % 4] * 40)).close(window)
    return found


def bench(windows: int = 3) -> Bench:
    found = unread(windows)
    found.put_all()
    return found


def records_of(one: Bench) -> dict[int, ChangesRecord]:
    records = one.broker.records(Partition(one.names.counts, 0))
    found = [
        decode_changes(one.plan, r.key, r.value) for r in records if r.key and is_changes_key(r.key)
    ]
    return {record.window: record for record in found}


def test_every_final_has_a_record_with_its_revision() -> None:
    one = bench()
    work(one.publication())
    found = records_of(one)
    assert sorted(found) == [0, 1, 2]
    for window, record in found.items():
        assert record.revision == tuple(log.closed_at(window) for log in one.logs)
        assert [family.against for family in record.families] == ["previous", "before"]
    assert [family.reason for family in found[0].families] == ["no window was before"] * 2
    assert [family.windows for family in found[2].families] == [(1, 1), (0, 1)]
    assert all(len(f.p) == len(one.plan.marginals) for f in found[2].families)
    assert all(f.tested and f.changed for f in found[2].families)


def raw_tests(one: Bench) -> list[tuple[bytes | None, bytes | None]]:
    """Return keys and values of all records of tests, in the order of the topic."""
    records = one.broker.records(Partition(one.names.counts, 0))
    return [(r.key, r.value) for r in records if is_changes_key(r.key or b"")]


def undisturbed(windows: int = 3) -> list[tuple[bytes | None, bytes | None]]:
    one = bench(windows)
    work(one.publication())
    return raw_tests(one)


def closed_kinds(windows: int) -> list[tuple[int, Kind]]:
    return [(window, kind) for window in range(windows) for kind in (Kind.FINAL, Kind.TOTAL)]


def test_tests_that_take_long_delay_no_later_result() -> None:
    one, held = bench(), []
    one.start_tests = held.append
    session = one.publication()
    work(session)
    assert one.kinds() == closed_kinds(3)
    assert [len(held), raw_tests(one), session.finished] == [1, [], False]
    for window in range(3):
        held.pop()()
        work(session)
        assert [key for key, _ in raw_tests(one)] == [changes_key(w) for w in range(window + 1)]
    assert session.finished
    assert raw_tests(one) == undisturbed()


@pytest.mark.parametrize("tested", range(3))
def test_a_publisher_that_starts_later_makes_the_missing_tests(tested: int) -> None:
    """The first one dies between a final and its tests; counts are all that is left."""
    one, left = bench(), tested

    def some(run: Callable[[], None]) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            run()

    one.start_tests = some
    one.fill_inputs()
    work(one.publication())
    one.trim_inputs()
    assert (len(raw_tests(one)), one.kinds()) == (tested, closed_kinds(3))
    one.start_tests = lambda run: run()
    successor = one.publication()
    steps(successor, lambda: successor.caught_up)
    for log in one.logs:
        for window in range(3):
            one.put(log, (closed_key(log.group, log.partition, window), None))
    work(successor)
    assert successor.finished
    assert raw_tests(one) == undisturbed()


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("at", range(2 * (2 + 3 + 3 + 1)))
def test_a_death_at_any_write_leaves_the_tests_of_an_undisturbed_run(at: int, before: bool) -> None:
    one = bench(2)
    session = dying(one, at, before=before)
    with pytest.raises(SystemExit):
        work(session)
    work(one.publication())
    assert raw_tests(one) == undisturbed(2), "each once, in the order of windows"


def test_a_window_is_not_tested_before_the_counts_of_the_one_before_were_read() -> None:
    """Compaction can move a closed record past the reader, so that window 1 is final first."""
    one = unread(2)
    session = one.publication()
    for window in (1, 0):
        for log in one.logs:
            one.put(log, log.closed(window))
        assert raw_tests(one) == []
        work(session)
        assert (window, Kind.FINAL) in one.kinds()
    assert raw_tests(one) == undisturbed(2)


def test_a_record_that_another_program_replaces_is_not_written_for_ever() -> None:
    one = bench(1)
    session = one.publication()
    read = session.follower._read_counts
    session.follower._read_counts = (  # type: ignore[method-assign]
        lambda key, value: None if is_changes_key(key) else read(key, value)
    )
    work(session)
    assert len(raw_tests(one)) == 1
    assert session.finished


def test_counts_of_few_windows_are_kept_in_memory() -> None:
    one = bench()
    session = one.publication()
    work(session)
    assert list(session.follower.untested._records) == [2], "the next window is compared with it"
    kept = UnfinishedWindows(one.plan, on=True, most=2)
    for window in range(5):
        for group in range(2):
            kept.read(window, group, b"")
    assert (list(kept._records), kept.waiting()) == ([3, 4], [4])


def test_a_failed_test_does_not_stop_a_final(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise np.linalg.LinAlgError("singular")

    monkeypatch.setattr(changes, "_family", broken)
    one = bench()
    session = one.publication()
    work(session)
    assert session.finished
    assert records_of(one) == {}


def test_readers_of_counts_keep_the_record_apart() -> None:
    one = bench()
    work(one.publication())
    kept = KeptCounts(one.plan, one.broker, one.names, one.clock)
    kept.refresh()
    assert kept.windows() == [0, 1, 2]
    assert kept.tests == records_of(one)
    kept.close()


def test_gauges_show_the_newest_tests() -> None:
    one = bench()
    session = one.publication()
    work(session)
    registry = session._measures._metrics.registry
    newest = records_of(one)[2]
    for family in newest.families:
        labels = {"plan": plan_label(one.plan), "against": family.against}
        value = registry.get_sample_value("calmstream_changes_smallest_adjusted_p", labels)
        assert value == family.smallest
        tested = registry.get_sample_value("calmstream_changes_tables_tested", labels)
        assert tested == family.tested


def test_counts_are_examined_as_those_of_their_number_of_windows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Under w-event, devices report several times in a total or a range."""
    seen: set[tuple[str, int, int]] = set()

    def recording(where: str) -> Callable[..., Examination]:
        def examined(_: Plan, tallies: Sequence[Tally], windows: int = 1) -> Examination:
            seen.add((where, sum(tally.reports for tally in tallies), windows))
            return Examination(())

        return examined

    for module in (build, changes, history):
        monkeypatch.setattr(module, "examine", recording(module.__name__.split(".")[-1]))
    one = bench(4)
    work(one.publication())
    with history.History(one.plan, one.broker, namespace=one.names.namespace) as asked:
        asked.ask(["a0"], "1..3")
    each = min(reports for _, reports, _ in seen)
    assert {(where, windows) for where, _, windows in seen} == {
        *(("build", windows) for windows in (1, 2, 3, 4)),
        *(("changes", windows) for windows in (1, 2, 3)),
        ("history", 3),
    }
    assert all(reports == windows * each for _, reports, windows in seen)


def test_a_record_survives_its_encoding() -> None:
    plan = published_plan(windows=9, groups=1)
    table = {"attributes": ["a0"]}
    family = Family("before", (0, 3), (10, 20), 2, 1, 0.01, ("paired",), "", (0.1, None), (table,))
    record = ChangesRecord(4, (1, 1), (family,))
    raw = encode_changes(plan, record)
    assert decode_changes(plan, b"4/changes", raw) == record
    with pytest.raises(ForeignRecord, match="under another key"):
        decode_changes(plan, b"5/changes", raw)
