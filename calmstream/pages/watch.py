"""Shows snapshots to people: live tables with error bars, or plain text without a terminal.

A snapshot is the set of published tables of one window, or of all windows so far (total), with a
manifest that describes it (docs/reading-a-snapshot.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product

from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.table import Table as Grid
from rich.text import Text

from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.estimators.marginal import Z95
from calmstream.estimators.wire.snapshot import Kind, Manifest, MarginalRecord
from calmstream.pages.conditional import conditional
from calmstream.pages.exact_conditional import SnapshotWithProportions
from calmstream.pages.history import HistoryLines, sparkline
from calmstream.pages.quiet import folded
from calmstream.pages.statistics import statistics_lines
from calmstream.terminal import Console

MAX_ROWS = 40
"""Maximum number of cells of one table that are shown, the largest ones."""

_BAR_CELLS = 32
"""Width of a bar in characters."""

_FRAME_ROWS = 7
"""Number of lines of a table beside its cells: headings and notes."""

KINDS = {
    Kind.EARLY: "early: still receives reports",
    Kind.FINAL: "final",
    Kind.TOTAL: "total of all windows so far",
}
FLAGS = {
    "covered": "some devices reported on all of these attributes together",
    "maxent": "reconstructed from smaller tables: its error may exceed the bars",
    "modelled": "estimated by a model from all reports; the bars include the error of the model",
    "clipped": "negative cells were corrected: bars near zero are too wide, not too narrow",
    "suspicious": "the raw counts look forged: do not rely on it, see the manifest",
    "changed": "differs from the window before: see calmstream changes",
    "changed-before": "differs from all windows before: see calmstream changes --against before",
    "untested": "its tests of change are not published yet",
    "noise": "the noise is too large: do not draw conclusions from this table",
    "uniform": "no report was about some of the attributes: that part is a guess",
    "conditional": "proportions within each combination of the first attributes",
    "approximate": "the bars take the cells as independent; those of the newest window with kept "
    "counts do not",
    "raw": "cells may be negative and need not add up to 100 %",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One cell of a table that is shown.

    Attributes:
        labels: the labels of the cell.
        value: estimated proportion.
        margin: half the width of its 95 % interval.
    """

    labels: tuple[str, ...]
    value: float
    margin: float

    @property
    def low(self) -> float:
        """Lower end of the interval, not below 0."""
        return max(self.value - self.margin, 0.0)

    @property
    def high(self) -> float:
        """Upper end of the interval, not above 1."""
        return min(self.value + self.margin, 1.0)


def places(record: MarginalRecord, limit: int = MAX_ROWS) -> list[int]:
    """Return the indices of the cells to show: all, or the ``limit`` largest, in table order."""
    cells = range(len(record.table))
    if len(cells) <= limit:
        return list(cells)
    return sorted(sorted(cells, key=lambda i: -record.table[i])[:limit])


def rows(record: MarginalRecord, limit: int = MAX_ROWS) -> list[Row]:
    """Return the cells to show, in table order, at most the ``limit`` largest."""
    labels = list(product(*record.labels))
    return [Row(labels[i], record.table[i], Z95 * record.stderr[i]) for i in places(record, limit)]


def bar(row: Row, scale: float, marks: str = "█▒┃") -> str:
    """Return a bar of characters for the interval of a cell, with a mark at its value.

    It is solid up to the lower end of the interval, and shaded from there to the upper end.
    """
    solid, shaded, mark = marks[0], marks[1], marks[2]
    low, value, high = (
        min(round(x / scale * _BAR_CELLS), _BAR_CELLS) for x in (row.low, row.value, row.high)
    )
    drawn = list(solid * low + shaded * (high - low))
    if drawn:
        drawn[min(max(value - 1, 0), len(drawn) - 1)] = mark
    return "".join(drawn).ljust(_BAR_CELLS)


def view(snapshot: Snapshot, marginal: Sequence[str], given: Sequence[str] = ()) -> MarginalRecord:
    """Return a published table, or its proportions within each combination of ``given``."""
    record = snapshot.record(*marginal)
    if not given:
        return record
    if isinstance(snapshot, SnapshotWithProportions):
        return snapshot.proportions
    return conditional(record, given)


def render(
    snapshot: Snapshot,
    marginal: Sequence[str],
    given: Sequence[str] = (),
    past: Sequence[Snapshot] = (),
) -> RenderableType:
    """Return one table of a snapshot with its error bars and notes."""
    heading = Text(header(snapshot.manifest), style="bold")
    facts = Text(truth(snapshot.manifest), style="dim")
    if not snapshot.marginals:
        return Group(heading, facts, Text(f"no tables: {snapshot.why_empty()}"))
    record = view(snapshot, marginal, given)
    earlier = [view(each, marginal, given) if each.marginals else None for each in past]
    above = (Text(printable(line)) for line in statistics_lines(record))
    grid = _grid(record, earlier)
    below = [*notes(record), *forged(snapshot, record.attributes)]
    return Group(heading, facts, *above, grid, *(Text(n, style="dim") for n in below))


