"""One table for each of several windows, as published where that is possible, else computed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import orjson

from calmstream.common.errors import InvalidInput
from calmstream.consumer.read.history import History
from calmstream.consumer.read.ranges import Windows
from calmstream.consumer.read.refusals import NoReports, NotKept, Withheld
from calmstream.consumer.serve.answers import etag_of
from calmstream.consumer.serve.context import Context
from calmstream.consumer.serve.plan_service import PlanService
from calmstream.consumer.serve.problems import Problem, Refused, refusal
from calmstream.consumer.serve.results import WindowSummary
from calmstream.estimators.analysis.grouping import parse
from calmstream.estimators.marginal import Floats

MAX_WINDOWS = 1000
MAX_TABLES = 4
"""All tables of a series together have at most so many times the cells of the largest table."""


@dataclass(frozen=True, slots=True)
class _Series:
    """What is asked about every window."""

    attributes: tuple[str, ...]
    group: str
    given: tuple[str, ...]

    @property
    def plain(self) -> bool:
        """Whether a published table answers it as it is."""
        return not self.group and not self.given


async def series(
    context: Context,
    service: PlanService,
    attributes: tuple[str, ...],
    windows: Windows,
    group: str,
    given: tuple[str, ...],
    peer: str,
) -> bytes:
    """Return the JSON object: the newest windows first come into it, until the time is over."""
    asked = _Series(attributes, group, given)
    axes, labels = await asyncio.to_thread(_axes, service, asked)
    cells = prod(map(len, labels))
    most = max(min(MAX_WINDOWS, MAX_TABLES * context.settings.max_cells // cells), 1)
    first = max(windows.first, windows.last - most + 1)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + context.settings.answer_seconds / 2
    published = await asyncio.to_thread(_published, service, asked, Windows(first, windows.last))
    found: list[bytes] = []
    truncated = first > windows.first
    for window in range(windows.last, first - 1, -1):
        final = service.results.final(window)
        if final is None:
            continue
        entry = published.get(window)
        if entry is None:
            entry = await _computed(context, service, asked, final, deadline - loop.time(), peer)
        if entry is None:
            truncated = True
            break
        found.append(entry)
    if truncated and not found:
        raise Refused(Problem.SLOW, "not one window is computed yet; ask again")
    return orjson.dumps(
        {
            "attributes": axes,
            "labels": labels,
            "windows": [orjson.Fragment(entry) for entry in reversed(found)],
            "truncated": truncated,
        }
    )


def _axes(service: PlanService, asked: _Series) -> tuple[list[str], list[list[str]]]:
    """Return the names of the axes, given ones first, and their labels."""
    domain = service.plan.domain
    try:
        groupings = parse(asked.group, domain)
    except InvalidInput as error:
        raise refusal(error) from None
    names = [*asked.given, *(name for name in asked.attributes if name not in asked.given)]
    labels = []
    for name in names:
        (position,) = domain.index([name])
        grouping = groupings.pop(position, None)
        own = domain.attributes[position].labels
        labels.append(list(own if grouping is None else grouping.labels))
    if groupings:
        other = domain.names[min(groupings)]
        raise Refused(Problem.REFUSED, f"group: {other!r} is not among the attributes asked for")
    return names, labels


def _published(service: PlanService, asked: _Series, windows: Windows) -> dict[int, bytes]:
    """Return the entries that need no computation, by window."""
    found = {}
    for window in range(windows.first, windows.last + 1):
        final = service.results.final(window)
        if final is None:
            continue
        if not final.reports or final.withheld:
            found[window] = _entry(final, final.reports, (), None, None)
            continue
        tables = service.results.tables(window) if asked.plain else None
        record = None if tables is None else tables.get(frozenset(asked.attributes))
        if record is not None:
            table, stderr = (_ordered(service, asked, a) for a in (record.table, record.stderr))
            found[window] = _entry(final, record.reports, record.flags, table, stderr)
    return found


def _ordered(service: PlanService, asked: _Series, cells: Floats) -> list[float]:
    """Return the cells of a published table in the order of the axes asked for."""
    positions = [service.plan.domain.index([name])[0] for name in asked.attributes]
    axes = [sorted(positions).index(position) for position in positions]
    ordered: list[float] = cells.transpose(axes).ravel().tolist()
    return ordered


async def _computed(
    context: Context,
    service: PlanService,
    asked: _Series,
    final: WindowSummary,
    seconds: float,
    peer: str,
) -> bytes | None:
    """Return the table of a window, computed or kept; None if that takes longer."""

    def job(history: History) -> bytes:
        window = Windows(final.window, final.window)
        try:
            answer = history.ask(asked.attributes, window, group=asked.group, given=asked.given)
        except (NoReports, NotKept, Withheld):
            return _entry(final, final.reports, (), None, None)
        table, stderr = answer.table.ravel().tolist(), answer.stderr.ravel().tolist()
        return _entry(final, answer.reports, answer.flags, table, stderr)

    etag = etag_of(service, final.revision, "series", asked, final.window)
    if seconds <= 0.0 and not context.answers.has(etag):
        return None
    try:
        answer = context.answers.get(etag, lambda: service.submit(job, peer))
        return await asyncio.wait_for(answer, max(seconds, 1.0))
    except TimeoutError:
        return None
    except Refused as refused:
        if refused.problem in {Problem.SLOW, Problem.BUSY}:
            return None
        raise


def _entry(
    final: WindowSummary,
    reports: int,
    flags: Sequence[str],
    table: list[float] | None,
    stderr: list[float] | None,
) -> bytes:
    more = ["suspicious"] if final.suspicious and "suspicious" not in flags else []
    entry: dict[str, Any] = {
        "window": final.window,
        "start": final.start,
        "end": final.end,
        "reports": reports,
        "flags": [*flags, *more],
        "table": table,
        "stderr": stderr,
    }
    return orjson.dumps(entry)
