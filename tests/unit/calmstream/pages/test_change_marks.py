"""Marks beside the tables of finals that changed."""

from __future__ import annotations

import pytest

from calmstream.pages.change_marks import with_marks
from calmstream.pages.changes import as_text
from calmstream.pages.watch import plain
from consumer.read.changes import changes
from consumer.read.history import History
from estimators.wire.snapshot import Kind
from tests.support.publisher import Bench, published_plan, work

EVEN = [0] * 100 + [1] * 100 + [2] * 100 + [3] * 100
ODD = [0] * 250 + [1] * 50 + [2] * 50 + [3] * 50


def shifting(*, test_changes: bool = True) -> Bench:
    bench = Bench(published_plan(windows=3, groups=1), test_changes=test_changes)
    for log in bench.logs:
        log.report(0, *EVEN).report(1, *EVEN).report(2, *ODD).close(0).close(1).close(2)
    bench.put_all()
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
