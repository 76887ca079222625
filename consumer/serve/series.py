"""One table for each of several windows, as published where that is possible, else computed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import orjson

from calmstream.common.errors import InvalidInput
from calmstream.consumer.read.ranges import Windows
from calmstream.consumer.serve.context import Context
from calmstream.consumer.serve.parameters import Parameters
from calmstream.consumer.serve.plan_service import PlanService
from calmstream.consumer.serve.problems import Problem, Refused, refusal
from calmstream.consumer.serve.questions import table
from calmstream.consumer.serve.results import suspicious
from calmstream.estimators.analysis.grouping import parse
from calmstream.estimators.wire.snapshot import Kind, Manifest

PARAMETERS = ("attributes", "windows", "group", "given")
MAX_WINDOWS = 1000
MAX_TABLES = 4
"""All tables of a series together have at most so many times the cells of the largest table."""

_WITHOUT_TABLE = (Problem.NO_REPORTS, Problem.NOT_KEPT)


@dataclass(frozen=True, slots=True)
class _Series:
    service: PlanService
    attributes: tuple[str, ...]
    group: str
    given: tuple[str, ...]


async def series(context: Context, service: PlanService, asked: Parameters, peer: str) -> bytes:
    """Return the JSON object: the newest windows first come into it, until the time is over."""
    attributes, given = asked.table(service, context.settings.max_cells)
    windows = asked.series(service, "windows", "last:50")
    wanted = _Series(service, attributes, asked.text("group"), given)
    axes, labels = _axes(wanted)
    cells = prod(map(len, labels))
    most = max(min(MAX_WINDOWS, MAX_TABLES * context.settings.max_cells // cells), 1)
    first = max(windows.first, windows.last - most + 1)
    finals = [service.results.final(window) for window in range(first, windows.last + 1)]
    loop = asyncio.get_running_loop()
    deadline = loop.time() + context.settings.answer_seconds / 2
    found: list[dict[str, Any]] = []
    truncated = first > windows.first
    for final in filter(None, reversed(finals)):
        entry = _published(wanted, final)
        if entry is None:
            entry = await _computed(context, wanted, final, deadline - loop.time(), peer)
        if entry is None:
            truncated = True
            break
        found.append(entry | {"current": _table_of(wanted, final.window, Kind.CURRENT)})
    if truncated and not found:
        raise Refused(Problem.SLOW, "not one window is computed yet; ask again")
    answer = {"attributes": axes, "labels": labels, "windows": found[::-1], "truncated": truncated}
    return await asyncio.to_thread(orjson.dumps, answer)


def _axes(wanted: _Series) -> tuple[list[str], list[list[str]]]:
    """Return the names of the axes, given ones first, and their labels."""
    domain = wanted.service.plan.domain
    try:
        groupings = parse(wanted.group, domain)
    except InvalidInput as error:
        raise refusal(error) from None
    names = [*wanted.given, *(name for name in wanted.attributes if name not in wanted.given)]
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


def _published(wanted: _Series, final: Manifest) -> dict[str, Any] | None:
    if not final.reports:
        return _entry(final, final.reports)
    found = _table_of(wanted, final.window, Kind.FINAL)
    return None if found is None else _entry(final, **found)


def _table_of(wanted: _Series, window: int, kind: Kind) -> dict[str, Any] | None:
    tables = wanted.service.results.tables(window, kind)
    record = None if tables is None else tables.get(frozenset(wanted.attributes))
    if record is None or wanted.group or wanted.given:
        return None
    axes = [record.attributes.index(name) for name in wanted.attributes]
    shape = [len(labels) for labels in record.labels]

    def ordered(cells: Sequence[float]) -> list[float]:
        found: list[float] = np.reshape(cells, shape).transpose(axes).ravel().tolist()
        return found

    return {
        "reports": record.reports,
        "flags": record.flags,
        "table": ordered(record.table),
        "stderr": ordered(record.stderr),
    }


async def _computed(
    context: Context, wanted: _Series, final: Manifest, seconds: float, peer: str
) -> dict[str, Any] | None:
    """Return the entry of a window, computed or kept; None if that takes longer."""
    window = Windows(final.window, final.window)
    service, group, given = wanted.service, wanted.group, wanted.given
    question = table(service, wanted.attributes, window, group=group, given=given)
    if seconds <= 0.0 and not context.answers.has(context.etag(service, question)):
        return None
    try:
        answer = context.answer(service, question, peer)
        found = orjson.loads(await asyncio.wait_for(answer, max(seconds, 1.0)))
    except TimeoutError:
        return None
    except Refused as refused:
        if refused.problem in _WITHOUT_TABLE:
            return _entry(final, final.reports)
        if refused.problem in {Problem.SLOW, Problem.BUSY}:
            return None
        raise
    return _entry(final, found["reports"], found["flags"], found["table"], found["stderr"])


def _entry(
    final: Manifest,
    reports: int,
    flags: Sequence[str] = (),
    table: list[float] | None = None,
    stderr: list[float] | None = None,
) -> dict[str, Any]:
    more = ["suspicious"] if suspicious(final) and "suspicious" not in flags else []
    return {
        "window": final.window,
        "start": final.start,
        "end": final.end,
        "reports": reports,
        "flags": [*flags, *more],
        "table": table,
        "stderr": stderr,
    }
