"""The parameters of a request, checked as far as that is cheap."""

from __future__ import annotations

import re
from collections.abc import Collection
from math import prod

from starlette.datastructures import QueryParams

from calmstream.common.errors import InvalidInput
from calmstream.consumer.read.question import Question
from calmstream.consumer.read.ranges import TOTAL, NoAnswer, Windows, read_windows
from calmstream.consumer.serve.plan_service import PlanService
from calmstream.consumer.serve.problems import Problem, Refused

MAX_STATISTICS = 16
STANDARD = ("mean", "median")  # statistics where none are named
LISTS = frozenset({"attributes", "given"})  # parameters that may be repeated, with one name each


class Parameters:
    """The parameters of a request: those that its address has, and single ones once."""

    def __init__(self, given: QueryParams, known: Collection[str], max_cells: int) -> None:
        names = [name for name, _ in given.multi_items()]
        for name in names:
            if name not in known:
                there = ", ".join(sorted(known)) or "none"
                raise Refused(Problem.MALFORMED, f"unknown parameter {name!r}; there are {there}")
            if name not in LISTS and names.count(name) > 1:
                raise Refused(Problem.MALFORMED, f"{name}: given more than once")
        self._given = given
        self.max_cells = max_cells

    def text(self, name: str, default: str = "") -> str:
        return self._given.get(name, default).strip()

    def number(self, name: str, default: int, most: int) -> int:
        text = self.text(name, str(default))
        if not re.fullmatch("[0-9]{1,9}", text) or not 1 <= int(text) <= most:
            raise Refused(Problem.MALFORMED, f"{name}: expected a number from 1 to {most:,}")
        return int(text)

    def names(self, service: PlanService, name: str) -> tuple[str, ...]:
        """Return names between commas or in repeated parameters; one with a comma stands alone."""
        texts = self._given.getlist(name)
        if len(texts) > 1 or (texts and texts[0] in service.plan.domain.names):
            return tuple(texts)
        names = tuple(part.strip() for part in texts[0].split(",")) if any(texts) else ()
        if not all(names):
            detail = f"expected names separated by commas, got {texts[0]!r}"
            raise Refused(Problem.MALFORMED, detail)
        return names

    def question(
        self,
        service: PlanService,
        windows: str = TOTAL,
        *,
        statistics: tuple[str, ...] | None = None,
    ) -> Question:
        """Return the question about a table, which is not too large."""
        attributes, domain = self.names(service, "attributes"), service.plan.domain
        if not attributes:
            raise Refused(Problem.MALFORMED, "attributes: name at least one attribute")
        cells = prod(domain.shape(domain.index(attributes)))
        if cells > self.max_cells:
            raise Refused(
                Problem.TOO_LARGE,
                f"a table of {cells:,} cells; at most {self.max_cells:,}: name fewer attributes",
            )
        question = Question(
            attributes,
            self.windows(service, "windows", windows),
            self.windows(service, "minus") if self.text("minus") else None,
            self.text("group"),
            self.names(service, "given"),
            statistics=statistics,
        )
        question.check(service.plan)
        return question

    def windows(
        self, service: PlanService, name: str, default: str = TOTAL, after: Windows | None = None
    ) -> Windows:
        newest = service.results.newest
        if newest is None:
            raise Refused(Problem.NOT_FINAL, "no window is final yet")
        try:
            return read_windows(self.text(name, default), service.plan, newest, after)
        except NoAnswer:
            raise
        except InvalidInput as error:
            raise Refused(Problem.MALFORMED, str(error)) from None

    def statistics(self, name: str) -> tuple[str, ...]:
        text = self.text(name)
        names = tuple(part.strip() for part in text.split(",")) if text else STANDARD
        if not all(names) or len(names) > MAX_STATISTICS:
            detail = f"{name} {text!r}: expected 1 to {MAX_STATISTICS} names separated by commas"
            raise Refused(Problem.MALFORMED, detail)
        return names
