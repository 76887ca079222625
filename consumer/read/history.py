"""Questions about the past of a plan, answered from its kept counts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Self

from calmstream.broker.names import DEFAULT_NAMESPACE, TopicNames
from calmstream.broker.transport import Broker
from calmstream.common.clock import SystemClock
from calmstream.common.errors import InvalidInput
from calmstream.consumer.read.kept import DEPENDENT, Counted, KeptCounts
from calmstream.consumer.read.ranges import NoAnswer, Windows, read_windows
from calmstream.consumer.subscribe.assembler import Table
from calmstream.consumer.subscribe.frame import FrameColumns
from calmstream.consumer.subscribe.subscribe import connected
from calmstream.estimators.analysis.grouped import GroupedTable, difference
from calmstream.estimators.analysis.grouping import Groups
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.wire.snapshot import Revision


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
        self.plan = plan
        self._stack = ExitStack()
        transport = connected(broker, self._stack)
        names = TopicNames.of(plan, namespace, output_namespace)
        self._kept = KeptCounts(plan, transport, names, SystemClock())
        self._stack.callback(self._kept.close)
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
        counted = self.counted(windows)
        return _answer(counted.table(attributes, group, given=given, where=where), counted)

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
        after = self.counted(windows)
        before = self.counted(minus, after.windows)
        spans = after.windows, before.windows
        if spans[0].overlaps(spans[1]):
            raise InvalidInput(
                f"a difference needs windows apart: {spans[0]} and {spans[1]} overlap"
            )
        first, second = (
            side.table(attributes, group, given=given, where=where) for side in (after, before)
        )
        more = (DEPENDENT,) if _may_repeat(self.plan.guarantee.windows, *spans) else ()
        return _answer(difference(first, second), after, before, more=more)

    def counted(self, windows: str | Windows = "total", after: Windows | None = None) -> Counted:
        """Return the counts of some windows, without those of a pilot, and the model of them.

        ``previous`` and ``before`` are windows before those of ``after``.
        """
        newest = self.newest()
        if not isinstance(windows, Windows):
            if newest is None:
                raise NoAnswer("not_final", "no window is final yet")
            windows = read_windows(windows, self.plan, newest, after)
        return self._kept.counted(windows)

    def window_counts(self, window: int) -> list[Tally]:
        """Return the counts of one kept window, one tally per group."""
        return self._kept.tallies(window)[0]


def _answer(found: GroupedTable, *sides: Counted, more: tuple[str, ...] = ()) -> Answer:
    flags = (*found.flags, *(flag for side in sides for flag in side.flags), *more)
    return Answer(
        attributes=found.attributes,
        labels=found.labels,
        table=found.table,
        stderr=found.stderr,
        flags=tuple(dict.fromkeys(flags)),
        windows=tuple(side.windows for side in sides),
        reports=found.reports,
        revision=max(sides, key=lambda side: side.windows.last).revision,
        plan=sides[0].plan,
    )


def _may_repeat(period: int, one: Windows, other: Windows) -> bool:
    """Return whether a device that reports in every ``period``-th window may be in both."""
    if period == 1:
        return False
    span = max(one.last, other.last) - min(one.first, other.first)
    gap = max(one.first, other.first) - min(one.last, other.last)
    # Distances of a window of one to a window of the other: gap to span.
    return gap <= period * (span // period)
