"""One table for each of several windows, as published where that is possible, else computed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import orjson

from calmstream.consumer.read.question import Question
from calmstream.consumer.read.ranges import Windows
from calmstream.consumer.serve.answers import Answers
from calmstream.consumer.serve.parameters import Parameters
from calmstream.consumer.serve.plan_service import PlanService
from calmstream.consumer.serve.problems import Problem, Refused
from calmstream.consumer.serve.questions import prepared
from calmstream.consumer.serve.results import suspicious
from calmstream.consumer.serve.settings import ServeSettings
from calmstream.consumer.subscribe.assembler import table_of
from calmstream.estimators.analysis.grouping import parse
from calmstream.estimators.wire.snapshot import Kind, Manifest

PARAMETERS = ("attributes", "windows", "group", "given")
MAX_WINDOWS = 1000
MAX_TABLES = 4  # all tables of a series have at most so many times the cells of the largest one
_WITHOUT_TABLE = (Problem.NO_REPORTS, Problem.NOT_KEPT)


@dataclass(frozen=True, slots=True)
class _Series:
    """What a peer asks about every window."""

    service: PlanService
    question: Question
    answers: Answers
    peer: str

    def axes(self) -> tuple[list[str], list[list[str]]]:
        domain, asked = self.service.plan.domain, self.question
        groupings = parse(asked.group, domain)
        names = [*asked.given, *(name for name in asked.attributes if name not in asked.given)]
        places = [domain.index([name])[0] for name in names]
        axes = (groupings.get(i, domain.attributes[i]) for i in places)
        return names, [list(axis.labels) for axis in axes]

    def published(self, final: Manifest) -> dict[str, Any] | None:
        """Return the entry of a window that needs no computation; None if it needs one."""
        if not final.reports:
            return _entry(final, final.reports)
        found = self.table(final.window, Kind.FINAL)
        return None if found is None else _entry(final, **found)

    def table(self, window: int, kind: Kind) -> dict[str, Any] | None:
        """Return a published table with its axes as asked for; None where there is none."""
        tables = self.service.results.tables(window, kind)
        asked = self.question
        record = None if tables is None else tables.get(frozenset(asked.attributes))
        if record is None or asked.group or asked.given:
            return None
        found = table_of(record, asked.attributes)
        return {
            "reports": found.reports,
            "flags": found.flags,
            "table": found.table.ravel().tolist(),
            "stderr": found.stderr.ravel().tolist(),
        }

    async def computed(self, final: Manifest, seconds: float) -> dict[str, Any] | None:
        """Return the entry of a window, computed or kept; None if that takes longer."""
        service, window = self.service, Windows(final.window, final.window)
        asked = prepared(service, replace(self.question, windows=window))
        if seconds <= 0.0 and not self.answers.has(asked.etag):
            return None
        answer = self.answers.get(asked.etag, lambda: service.submit(asked.job, self.peer))
        try:
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


async def series(
    service: PlanService, asked: Parameters, answers: Answers, settings: ServeSettings, peer: str
) -> bytes:
    """Return the JSON object: the newest windows first come into it, until the time is over."""
    question = asked.question(service, "last:50")
    windows = question.windows
    assert isinstance(windows, Windows)  # as `Parameters` reads them
    wanted = _Series(service, question, answers, peer)
    axes, labels = wanted.axes()
    cells = prod(map(len, labels))
    most = max(min(MAX_WINDOWS, MAX_TABLES * asked.max_cells // cells), 1)
    first = max(windows.first, windows.last - most + 1)
    finals = [service.results.final(window) for window in range(first, windows.last + 1)]
    loop = asyncio.get_running_loop()
    deadline = loop.time() + settings.answer_seconds / 2
    found: list[dict[str, Any]] = []
    truncated = first > windows.first
    for final in filter(None, reversed(finals)):
        entry = wanted.published(final)
        if entry is None:
            entry = await wanted.computed(final, deadline - loop.time())
        if entry is None:
            truncated = True
            break
        found.append(entry | {"current": wanted.table(final.window, Kind.CURRENT)})
    if truncated and not found:
        raise Refused(Problem.SLOW, "not one window is computed yet; ask again")
    answer = {"attributes": axes, "labels": labels, "windows": found[::-1], "truncated": truncated}
    return await asyncio.to_thread(orjson.dumps, answer)


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
