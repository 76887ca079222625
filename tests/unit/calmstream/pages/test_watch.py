"""Check the output of `calmstream watch`: tables, bars with a scale, plain text elsewhere."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from calmstream.common.errors import InvalidInput
from calmstream.consumer.publish.build import build_set
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.estimators.plan import Guarantee
from calmstream.estimators.wire.snapshot import Kind, MarginalRecord
from calmstream.pages.history import WINDOWS, HistoryLines, sparkline
from calmstream.pages.watch import (
    FLAGS,
    MAX_ROWS,
    Dashboard,
    Row,
    bar,
    notes,
    plain,
    render,
    rows,
    watch,
)
from tests.support.publisher import count_of, published_plan

CELLS = [0] * 400 + [1] * 100 + [2] * 300 + [3] * 200


def snapshot(
    window: int = 1,
    kind: Kind = Kind.FINAL,
    cells: Sequence[int] = CELLS,
    guarantee: Guarantee | None = None,
) -> Snapshot:
    plan = published_plan(groups=1, guarantee=guarantee)
    merged = MergedWindow(window, kind, (1000, 234), (count_of(list(cells), rejects=3),))
    built = build_set(plan, merged)
    return Snapshot(built.manifest, {r.attributes: r for r in built.marginals})


def total_of(window: int, cells: Sequence[int] = CELLS) -> Snapshot:
    return snapshot(window, Kind.TOTAL, cells)


def record_of(table: Sequence[float], labels: tuple[tuple[str, ...], ...]) -> MarginalRecord:
    names = tuple(f"a{i}" for i in range(len(labels)))
    errors = (0.01,) * len(table)
    return MarginalRecord(
        0, Kind.FINAL, (1,), names, labels, tuple(table), errors, 0.1, 9, ("covered", "odd")
    )


def on_terminal(*shown: object, width: int = 120, height: int = 50) -> str:
    console = Console(
        file=io.StringIO(), force_terminal=True, width=width, height=height, color_system=None
    )
    console.print(*shown)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_table_shows_value_interval_and_all_one_must_know() -> None:
    shown = on_terminal(render(snapshot(), ("a0", "a1")))
    record = snapshot().record("a0", "a1")
    for value, stderr in zip(record.table, record.stderr, strict=True):
        assert f"{100 * value:.2f} % ± {196 * stderr:5.2f}" in shown
    assert "publish-test · window 1 · 2023-11-14 22:13:30 to 22:13:40 UTC · final" in shown
    assert "revision 1,234" in shown
    assert "1,000 reports (not people), 3 records rejected" in shown
    assert "epsilon 1 a report, at most 1 over the plan (once)" in shown.replace("\n", " ")
    assert "noise floor" in shown
    assert record.flags
    assert all(f"{flag}: {FLAGS[flag]}" in shown for flag in record.flags)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Kind.EARLY, "window 1 · 2023-11-14 22:13:30 to 22:13:40 UTC · early: still receives"),
        (Kind.TOTAL, "windows 0 to 1 · 2023-11-14 22:13:20 to 22:13:40 UTC · total of all"),
    ],
)
def test_the_heading_names_the_kind_of_snapshot(kind: Kind, words: str) -> None:
    assert words in on_terminal(render(snapshot(kind=kind), ("a0",)))


def test_a_w_event_guarantee_is_explained() -> None:
    text = plain(snapshot(guarantee=Guarantee("w-event", 2)), ("a0",))
    assert "at most 2 over the plan (one report in every 2 windows)" in text


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (Row((), 0.5, 0.25), "########~~~~~~~|~~~~~~~~"),
        (Row((), 1.0, 0.0), "#" * 31 + "|"),
        (Row((), 0.0, 0.125), "|~~~"),
        (Row((), 0.0, 0.0), ""),
        (Row((), 0.25, 9.0), "~~~~~~~|" + "~" * 24),
        (Row((), 1.5, 0.0), "~" * 0 + "#" * 31 + "|"),
    ],
)
def test_bars_are_solid_to_the_lower_end_and_shaded_to_the_upper(row: Row, expected: str) -> None:
    assert bar(row, 1.0, "#~|") == expected.ljust(32)


def test_bars_never_leave_their_width() -> None:
    for value in np.linspace(-0.2, 1.3, 31):
        for margin in (0.0, 0.01, 0.3, 2.0):
            for scale in (0.05, 0.5, 1.0):
                assert len(bar(Row((), float(value), margin), scale)) == 32


def test_axes_may_be_named_in_any_order() -> None:
    assert on_terminal(render(snapshot(), ("a1", "a0"))) == on_terminal(
        render(snapshot(), ("a0", "a1"))
    )


def test_a_large_table_shows_its_largest_cells_in_order() -> None:
    labels = (tuple(f"x{i}" for i in range(100)),)
    record = record_of([i / 4950 for i in range(100)], labels)
    shown = rows(record)
    assert [row.labels[0] for row in shown] == [f"x{i}" for i in range(100 - MAX_ROWS, 100)]
    whole = Snapshot(snapshot().manifest, {record.attributes: record})
    assert f"the {MAX_ROWS} largest of 100 cells" in plain(whole, ("a0",))
    assert "odd: not known here" in plain(whole, ("a0",))


def test_labels_cannot_steer_the_terminal() -> None:
    record = record_of([0.5, 0.5], (("[bold]b[/bold]", "\x1b[2J\r"),))
    whole = Snapshot(snapshot().manifest, {record.attributes: record})
    shown = on_terminal(render(whole, ("a0",)))
    assert "\x1b[2J" not in shown
    assert "\r" not in shown
    assert "[bold]b[/bold]" in shown
    assert "\x1b" not in plain(whole, ("a0",))


def test_a_window_without_reports_is_shown_as_such() -> None:
    empty = snapshot(cells=[])
    assert "no tables: it received no reports" in on_terminal(render(empty, ("a0",)))
    assert "no tables: it received no reports" in plain(empty, ("a0",))


def test_an_unpublished_marginal_is_one_clear_line() -> None:
    with pytest.raises(InvalidInput, match=r"no marginal of a0,a2 .* there are a0; a0,a1"):
        render(snapshot(), ("a0", "a2"))


def test_without_a_terminal_every_snapshot_is_a_block_of_plain_text() -> None:
    console = Console(file=io.StringIO(), force_terminal=False, width=40)
    snapshots = [snapshot(0, Kind.EARLY), snapshot(0), snapshot(1, cells=[])]
    watch(snapshots, ("a0", "a1"), console=console)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert text.count("publish-test · window") == 3
    assert "\x1b" not in text
    assert "window 1 · 2023-11-14 22:13:30 to 22:13:40 UTC · no reports, 3 records rejected" in text
    # Lines are never folded to a width that nobody sees.
    assert "publish-test · window 0 · 2023-11-14 22:13:20 to 22:13:30 UTC · early" in text
    assert text.count("a0 × a1") == 2


def test_without_a_terminal_and_a_wish_all_tables_are_printed() -> None:
    console = Console(file=io.StringIO(), force_terminal=False)
    assert watch([], console=console) == 0
    assert watch([snapshot(), snapshot(cells=[])], console=console) == 2
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().count("publish-test · window") == 3


def printed(snapshots: Sequence[Snapshot], *, live: bool) -> list[str]:
    """Return the first line of every block, without the plan's name."""
    console = Console(file=io.StringIO(), force_terminal=False)
    assert watch(snapshots, ("a0",), console=console, live=live) == len(snapshots)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    heads = [line for line in lines if line.startswith("publish-test · ")]
    return [line.removeprefix("publish-test · ").split(" · revision")[0] for line in heads]


