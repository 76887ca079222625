"""A question about kept counts, the same from the command line and over HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calmstream.common.errors import InvalidInput
from calmstream.consumer.read.history import Answer, History
from calmstream.consumer.read.kept import part_of
from calmstream.consumer.read.ranges import TOTAL, Windows
from calmstream.consumer.read.summary import Summary, split, summary
from calmstream.consumer.read.words import given_place, word_shares
from calmstream.estimators.analysis.words import candidates
from calmstream.estimators.plan import Plan


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, in the words of `History.ask` and `History.difference`.

    With ``statistics`` it is about these instead of the table, with ``candidates`` about the words
    of the only attribute.
    """

    attributes: tuple[str, ...]
    windows: str | Windows = TOTAL
    minus: str | Windows | None = None
    group: str = ""
    given: tuple[str, ...] = ()
    where: str = ""
    statistics: tuple[str, ...] | None = None
    candidates: tuple[str, ...] | None = None

    def check(self, plan: Plan) -> None:
        """Refuse what no counts can answer; needs no broker."""
        domain = plan.domain
        if self.candidates is not None:
            given_place(plan, self.attributes[0], self.given)
            candidates(self.candidates)
            return
        domain.index(self.attributes)
        part_of(domain, self.attributes, self.group, self.given, self.where)
        if self.statistics is not None:
            split(domain, self.attributes, self.given, self.statistics)
            if self.minus is not None or self.where:
                raise InvalidInput("summary: of all people of the windows; no minus, no where")

    def answer(self, history: History) -> Answer | Summary:
        names, windows = self.attributes, self.windows
        if self.candidates is not None:
            return word_shares(history, names[0], self.candidates, windows, given=self.given)
        if self.statistics is not None:
            return summary(
                history,
                names,
                windows,
                statistics=self.statistics,
                group=self.group,
                given=self.given,
            )
        part: dict[str, Any] = {"group": self.group, "given": self.given, "where": self.where}
        if self.minus is not None:
            return history.difference(names, windows, self.minus, **part)
        return history.ask(names, windows, **part)
