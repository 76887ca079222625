"""Questions about the past of a plan, answered from its kept counts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from calmstream.broker.transport import Broker
from calmstream.common.clock import SystemClock
from calmstream.common.errors import FatalError, InvalidInput
from calmstream.consumer.read.kept import KeptCounts
from calmstream.consumer.read.ranges import (
    NoReports,
    NotFinal,
    NotKept,
    Windows,
    against_windows,
    read_windows,
)
from calmstream.consumer.subscribe.assembler import Table
from calmstream.consumer.subscribe.frame import FrameColumns
from calmstream.consumer.subscribe.subscribe import DEFAULT_NAMESPACE, connected, plan_names
from calmstream.estimators import methods
from calmstream.estimators.analysis.grouped import (
    GroupedTable,
    conditional,
    difference,
    first_groups,
    grouped,
)
from calmstream.estimators.analysis.grouping import Groups, of_question
from calmstream.estimators.analysis.poisoning import examine
from calmstream.estimators.methods.base import Model
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.wire.snapshot import Revision

MODELS = 8  # fitted models that are kept, the last used ones
SUSPICIOUS = "suspicious"
DEPENDENT = "dependent"


@dataclass(frozen=True, slots=True, eq=False)
class Answer(Table):
    """A table, with all that its reader must know.

    Attributes:
        attributes: names, in axis order; given ones first.
        labels: per attribute its labels, or those of its groups.
        table: shape of the labels; of a difference, changes, which may be negative.
        stderr: the same shape: standard errors, before non-negativity was enforced.
        flags: as in a snapshot (`Marginal`), and: ``approximate`` (errors take the cells as
            independent), ``conditional``, ``difference``, ``dependent`` (errors take reports as
            independent, but a device may have reported in several of these windows),
            ``suspicious`` (the raw counts look forged).
        reports: of these windows and groups of devices that speak about the attributes.
        windows: first and last window; of a difference, those it is about and those it subtracts.
        revision: by input partition, the offset up to which the last window's final tables count.
        plan: whose table it is.
    """

    windows: tuple[Windows, ...]
    revision: Revision
    plan: Plan

    def to_json(self) -> dict[str, Any]:
        """Return one JSON object; cells row-major, the last attribute fastest."""
        return {
            "plan": self.plan.digest,
            "attributes": list(self.attributes),
            "labels": [list(labels) for labels in self.labels],
            "table": self.table.ravel().tolist(),
            "stderr": self.stderr.ravel().tolist(),
            "flags": list(self.flags),
            "windows": [windows.to_json(self.plan) for windows in self.windows],
            "reports": self.reports,
            "revision": list(self.revision),
        }

    def columns(self) -> FrameColumns:
        """Return the columns of a `Table`; what HTML says about it begins with the windows."""
        found = Table.columns(self)
        return found._replace(about=(" minus ".join(map(str, self.windows)), *found.about))


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """The counts of some windows: one tally per group, flags of the reports, and what fits them."""

    plan: Plan
    windows: Windows
    tallies: tuple[Tally, ...]
    flags: tuple[str, ...]
    fit: Callable[[], Model]


class History:
    """Answers questions about any windows of a plan. Not safe for use from several threads.

    Reading begins with the first question or `refresh`. A method is fitted once per range of
    windows; further questions about the range are cheap. It joins no consumer group and writes
    nothing. Use it as a context manager, or call `close`.

    Args:
        plan: the plan.
        broker: a transport, which stays open, or ``HOST:PORT[,HOST:PORT]`` of Kafka without TLS.
        namespace: of the plan's topics.
        output_namespace: of its results, where a log was counted again into another one.
    """

    def __init__(
        self,
        plan: Plan,
        broker: Broker | str,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        output_namespace: str = "",
    ) -> None:
        self._plan = plan
        self._stack = ExitStack()
        transport = connected(broker, self._stack)
        names = plan_names(plan, namespace, output_namespace)
        self._kept = KeptCounts(plan, transport, names, SystemClock())
        self._stack.callback(self._kept.close)
        # By windows and revision the model, and flags of its reports.
        self._models: OrderedDict[tuple[Windows, Revision], tuple[Model, tuple[str, ...]]]
        self._models = OrderedDict()
        self._read = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the clients."""
        self._stack.close()

    def refresh(self) -> None:
        """Read what was published since the last call.

        Raises:
            FatalError: a topic is missing.
            InvalidInput: a record of a newer version.
            RecoverableError: the broker does not answer.
        """
        self._kept.refresh()
        self._read = True

    def windows(self) -> list[int]:
        """Return the windows whose counts are kept, ascending."""
        if not self._read:
            self.refresh()
        return self._kept.windows()

    def newest(self) -> int | None:
        """Return the newest final window whose counts are kept; None before the first."""
        return max(self.windows(), default=None)

    def ask(
        self,
        attributes: Sequence[str],
        windows: str | Windows = "total",
        *,
        group: Groups = "",
        given: Sequence[str] = (),
        where: Groups = "",
    ) -> Answer:
        """Return the table over any attributes of the plan.

        Args:
            attributes: names, published or not.
            windows: ``current``, ``total``, ``latest``, ``I..J`` or others, or what they stand
                for (`read.ranges`).
            group: groups of labels, ``region=EU|US,other;age=17-30|31+``
                (`analysis.grouping`), or a mapping from attribute to its groups.
            given: some of the attributes: proportions within each of their combinations.
            where: only of people with these labels, ``region=EU,US;age=17-30``, as for ``group``.

        Raises:
            InvalidInput: unknown names, a table that is too large, or a method that cannot answer;
                and by `read.ranges` windows that are not final, not kept, or without reports.
        """
        found, flags, chosen = self.table(attributes, windows, group, given=given, where=where)
        return self._answer(found, (chosen,), flags)

    def difference(
        self,
        attributes: Sequence[str],
        windows: str | Windows,
        minus: str | Windows,
        *,
        group: Groups = "",
        given: Sequence[str] = (),
        where: Groups = "",
    ) -> Answer:
        """Return the table of some windows minus that of others, before non-negativity.

        Args:
            attributes: as for `ask`.
            windows: whose table.
            minus: whose table is subtracted; no window may be in both. ``previous`` are as many
                windows just before, ``before`` all windows before.
            group, given, where: as for `ask`.

        Raises:
            InvalidInput: as `ask`, or the windows overlap.
        """
        after = self._windows(windows)
        before = self._windows(against_windows(minus, after))
        if after.overlaps(before):
            raise InvalidInput(f"a difference needs windows apart: {after} and {before} overlap")
        first, flags, _ = self.table(attributes, after, group, given=given, where=where)
        second, more, _ = self.table(attributes, before, group, given=given, where=where)
        change = difference(first, second)
        if _may_repeat(self._plan.guarantee.windows, after, before):
            more = (*more, DEPENDENT)
        return self._answer(change, (after, before), (*flags, *more))

    def table(
        self,
        attributes: Sequence[str],
        windows: str | Windows = "total",
        group: Groups = "",
        *,
        given: Sequence[str] = (),
        where: Groups = "",
    ) -> tuple[GroupedTable, tuple[str, ...], Windows]:
        """Return a table with its covariance, flags of its reports, and its windows."""
        chosen = self._windows(windows)
        groupings, only = of_question(group, where, self._plan.domain)
        names, given = list(dict.fromkeys((*attributes, *only))), (*given, *only)
        if only and set(given) >= set(names):
            raise InvalidInput("where: an attribute must be left to ask about")
        model, flags = self._fitted(chosen)
        found = grouped(model, self._plan.domain, names, groupings)
        if given:
            found = first_groups(conditional(found, given), only)
        return found, flags, chosen

    def model(self, windows: str | Windows = "total") -> tuple[Model, Windows]:
        """Return the fitted model of some windows, and these windows."""
        chosen = self._windows(windows)
        return self._fitted(chosen)[0], chosen

    def counted(self, windows: str | Windows) -> Counted:
        """Return the counts of some windows, without those of a pilot."""
        chosen = self._windows(windows)
        if chosen.current:
            self._window(chosen.last)
            now = self._kept.current(chosen.last)
            received, tallies, fit = now.tallies, now.reduced(), partial(now.model, self._plan)
        else:
            tallies = self._tallies(chosen)
            received = tuple(tallies)
            fit = partial(methods.fit, self._plan, tallies, total=chosen.total)
        if not any(tally.reports for tally in received):
            raise NoReports(f"{chosen} received no reports")
        flags = []
        forged = any(self._kept.suspicious(w) for w in range(chosen.first, chosen.last + 1))
        # What a discount leaves of forged counts looks like no forged window.
        if not (forged or chosen.current):
            forged = examine(self._plan, tallies, len(chosen)).suspicious
        if forged:
            flags.append(SUSPICIOUS)
        if 1 < self._plan.guarantee.windows < len(chosen):
            flags.append(DEPENDENT)
        return Counted(self._plan, chosen, tuple(tallies), tuple(flags), fit)

    def revision(self, windows: Windows) -> Revision:
        """Return the revision of the final of the last window."""
        return self._kept.revision(windows.last)

    def window_counts(self, window: int) -> list[Tally]:
        """Return the counts of one kept window, one tally per group."""
        return self._window(window)[0]

    def _windows(self, text: str | Windows) -> Windows:
        if not self._read:
            self.refresh()
        if isinstance(text, Windows):
            return text
        newest = self._kept.newest()
        if newest is None:
            raise NotFinal("no window is final yet")
        return read_windows(text, self._plan, newest)

    def _fitted(self, windows: Windows) -> tuple[Model, tuple[str, ...]]:
        place = (windows, self._kept.revision(windows.last))
        if place not in self._models:
            counted = self.counted(windows)
            self._models[place] = counted.fit(), counted.flags
            while len(self._models) > MODELS:
                self._models.popitem(last=False)
        self._models.move_to_end(place)
        return self._models[place]

    def _tallies(self, windows: Windows) -> list[Tally]:
        """Take the difference of two totals where both are kept; else add all windows."""
        own, last = self._window(windows.last)
        if windows.first in (0, windows.last):
            return own if windows.first else last
        if self._kept.kept(windows.first - 1):
            before = self._kept.tallies(windows.first - 1)[1]
            return [_minus(a, b) for a, b in zip(last, before, strict=True)]
        for window in range(windows.first, windows.last):
            own = [a + b for a, b in zip(own, self._window(window)[0], strict=True)]
        return own

    def _window(self, window: int) -> tuple[list[Tally], list[Tally]]:
        """Return the counts of one window, and those of all windows through it."""
        if not self._kept.kept(window):
            raise NotKept(
                f"window {window} is not kept: its counts are missing from the counts topic"
            )
        return self._kept.tallies(window)

    def _answer(
        self, found: GroupedTable, windows: tuple[Windows, ...], flags: tuple[str, ...]
    ) -> Answer:
        return Answer(
            attributes=found.attributes,
            labels=found.labels,
            table=found.table,
            stderr=found.stderr,
            flags=tuple(dict.fromkeys((*found.flags, *flags))),
            windows=windows,
            reports=found.reports,
            revision=self._kept.revision(max(w.last for w in windows)),
            plan=self._plan,
        )


def _may_repeat(period: int, one: Windows, other: Windows) -> bool:
    """Return whether a device that reports in every ``period``-th window may be in both."""
    if period == 1:
        return False
    span = max(one.last, other.last) - min(one.first, other.first)
    gap = max(one.first, other.first) - min(one.last, other.last)
    # Distances of a window of one to a window of the other: gap to span.
    return gap <= period * (span // period)


def _minus(total: Tally, earlier: Tally) -> Tally:
    found = Tally(total.n - earlier.n, total.counts - earlier.counts)
    if (found.n < 0).any() or (found.counts < 0).any():
        raise FatalError("running totals in the counts topic decrease: they are of two logs")
    return found