def test_a_run_of_windows_without_reports_is_one_line() -> None:
    quiet = [
        replaced
        for window in range(1, 31)
        for replaced in (snapshot(window, cells=[]), total_of(window))
    ]
    given = [snapshot(0), total_of(0), *quiet, snapshot(31), snapshot(32, cells=[])]
    first = [
        "window 0 · 2023-11-14 22:13:20 to 22:13:30 UTC · final",
        "windows 0 to 0 · 2023-11-14 22:13:20 to 22:13:30 UTC · total of all windows so far",
    ]
    last = [
        "window 31 · 2023-11-14 22:18:30 to 22:18:40 UTC · final",
        "window 32 · 2023-11-14 22:18:40 to 22:18:50 UTC · no reports, 3 records rejected",
    ]
    run = "windows 1 to 30 · 2023-11-14 22:13:30 to 22:18:30 UTC · no reports, 90 records rejected"
    assert printed(given, live=False) == [*first, run, *last]
    line = "window 1 · 2023-11-14 22:13:30 to 22:13:40 UTC · no reports, 3 records rejected"
    rest = "windows 2 to 30 · 2023-11-14 22:13:40 to 22:18:30 UTC · no reports, 87 records rejected"
    assert printed(given, live=True) == [*first, line, rest, *last]


def test_only_totals_are_shown_when_they_have_more_reports() -> None:
    totals = [total_of(0), total_of(1), total_of(2), total_of(3, CELLS * 2)]
    assert printed(totals, live=False) == [
        "windows 0 to 0 · 2023-11-14 22:13:20 to 22:13:30 UTC · total of all windows so far",
        "windows 1 to 2 · 2023-11-14 22:13:30 to 22:13:50 UTC · no reports",
        "windows 0 to 3 · 2023-11-14 22:13:20 to 22:14:00 UTC · total of all windows so far",
    ]


