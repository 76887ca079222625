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
from calmstream.consumer.read.question import Question
from calmstream.consumer.read.ranges import LATEST, PREVIOUS, Windows
from calmstream.consumer.serve.answers import etag_of
from calmstream.consumer.serve.parameters import Parameters
from calmstream.consumer.serve.plan_service import PlanService
from calmstream.consumer.serve.problems import Problem, Refused
from calmstream.estimators.analysis.association import chow_liu
from calmstream.estimators.analysis.report import associate, causes, pairs_of


@dataclass(frozen=True, slots=True)
class Prepared:
    """What computes the answer to a question; all that decides the answer decides its ETag."""

    etag: str
    job: Callable[[History], bytes]
    format: str = "json"


def _prepared(
    service: PlanService,
    last: int,
    job: Callable[[History], bytes],
    *key: object,
    format: str = "json",  # noqa: A002 - the parameter's name
) -> Prepared:
    """Prepare a question whose newest window is ``last``; beside the counts, ``key`` decides."""
    of = service.plan.digest, service.names.results_namespace, service.results.revision(last)
    etag = etag_of(*of, key, format)
    return Prepared(etag, job, format)


def prepared(
    service: PlanService,
    question: Question,
    format: str = "json",  # noqa: A002 - the parameter's name
) -> Prepared:
    """Prepare a checked question, whose windows were read."""
    windows = [one for one in (question.windows, question.minus) if isinstance(one, Windows)]

    def job(history: History) -> bytes:
        return FORMATS[format](question.answer(history))

    return _prepared(service, max(one.last for one in windows), job, question, format=format)


def _table(service: PlanService, asked: Parameters) -> Prepared:
    chosen = asked.text("format", "json")
    if chosen not in FORMATS:
        known = ", ".join(FORMATS)
        raise Refused(Problem.MALFORMED, f"format {chosen!r}: expected one of {known}")
    return prepared(service, asked.question(service), chosen)


def _summary(service: PlanService, asked: Parameters) -> Prepared:
    return prepared(service, asked.question(service, statistics=asked.statistics("statistics")))


def _words(service: PlanService, asked: Parameters) -> Prepared:
    question = Question(
        (asked.text("text"),),
        asked.windows(service, "windows"),
        given=asked.names(service, "given"),
        candidates=tuple(line.strip() for line in asked.text("candidates").splitlines()),
    )
    question.check(service.plan)
    return prepared(service, question)


def _associations(service: PlanService, asked: Parameters) -> Prepared:
    windows = asked.windows(service, "windows")

    def job(history: History) -> bytes:
        return orjson.dumps(associations(service, history, windows, asked.max_cells))

    return _prepared(service, windows.last, job, "associations", windows)


def _changes(service: PlanService, asked: Parameters) -> Prepared:
    window = asked.windows(service, "window", LATEST)
    against = asked.windows(service, "against", PREVIOUS, after=window)
    if against.overlaps(window):
        detail = f"a comparison needs windows apart: {window} and {against} share devices"
        raise Refused(Problem.MALFORMED, detail)

    def job(history: History) -> bytes:
        return orjson.dumps(changes(history, window, against).to_json())

    last = max(window.last, against.last)
    return _prepared(service, last, job, "changes", window, against)


_TABLE = ("attributes", "windows", "group", "given")
Read = Callable[[PlanService, Parameters], Prepared]
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