def plain(snapshot: Snapshot, marginal: Sequence[str], given: Sequence[str] = ()) -> str:
    """Return the same as :func:`render` in plain characters, for logs and files."""
    lines = [header(snapshot.manifest), truth(snapshot.manifest)]
    if not snapshot.marginals:
        return "\n".join([*lines, f"no tables: {snapshot.why_empty()}", ""])
    record = view(snapshot, marginal, given)
    shown = rows(record)
    scale = _scale(shown)
    names = [printable(" × ".join(row.labels)) for row in shown]
    title = printable(" × ".join(record.attributes))
    width = max(map(len, [*names, title]))
    lines += [*map(printable, statistics_lines(record)), title]
    lines += [
        f"{name.ljust(width)}  {_percent(row)}  |{bar(row, scale, '#~|')}|"
        for name, row in zip(names, shown, strict=True)
    ]
    return "\n".join([*lines, *notes(record), *forged(snapshot, record.attributes), ""])


def header(manifest: Manifest) -> str:
    """Return plan, window, time, kind and revision in one line."""
    start, end = (datetime.fromtimestamp(t, UTC) for t in (manifest.start, manifest.end))
    until = f"{end:%H:%M:%S}" if start.date() == end.date() else f"{end:%Y-%m-%d %H:%M:%S}"
    window = f"window {manifest.window}"
    if manifest.kind is Kind.TOTAL:
        window = f"windows 0 to {manifest.window}"
    return (
        f"{printable(manifest.name)} · {window} · {start:%Y-%m-%d %H:%M:%S} to {until} UTC · "
        f"{KINDS[manifest.kind]} · revision {sum(manifest.revision):,}"
    )


def truth(manifest: Manifest) -> str:
    """Return number of reports, method and privacy loss in one line."""
    rejected = sum(manifest.rejected.values())
    guarantee = str(manifest.guarantee["kind"])
    if guarantee == "w-event":
        guarantee = f"one report in every {manifest.guarantee['windows']} windows"
    return (
        f"{manifest.reports:,} reports (not people), {rejected:,} records rejected · "
        f"{manifest.method} · epsilon {manifest.epsilon} a report, "
        f"at most {manifest.loss_plan} over the plan ({guarantee})"
    )


def notes(record: MarginalRecord) -> list[str]:
    """Return the notes that a reader of one table needs."""
    cells = len(record.table)
    floor = f"noise floor {record.noise_floor:.2g} (squared error over {cells:,} cells)"
    noise = " of the noise alone" if "maxent" in record.flags else ""
    lines = [f"{record.reports:,} reports are about it; bars are 95 % intervals{noise}; {floor}"]
    if cells > MAX_ROWS:
        lines.append(f"the {MAX_ROWS} largest of {cells:,} cells")
    lines += [f"{flag}: {FLAGS.get(flag, 'not known here')}" for flag in record.flags]
    return [printable(line) for line in lines]


def forged(snapshot: Snapshot, attributes: Sequence[str]) -> list[str]:
    """Return a line about the largest change of a cell by forged reports.

    The result is empty if the manifest does not state it.
    """
    leverage = snapshot.manifest.leverage
    reaches = dict(zip(snapshot.manifest.marginals, leverage.get("reach", []), strict=False))
    reach = reaches.get(snapshot.record(*attributes).key.decode())
    if reach is None:
        return []
    about = "about " if leverage["approximate"] else ""
    share = f"{100 * leverage['forged']:g} %"
    return [f"{share} forged reports can change a cell by up to {about}{reach:g}"]


def printable(text: str) -> str:
    """Replace characters that control a terminal, because labels come from outside."""
    return "".join(c if c.isprintable() else "�" for c in text)


def _scale(shown: list[Row]) -> float:
    """Return the proportion of the longest bar, which fills the width."""
    return max((row.high for row in shown), default=1.0) or 1.0


def _percent(row: Row) -> str:
    """Return the value and the margin of a cell in percent."""
    return f"{100 * row.value:6.2f} % ± {100 * row.margin:5.2f}"


