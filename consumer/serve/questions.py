"""Questions that kept counts answer: what decides the answer, and the job that computes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from calmstream.common.errors import InvalidInput
from calmstream.consumer.read.changes import changes
from calmstream.consumer.read.formats import FORMATS
from calmstream.consumer.read.history import History
from calmstream.consumer.read.ranges import LATEST, PREVIOUS, Windows
from calmstream.consumer.read.summary import split, summary
from calmstream.consumer.read.words import given_place, word_shares
from calmstream.consumer.serve.answers import etag_of
from calmstream.consumer.serve.parameters import Parameters
from calmstream.consumer.serve.plan_service import PlanService
from calmstream.consumer.serve.problems import Problem, Refused, refusal
from calmstream.estimators.analysis.association import chow_liu
from calmstream.estimators.analysis.report import associate, causes, pairs_of
from calmstream.estimators.analysis.words import candidates


@dataclass(frozen=True, slots=True)
class Question:
    """What computes an answer; all that decides the answer decides its ETag."""

    etag: str
    job: Callable[[History], bytes]
    format: str = "json"


def _question(
    service: PlanService,
    last: int,
    job: Callable[[History], bytes],
    *key: object,
    format: str = "json",  # noqa: A002 - the parameter's name
) -> Question:
    """Return a question whose newest window is ``last``; beside the counts, ``key`` decides."""
    revision = service.results.revision(last)
    return Question(etag_of(service.plan.digest, service.namespace, revision, key), job, format)


def table(
    service: PlanService,
    attributes: tuple[str, ...],
    windows: Windows,
    *,
    minus: Windows | None = None,
    group: str = "",
    given: tuple[str, ...] = (),
    format: str = "json",  # noqa: A002 - the parameter's name
) -> Question:
    def job(history: History) -> bytes:
        if minus is None:
            answer = history.ask(attributes, windows, group=group, given=given)
        else:
            answer = history.difference(attributes, windows, minus, group=group, given=given)
        return FORMATS[format](answer)

    last = max(windows.last, -1 if minus is None else minus.last)
    key = ("table", attributes, windows, minus, group, given, format)
    return _question(service, last, job, *key, format=format)


def _table(service: PlanService, asked: Parameters) -> Question:
    chosen = asked.text("format", "json")
    if chosen not in FORMATS:
        known = ", ".join(FORMATS)
        raise Refused(Problem.MALFORMED, f"format {chosen!r}: expected one of {known}")
    attributes, given = asked.table(service)
    return table(
        service,
        attributes,
        asked.windows(service, "windows"),
        minus=asked.windows(service, "minus") if asked.text("minus") else None,
        group=asked.text("group"),
        given=given,
        format=chosen,
    )


def _words(service: PlanService, asked: Parameters) -> Question:
    plan, name = service.plan, asked.text("text")
    windows = asked.windows(service, "windows")
    given = asked.names(service, "given") if asked.text("given") else ()
    texts = tuple(line.strip() for line in asked.text("candidates").splitlines())
    try:
        given_place(plan, name, given)
        candidates(texts)
    except InvalidInput as error:
        raise refusal(error) from None

    def job(history: History) -> bytes:
        return FORMATS["json"](word_shares(history, name, texts, windows, given=given))

    return _question(service, windows.last, job, "words", name, texts, windows, given)


def _summary(service: PlanService, asked: Parameters) -> Question:
    plan, statistics = service.plan, asked.statistics("statistics")
    attributes, given = asked.table(service)
    windows, group = asked.windows(service, "windows"), asked.text("group")
    try:
        split(plan.domain, attributes, given, statistics)
    except InvalidInput as error:
        raise refusal(error) from None

    def job(history: History) -> bytes:
        found = summary(
            history, attributes, windows, statistics=statistics, given=given, group=group
        )
        return orjson.dumps(found.to_json())

    key = ("summary", attributes, windows, statistics, given, group)
    return _question(service, windows.last, job, *key)


def _associations(service: PlanService, asked: Parameters) -> Question:
    windows = asked.windows(service, "windows")

    def job(history: History) -> bytes:
        return orjson.dumps(associations(service, history, windows, asked.max_cells))

    return _question(service, windows.last, job, "associations", windows)


def _changes(service: PlanService, asked: Parameters) -> Question:
    window = asked.windows(service, "window", LATEST)
    against = asked.windows(service, "against", PREVIOUS, after=window)
    if against.overlaps(window):
        detail = f"a comparison needs windows apart: {window} and {against} share devices"
        raise Refused(Problem.MALFORMED, detail)

    def job(history: History) -> bytes:
        return orjson.dumps(changes(history, window, against).to_json())

    last = max(window.last, against.last)
    return _question(service, last, job, "changes", window, against)


_TABLE = ("attributes", "windows", "group", "given")
Read = Callable[[PlanService, Parameters], Question]
QUESTIONS: Mapping[str, tuple[Read, tuple[str, ...]]] = {
    "tables": (_table, (*_TABLE, "minus", "format")),
    "summaries": (_summary, (*_TABLE, "statistics")),
    "words": (_words, ("text", "candidates", "windows", "given")),
    "associations": (_associations, ("windows",)),
    "changes": (_changes, ("window", "against")),
}
"""By the end of the address: how the question is read, and its parameters."""


def associations(
    service: PlanService, history: History, windows: Windows, max_cells: int
) -> dict[str, Any]:
    """Return the JSON object; ``strength`` is Cramér's V with the noise's share removed.

    ``p`` is of the test with the covariance of the cells; a method that shrinks its tables makes it
    too large, never too small. ``verdict`` is ``dependent`` where it rejects at 5 %.
    """
    domain = service.plan.domain
    model = history.counted(windows).model
    finals = (service.results.final(w) for w in range(windows.first, windows.last + 1))
    reports = sum(final.reports for final in finals if final is not None)
    pairs, information = [], {}
    for pair in pairs_of(service.plan, max_cells):
        try:
            found = associate(model, domain, pair, max(reports, 1))
        except InvalidInput:
            continue  # the plan does not collect what the pair needs
        information[pair] = found.information
        pairs.append(
            {
                "attributes": [domain.names[i] for i in pair],
                "strength": found.strength,
                "stderr": found.stderr,
                "p": None if found.test is None else found.test.p_value,
                "verdict": "undecided" if found.stderr is None else "dependent",
            }
        )
    tree = chow_liu(domain.ordinary, information)
    return {
        "windows": [windows.to_json(service.plan)],
        "reports": reports,
        "pairs": pairs,
        "causes": causes(domain, model),
        "tree": [[domain.names[i], domain.names[j], information[i, j]] for i, j in tree],
    }
