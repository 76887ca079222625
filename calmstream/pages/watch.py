"""Shows snapshots to people: tables with error bars, live on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
from calmstream.estimators.wire.table_summary import Statistic, TableStatistics, TableSummary
from calmstream.terminal import Console, grid

MAX_ROWS = 40  # maximum number of cells of one table that are shown, the largest ones
EMPTY = 0.00005  # a smaller cell, printed as 0.00 %, is left out of a table of more than ten

_FEW = 10
_BAR_CELLS = 24
_TABLE_ROWS = 14  # lines that a table takes on a dashboard, about

KINDS = {
    Kind.EARLY: "early: still receives reports",
    Kind.FINAL: "final",
    Kind.TOTAL: "total of all windows so far",
    Kind.CURRENT: "now: this window, with what earlier ones say about it",
}
FLAGS = {
    "covered": "some devices reported on all of these attributes together",
    "maxent": "reconstructed from smaller tables: its error may exceed the bars",
    "modelled": "estimated by a model from all reports; the bars include the error of the model",
    "clipped": "negative cells were corrected: bars near zero are too wide, not too narrow",
    "suspicious": "the raw counts look forged: do not rely on it, see the manifest",
    "noise": "the noise is too large: do not draw conclusions from this table",
    "uniform": "no report was about some of the attributes: that part is a guess",
    "raw": "cells may be negative and need not add up to 100 %",
}


def shown_cells(table: Sequence[float]) -> list[int]:
    """Return the numbers of the cells to show: of a large table the largest that are not empty."""
    cells = range(len(table))
    if len(table) > _FEW:
        cells = [i for i in cells if abs(table[i]) >= EMPTY]  # type: ignore[assignment]
    return sorted(sorted(cells, key=lambda i: -abs(table[i]))[:MAX_ROWS])


def left_out(table: Sequence[float]) -> list[str]:
    """Return a line about the cells that are not shown and their total share."""
    shown = set(shown_cells(table))
    others = [value for i, value in enumerate(table) if i not in shown]
    about = f"{len(others):,} of {len(table):,} cells left out: {100 * sum(others):.2f} % in all"
    return [about] if others else []


def in_percent(value: float, stderr: float, sign: str = "") -> tuple[str, str]:
    """Return a share and the half of its interval, for the columns ``%`` and ``± 95 %``."""
    return f"{100 * value:{sign}.2f}", f"{100 * Z95 * stderr:.2f}"


def bar(value: float, margin: float, scale: float) -> str:
    """Return a bar for the interval of a cell: solid to its lower end, with a mark at its value."""
    low, middle, high = (
        min(round(min(max(x, 0.0), 1.0) / scale * _BAR_CELLS), _BAR_CELLS)
        for x in (value - margin, value, value + margin)
    )
    drawn = list("█" * low + "▒" * (high - low))
    if drawn:
        drawn[min(max(middle - 1, 0), len(drawn) - 1)] = "┃"
    return "".join(drawn).ljust(_BAR_CELLS)


def render(snapshot: Snapshot, marginal: Sequence[str]) -> RenderableType:
    heading = Text(header(snapshot.manifest), style="bold")
    facts = Text(provenance(snapshot.manifest), style="dim")
    if not snapshot.marginals:
        return Group(heading, facts, Text("no tables: it received no reports"))
    record = snapshot.record(*marginal)
    above = map(Text, statistics_lines(record))
    below = notes(record)
    return Group(heading, facts, *above, _grid(record), *(Text(n, style="dim") for n in below))


def header(manifest: Manifest) -> str:
    window = f"window {manifest.window}"
    if manifest.kind is Kind.TOTAL:
        window = f"windows 0 to {manifest.window}"
    return (
        f"{manifest.name} · {window} · {span(manifest.start, manifest.end)} · "
        f"{KINDS[manifest.kind]} · revision {sum(manifest.revision):,}"
    )


def span(start: float, end: float, clock: str = "%H:%M:%S") -> str:
    """Return two times in UTC, from seconds since the epoch; the same date comes once."""
    first, last = (datetime.fromtimestamp(second, UTC) for second in (start, end))
    until = clock if first.date() == last.date() else f"%Y-%m-%d {clock}"
    return f"{first.strftime(f'%Y-%m-%d {clock}')} to {last.strftime(until)} UTC"


def provenance(manifest: Manifest) -> str:
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
    noise = " of the noise alone" if "maxent" in record.flags else ""
    return [
        f"{record.reports:,} reports are about it; ± and bars are 95 % intervals{noise}",
        *left_out(record.table),
        *(f"{flag}: {FLAGS.get(flag, 'not known here')}" for flag in record.flags),
    ]


def _grid(record: MarginalRecord) -> Grid:
    labels, cells = list(product(*record.labels)), shown_cells(record.table)
    ends = (record.table[i] + Z95 * record.stderr[i] for i in cells)
    scale = min(max(ends, default=1.0) or 1.0, 1.0)
    table = grid(*record.attributes, right=("%", "± 95 %"))
    table.add_column(f"0 to {100 * scale:.3g} %", no_wrap=True)
    for i in cells:
        value, margin = record.table[i], Z95 * record.stderr[i]
        drawn = Text(bar(value, margin, scale), style="red" if margin > value else "green")
        table.add_row(*labels[i], *in_percent(value, record.stderr[i]), drawn)
    return table


class Dashboard:
    """A live view of the newest window, the newest running total, and what the tables are now."""

    def __init__(self, marginal: Sequence[str] | None = None) -> None:
        self._marginal = marginal
        self._shown: dict[Kind, Snapshot] = {}

    def show(self, snapshot: Snapshot) -> None:
        place = Kind.FINAL if snapshot.kind is Kind.EARLY else snapshot.kind
        if place not in self._shown or snapshot.window >= self._shown[place].window:
            self._shown[place] = snapshot

    @property
    def shown(self) -> list[Snapshot]:
        return [self._shown[kind] for kind in Kind if kind in self._shown]

    def __rich_console__(self, console: RichConsole, options: ConsoleOptions) -> RenderResult:
        if not self._shown:
            yield Text("waiting for the first snapshot")
        tables = (options.height or console.height) // (_TABLE_ROWS * max(1, len(self._shown)))
        for snapshot in self.shown:
            wanted = [self._marginal] if self._marginal else [*snapshot.marginals] or [()]
            for marginal in wanted[: max(1, tables)]:
                yield render(snapshot, marginal)


def watch(
    snapshots: Iterable[Snapshot],
    marginal: Sequence[str] | None = None,
    *,
    console: Console | None = None,
) -> int:
    """Show snapshots until they end, live on a terminal; return how many there were."""
    console = Console() if console is None else console
    count = counted = 0
    if console.is_terminal:
        dashboard = Dashboard(marginal)
        with Live(dashboard, console=console, refresh_per_second=4, vertical_overflow="crop"):
            for snapshot in snapshots:
                count += 1
                dashboard.show(snapshot)
        return count
    for snapshot in snapshots:
        count += 1
        if snapshot.kind is Kind.TOTAL:
            if snapshot.manifest.reports <= counted:
                continue
            counted = snapshot.manifest.reports
        if not snapshot.marginals:
            console.print(f"window {snapshot.window}: no reports\n")
        for one in [marginal] if marginal and snapshot.marginals else snapshot.marginals:
            console.print(render(snapshot, one), "")
    return count


MAX_LINES = 12  # maximum number of labels of a given attribute that are shown

_SUMMARY_FLAGS = {
    "binned": "binned: the interval of a mean holds the ends of the bins too",
    "blurred": "blurred: quantiles of a grid are known to one step",
    "clamped": "clamped: values outside the edges count at the nearest edge",
}


def statistics_lines(record: MarginalRecord) -> list[str]:
    """Return one line for each row of the record's summaries, and one for each of their flags."""
    lines = [line for one in record.summaries for line in _lines(one)]
    flags = dict.fromkeys(flag for one in record.summaries for flag in one.flags)
    return [*lines, *(_SUMMARY_FLAGS[flag] for flag in flags if flag in _SUMMARY_FLAGS)]