def _grid(record: MarginalRecord, past: Sequence[MarginalRecord | None]) -> Grid:
    """Return a table with a bar per cell, and a line through past windows if there are any."""
    shown = rows(record)
    scale = _scale(shown)
    grid = Grid(pad_edge=False, box=None, header_style="bold cyan")
    for name in record.attributes:
        grid.add_column(Text(printable(name)), overflow="ellipsis", max_width=32)
    grid.add_column("proportion", justify="right", no_wrap=True)
    grid.add_column(f"0 to {100 * scale:.3g} %", no_wrap=True)
    if past:
        grid.add_column(f"{len(past)} windows", no_wrap=True)
    for place, row in zip(places(record), shown, strict=True):
        labels = (Text(printable(label)) for label in row.labels)
        drawn = Text(bar(row, scale), style="red" if row.margin > row.value else "green")
        values = [None if each is None else each.table[place] for each in past]
        line = [Text(sparkline(values, scale), style="cyan")] if past else []
        grid.add_row(*labels, Text(_percent(row)), drawn, *line)
    return grid


class Dashboard:
    """A live view of the newest window and the newest running total.

    Args:
        marginal: table to show; None for as many published tables as fit on the screen.
        given: show it as proportions within each combination of these of its attributes.
    """

    def __init__(self, marginal: Sequence[str] | None = None, given: Sequence[str] = ()) -> None:
        self._marginal = marginal
        self._given = given
        self._history = HistoryLines()
        self._window: Snapshot | None = None
        self._total: Snapshot | None = None

    def show(self, snapshot: Snapshot) -> None:
        """Show a snapshot, unless a newer window is shown already."""
        if self._marginal is not None and snapshot.marginals:
            view(snapshot, self._marginal, self._given)
        self._history.note(snapshot)
        if snapshot.kind is Kind.TOTAL:
            if self._total is None or snapshot.window >= self._total.window:
                self._total = snapshot
        elif self._window is None or snapshot.window >= self._window.window:
            self._window = snapshot

    def tables(self, height: int) -> list[tuple[Snapshot, Sequence[str]]]:
        """Return the tables to show on ``height`` lines, at least one of each snapshot."""
        current = [s for s in (self._window, self._total) if s is not None]
        return [
            (snapshot, marginal)
            for snapshot in current
            for marginal in _fitting(snapshot, self._marginal, height // len(current))
        ]

    def __rich_console__(self, console: RichConsole, options: ConsoleOptions) -> RenderResult:
        tables = self.tables(options.height or console.height)
        if not tables:
            yield Text("waiting for the first snapshot")
        for snapshot, marginal in tables:
            past = [] if snapshot.kind is Kind.TOTAL else self._history.before(snapshot)
            # A line needs at least two windows.
            yield render(snapshot, marginal, self._given, past if len(past) > 1 else ())


def _fitting(
    snapshot: Snapshot, marginal: Sequence[str] | None, room: int
) -> Iterator[Sequence[str]]:
    """Yield the requested marginal, or published ones in order while they fit, at least one."""
    if marginal is not None or not snapshot.marginals:
        yield marginal or ()
        return
    for place, (attributes, record) in enumerate(snapshot.marginals.items()):
        room -= min(len(record.table), MAX_ROWS) + _FRAME_ROWS + len(statistics_lines(record))
        if place and room < 0:
            return
        yield attributes


def watch(
    snapshots: Iterable[Snapshot],
    marginal: Sequence[str] | None = None,
    given: Sequence[str] = (),
    *,
    console: Console | None = None,
    live: bool = True,
) -> int:
    """Show snapshots until they end; return how many there were.

    On a terminal as a live dashboard, elsewhere as one block of text per snapshot and one line per
    run of windows without reports, see `folded`.
    """
    console = Console() if console is None else console
    shown = 0
    if not console.is_terminal:
        return _print(snapshots, marginal, given, console, live=live)
    dashboard = Dashboard(marginal, given)
    with Live(dashboard, console=console, refresh_per_second=4, vertical_overflow="crop"):
        for shown, snapshot in enumerate(snapshots, 1):  # noqa: B007 - their number is the result
            dashboard.show(snapshot)
    return shown


def _print(
    snapshots: Iterable[Snapshot],
    marginal: Sequence[str] | None,
    given: Sequence[str],
    console: Console,
    *,
    live: bool,
) -> int:
    """Print blocks and lines of plain text; return the number of snapshots."""
    shown = 0

    def counted() -> Iterator[Snapshot]:
        nonlocal shown
        for snapshot in snapshots:
            shown += 1
            yield snapshot

    for each in folded(counted(), live=live):
        if isinstance(each, str):
            console.out(f"{printable(each)}\n", highlight=False)
            continue
        for one in [marginal] if marginal is not None else each.marginals:
            console.out(plain(each, one, given), highlight=False)
    return shown