def test_somebody_who_waits_sees_the_first_window_of_a_run_at_once() -> None:
    console = Console(file=io.StringIO(), force_terminal=False)
    assert isinstance(console.file, io.StringIO)
    file = console.file

    def endless() -> Iterator[Snapshot]:
        for window in range(3):
            yield snapshot(window, cells=[])
            assert file.getvalue().count("no reports") == 1

    watch(endless(), console=console)
    assert file.getvalue().count("no reports") == 2


def test_on_a_terminal_it_is_live_and_ends_with_the_newest() -> None:
    console = Console(
        file=io.StringIO(), force_terminal=True, width=120, height=60, color_system=None
    )
    watch([snapshot(0), snapshot(1, Kind.EARLY)], ("a0",), console=console)
    assert isinstance(console.file, io.StringIO)
    last = console.file.getvalue().rsplit("publish-test", 1)[1]
    assert "window 1" in last


def test_a_wrong_wish_ends_the_live_display_with_the_error() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120, height=60)
    with pytest.raises(InvalidInput, match="no marginal of zz"):
        watch([snapshot()], ("zz",), console=console)


def test_the_dashboard_keeps_the_newest_window_and_total() -> None:
    dashboard = Dashboard(("a0",))
    assert "waiting for the first snapshot" in on_terminal(dashboard)
    for one in (snapshot(2, Kind.EARLY), snapshot(1), snapshot(1, Kind.TOTAL)):
        dashboard.show(one)
    shown = [(s.window, s.kind) for s, _ in dashboard.tables(50)]
    assert shown == [(2, Kind.EARLY), (1, Kind.TOTAL)]
    dashboard.show(snapshot(2))
    dashboard.show(snapshot(0, Kind.TOTAL))
    assert [(s.window, s.kind) for s, _ in dashboard.tables(50)] == [
        (2, Kind.FINAL),
        (1, Kind.TOTAL),
    ]


def test_the_dashboard_shows_as_many_tables_as_fit_and_at_least_one() -> None:
    dashboard = Dashboard()
    dashboard.show(snapshot())
    assert [m for _, m in dashboard.tables(60)] == [("a0",), ("a0", "a1")]
    assert [m for _, m in dashboard.tables(12)] == [("a0",)]
    assert [m for _, m in dashboard.tables(1)] == [("a0",)]
    dashboard.show(snapshot(2, cells=[]))
    assert "no reports" in on_terminal(dashboard)


def test_lines_show_how_cells_went_over_the_windows() -> None:
    assert sparkline([0.0, 0.25, None, 0.5, 9.0], 0.5) == "▁▅ ██"
    dashboard = Dashboard(("a0",))
    dashboard.show(snapshot(0, cells=[0] * 500 + [3] * 500))
    assert "windows" not in on_terminal(dashboard).splitlines()[2]
    dashboard.show(snapshot(1, cells=[]))
    dashboard.show(snapshot(2, cells=[3] * 1000))
    shown = on_terminal(dashboard)
    assert "3 windows" in shown
    lines = [line for line in shown.splitlines() if "%" in line and "±" in line]
    assert [line.rstrip()[-3:] for line in lines] == ["▅ ▁", "▅ █"]


def test_the_history_forgets_old_windows_and_ends_with_the_open_one() -> None:
    history = HistoryLines()
    for window in range(WINDOWS + 3):
        history.note(snapshot(window, cells=[0]))
        history.note(snapshot(window, Kind.TOTAL, cells=[0]))
    early = snapshot(WINDOWS + 3, Kind.EARLY, cells=[0])
    history.note(early)
    assert [s.window for s in history.before(early)] == list(range(4, WINDOWS + 4))
    assert [s.window for s in history.before(snapshot(4))] == [3, 4]


def test_a_conditional_view_adds_up_within_what_is_given() -> None:
    text = plain(snapshot(), ("a0", "a1"), ("a1",))
    values = [float(line.split("%")[0].split()[-1]) for line in text.splitlines() if "±" in line]
    assert "a1 × a0" in text
    assert sum(values[:2]) == pytest.approx(100, abs=0.02)
    assert sum(values[2:]) == pytest.approx(100, abs=0.02)
    assert f"conditional: {FLAGS['conditional']}" in text
    dashboard = Dashboard(("a0", "a1"), ("a1",))
    dashboard.show(snapshot())
    assert "conditional:" in on_terminal(dashboard)
    with pytest.raises(InvalidInput, match="expected some, not all"):
        Dashboard(("a0", "a1"), ("a0", "a1")).show(snapshot())


def test_bars_promise_the_truth_only_where_devices_reported_on_it_together() -> None:
    labels = (("0", "1"), ("0", "1"))
    covered = record_of((0.25,) * 4, labels)
    put_together = replace(covered, flags=("maxent",))
    assert "bars are 95 % intervals; noise floor" in notes(covered)[0]
    assert "bars are 95 % intervals of the noise alone; noise floor" in notes(put_together)[0]