def _lines(one: TableSummary) -> Iterator[str]:
    for row in one.rows[:MAX_LINES]:
        yield f"{_head(one, row)}: {', '.join(_text(s, one.unit) for s in row.statistics)}"
    if len(one.rows) > MAX_LINES:
        yield f"the first {MAX_LINES} of {len(one.rows):,} labels"


def _head(one: TableSummary, row: TableStatistics) -> str:
    name = " and ".join(one.attributes)
    if not one.given:
        return name
    given = ", ".join(f"{a} {b}" for a, b in zip(one.given, row.labels, strict=False))
    return f"{name} given {given}"


def _text(one: Statistic, unit: str) -> str:
    """Return a value with its interval, such as ``mean 12.5 ms (11.9 to 13.1)``."""
    value, interval = numbers(one)
    after = f" {unit}" if unit and interval and not one.share else ""
    return f"{one.statistic} {value}{after}" + (f" ({interval})" if interval else "")


def numbers(one: Statistic) -> tuple[str, str]:
    """Return the value of a statistic and its interval; ``unknown`` has none."""
    if one.value is None or one.low is None or one.high is None:
        return "unknown", ""
    if one.share:
        return f"{one.value:.2%}", f"{one.low:.2%} to {one.high:.2%}"
    return f"{one.value:.4g}", f"{one.low:.4g} to {one.high:.4g}"
