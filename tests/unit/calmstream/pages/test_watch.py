from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.estimators.wire.snapshot import Kind, MarginalRecord
from calmstream.pages.watch import FLAGS, MAX_ROWS, Dashboard, bar, notes, render, watch
from calmstream.terminal import Console
from tests.support.publisher import count_of, published_plan, snapshot_of
from tests.unit.calmstream.conftest import printed

CELLS = [0] * 400 + [1] * 100 + [2] * 300 + [3] * 200


def snapshot(window: int = 1, kind: Kind = Kind.FINAL, cells: Sequence[int] = CELLS) -> Snapshot:
    count = count_of(list(cells), rejects=3)
    return snapshot_of(published_plan(groups=1), window, kind, (1000, 234), count)


def total_of(window: int, cells: Sequence[int] = CELLS) -> Snapshot:
    return snapshot(window, Kind.TOTAL, cells)


def record_of(table: Sequence[float], labels: tuple[tuple[str, ...], ...]) -> MarginalRecord:
    names = tuple(f"a{i}" for i in range(len(labels)))
    errors = (0.01,) * len(table)
    return MarginalRecord(
        0, Kind.FINAL, (1,), names, labels, tuple(table), errors, 0.1, 9, ("covered", "odd")
    )


def on_terminal(shown: object, height: int = 50) -> str:
    return printed(shown, force_terminal=True, width=120, height=height)


def test_a_table_shows_value_interval_and_all_one_must_know() -> None:
    shown = on_terminal(render(snapshot(), ("a0", "a1")))
    record = snapshot().record("a0", "a1")
    for value, stderr in zip(record.table, record.stderr, strict=True):
        assert f"{100 * value:.2f}" in shown
        assert f"{196 * stderr:.2f}" in shown
    assert "publish-test · window 1 · 2023-11-14 22:13:30 to 22:13:40 UTC · final" in shown
    assert "revision 1,234" in shown
    assert "1,000 reports (not people), 3 records rejected" in shown
    assert "epsilon 1 a report, at most 1 over the plan (once)" in shown.replace("\n", " ")
    assert record.flags
    assert all(f"{flag}: {FLAGS[flag]}" in shown for flag in record.flags)


def test_the_heading_names_the_kind_of_snapshot() -> None:
    until = "to 22:13:40 UTC"
    for kind, words in (
        (Kind.EARLY, f"window 1 · 2023-11-14 22:13:30 {until} · early: still receives"),
        (Kind.TOTAL, f"windows 0 to 1 · 2023-11-14 22:13:20 {until} · total of all"),
    ):
        assert words in on_terminal(render(snapshot(kind=kind), ("a0",)))


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ((0.5, 0.25), "██████▒▒▒▒▒┃▒▒▒▒▒▒"),
        ((1.0, 0.0), "█" * 23 + "┃"),
        ((0.0, 0.125), "┃▒▒"),
        ((0.0, 0.0), ""),
        ((0.25, 9.0), "▒▒▒▒▒┃" + "▒" * 18),
    ],
)
def test_bars_are_solid_to_the_lower_end_and_shaded_to_the_upper(
    cell: tuple[float, float], expected: str
) -> None:
    assert bar(*cell, 1.0) == expected.ljust(24)


def test_a_large_table_shows_its_largest_cells_in_order() -> None:
    record = record_of([i / 4950 for i in range(100)], (tuple(f"x{i}" for i in range(100)),))
    below = on_terminal(
        render(Snapshot(snapshot().manifest, {record.attributes: record}), ("a0",)), height=90
    )
    shown = [line.split()[0] for line in below.splitlines() if line.startswith("x")]
    assert shown == [f"x{i}" for i in range(100 - MAX_ROWS, 100)]
    assert "60 of 100 cells left out: 35.76 % in all" in below
    assert "odd: not known here" in below


def watched(
    snapshots: Sequence[Snapshot], marginal: Sequence[str] | None = None, **given: Any
) -> str:
    out = io.StringIO()
    console = Console(**{"file": out, "width": 80, "color_system": None} | given)
    assert watch(snapshots, marginal, console=console) == len(snapshots)
    return out.getvalue()


def test_without_a_terminal_every_table_is_a_block_of_plain_text() -> None:
    text = watched([snapshot(0, Kind.EARLY), snapshot(0), snapshot(1, cells=[])], ("a0", "a1"))
    assert text.count("publish-test · window 0") == 2
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert text.endswith("window 1: no reports\n\n")
    assert watched([snapshot()]).count("publish-test · window 1") == 2
    assert watched([]) == ""


def test_a_window_without_reports_is_one_line_and_its_total_none() -> None:
    given = [snapshot(0), total_of(0), snapshot(1, cells=[]), total_of(1), total_of(2, CELLS * 2)]
    lines = watched(given, ("a0",)).splitlines()
    heads = [line for line in lines if line.startswith(("publish-test", "window"))]
    assert [head.split(" · 2023")[0] for head in heads] == [
        "publish-test · window 0",
        "publish-test · windows 0 to 0",
        "window 1: no reports",
        "publish-test · windows 0 to 2",
    ]


def test_on_a_terminal_it_is_live_and_ends_with_the_newest() -> None:
    given = [snapshot(0), snapshot(1, Kind.EARLY)]
    text = watched(given, ("a0",), force_terminal=True, width=120, height=60)
    assert "window 1" in text.rsplit("publish-test", 1)[1]


def test_the_dashboard_keeps_the_newest_window_and_total() -> None:
    dashboard = Dashboard(("a0",))
    assert "waiting for the first snapshot" in on_terminal(dashboard)
    for one in (snapshot(2, Kind.EARLY), snapshot(1), snapshot(1, Kind.TOTAL)):
        dashboard.show(one)
    assert [(s.window, s.kind) for s in dashboard.shown] == [(2, Kind.EARLY), (1, Kind.TOTAL)]
    dashboard.show(snapshot(2))
    dashboard.show(snapshot(0, Kind.TOTAL))
    assert [(s.window, s.kind) for s in dashboard.shown] == [(2, Kind.FINAL), (1, Kind.TOTAL)]


def test_bars_promise_the_truth_only_where_devices_reported_on_it_together() -> None:
    labels = (("0", "1"), ("0", "1"))
    covered = record_of((0.25,) * 4, labels)
    put_together = replace(covered, flags=("maxent",))
    assert "bars are 95 % intervals" in notes(covered)[0]
    assert "bars are 95 % intervals of the noise alone" in notes(put_together)[0]
