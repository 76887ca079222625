"""Means, quantiles, shares and rank correlations of any attributes and windows, as JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import orjson

from calmstream.common.errors import InvalidInput
from calmstream.consumer.read.history import History
from calmstream.consumer.read.ranges import Windows
from calmstream.consumer.read.summary import document, split, summary
from calmstream.consumer.serve.problems import Problem, Refused, refusal
from calmstream.consumer.serve.question import check_table
from calmstream.estimators.plan import Plan

STANDARD = ("mean", "median")
"""Statistics where none are named."""

MAX_STATISTICS = 16


@dataclass(frozen=True, slots=True)
class SummaryQuestion:
    """A question about statistics.

    Attributes:
        attributes: the attribute and the given ones; both attributes of a rank correlation.
        windows: whose.
        statistics: names.
        given: attributes within whose labels they are asked for.
        group: groups of labels of given attributes.
    """

    attributes: tuple[str, ...]
    windows: Windows
    statistics: tuple[str, ...]
    given: tuple[str, ...]
    group: str


def read_statistics(text: str) -> tuple[str, ...]:
    """Return the statistics in a parameter, separated by commas."""
    names = tuple(part.strip() for part in text.split(",")) if text.strip() else STANDARD
    if not all(names) or len(names) > MAX_STATISTICS:
        detail = f"statistics {text!r}: expected 1 to {MAX_STATISTICS} names separated by commas"
        raise Refused(Problem.MALFORMED, detail)
    return names


def summary_job(
    plan: Plan, question: SummaryQuestion, max_cells: int
) -> Callable[[History], bytes]:
    """Return the job that answers a question."""
    check_table(plan, question.attributes, question.given, max_cells)
    try:
        split(plan.domain, question.attributes, question.given, question.statistics)
    except InvalidInput as error:
        raise refusal(error) from None

    def job(history: History) -> bytes:
        found = summary(
            history,
            plan,
            question.attributes,
            question.windows,
            statistics=question.statistics,
            given=question.given,
            group=question.group,
        )
        return orjson.dumps(document(plan, found))

    return job
