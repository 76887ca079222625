"""Marks beside the tables of finals that changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from calmstream.consumer.read.changes import changes
from calmstream.consumer.read.history import History
from calmstream.estimators.wire.snapshot import Kind
from calmstream.pages.change_marks import with_marks
from calmstream.pages.changes import as_text
from calmstream.pages.watch import plain
from tests.support.publisher import Bench, published_plan, work

EVEN = [0] * 100 + [1] * 100 + [2] * 100 + [3] * 100
ODD = [0] * 250 + [1] * 50 + [2] * 50 + [3] * 50


def shifting(*, test_changes: bool = True, published: bool = True) -> Bench:
    bench = Bench(published_plan(windows=3, groups=1), test_changes=test_changes)
    for log in bench.logs:
        log.report(0, *EVEN).report(1, *EVEN).report(2, *ODD).close(0).close(1).close(2)
    bench.put_all()
    if published:
        work(bench.publication())
    return bench


def asking(bench: Bench) -> History:
    return History(bench.plan, bench.broker, namespace=bench.names.namespace)


def test_tables_that_changed_are_marked_in_their_final() -> None:
    bench = shifting()
    with asking(bench) as history:
        shown = {(s.window, s.kind): s for s in with_marks(bench.shown(), history)}
    for (window, kind), snapshot in shown.items():
        changed = window == 2 and kind is Kind.FINAL
        flags = {flag for record in snapshot.marginals.values() for flag in record.flags}
        assert ({"changed", "changed-before"} <= flags) == changed
    text = plain(shown[2, Kind.FINAL], ("a0", "a1"))
    assert "changed: differs from the window before" in text


def test_without_tests_nothing_is_marked() -> None:
    bench = shifting(test_changes=False)
    with asking(bench) as history:
        assert list(with_marks(bench.shown(), history)) == bench.shown()


def late(bench: Bench) -> list[Callable[[], None]]:
    """Return the tests of the last window of a bench: they are held."""
    held: list[Callable[[], None]] = []
    done = iter(range(2))
    bench.start_tests = lambda run: held.append(run) if next(done, None) is None else run()
    return held


def test_marks_wait_for_the_tests_of_a_final() -> None:
    bench, waited = shifting(published=False), []
    held = late(bench)
    session = bench.publication()
    work(session)

    def pause(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            held.pop()()
            work(session)

    with asking(bench) as history:
        shown = {(s.window, s.kind): s for s in with_marks(bench.shown(), history, pause)}
    assert "changed" in shown[2, Kind.FINAL].record("a0", "a1").flags
    assert len(waited) == 3, "window 0 and tested windows are not waited for"


@pytest.mark.parametrize("pauses", [True, False])
def test_a_final_whose_tests_are_still_to_come_says_so(pauses: bool) -> None:
    bench, waited = shifting(published=False), []
    late(bench)
    work(bench.publication())
    with asking(bench) as history:
        pause = waited.append if pauses else None
        shown = {(s.window, s.kind): s for s in with_marks(bench.shown(), history, pause)}
    assert sum(waited) == (10.0 if pauses else 0.0)
    for (window, kind), snapshot in shown.items():
        flags = {flag for record in snapshot.marginals.values() for flag in record.flags}
        assert ("untested" in flags) == (window == 2 and kind is Kind.FINAL)
        assert "changed" not in flags
    assert "tests of change are not published yet" in plain(shown[2, Kind.FINAL], ("a0", "a1"))


def test_without_a_counts_topic_snapshots_are_shown_alone() -> None:
    bench = shifting()
    bench.topics.delete([bench.names.counts])
    with asking(bench) as history:
        assert list(with_marks(bench.shown(), history)) == bench.shown()


def test_the_page_fits_a_terminal_and_names_what_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    bench = shifting()
    with asking(bench) as history:
        text = as_text(changes(history), 20).decode()
        quiet = as_text(changes(history, "1"), 20).decode()
    assert max(map(len, text.splitlines())) <= 80
    assert "a0 × a1" in text
    assert "tables changed" in text
    assert "0 of" in quiet
    assert "largest change" not in quiet
