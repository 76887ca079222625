"""The state of each of many plans, from the topics alone; for the command ``calmstream status``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from calmstream.broker.names import TopicNames
from calmstream.broker.shared.broker import SharedBroker
from calmstream.common.clock import Clock
from calmstream.common.errors import CalmstreamError, RecoverableError
from calmstream.consumer.operations.inspect import Inspection, inspect
from calmstream.estimators.plan import Plan

LATE_SECONDS = 60
"""A final is late when it is missing for so long after its window's end and grace."""


@dataclass(frozen=True, slots=True)
class PlanStatus:
    """The state of one plan.

    Attributes:
        health: ``well``, ``not started``, ``over``, ``late`` or ``fault``.
        due: number of windows whose final should exist by now.
        last_final: end of the newest final window in seconds since the epoch; None without one.
        unread: whether the topics cannot be read; then the numbers are 0 and mean nothing.
    """

    plan: Plan
    health: str
    reason: str
    final: int
    due: int
    reports: int
    lag: int
    last_final: int | None
    rejected: int
    unread: bool = False


def statuses(
    plans: Iterable[tuple[Plan, TopicNames]], shared: SharedBroker, clock: Clock
) -> Iterator[PlanStatus]:
    """Yield the state of each plan. A fault of one plan is part of its state.

    Cost: reads the state, snapshots and counts topics of each plan once.
    """
    for plan, names in plans:
        broker = shared.plan()
        try:
            yield _status(plan, inspect(plan, broker, names, clock), clock.now_ms())
        except RecoverableError:
            raise
        except CalmstreamError as error:
            due = _due(plan, clock.now_ms())
            yield PlanStatus(plan, "fault", str(error), 0, due, 0, 0, None, 0, unread=True)
        finally:
            broker.close()


def _status(plan: Plan, found: Inspection, now_ms: int) -> PlanStatus:
    due, windows = _due(plan, now_ms), found.windows
    health, reason = _health(plan, found, due, now_ms)
    newest = windows.newest_final
    return PlanStatus(
        plan,
        health,
        reason,
        windows.final,
        due,
        sum(partition.reports for partition in found.partitions),
        found.lag,
        plan.window_end(newest) // 1000 if newest >= 0 else None,
        sum(found.rejected.values()),
    )


def _health(plan: Plan, found: Inspection, due: int, now_ms: int) -> tuple[str, str]:
    for partition in found.partitions:
        if partition.trouble:
            return "fault", f"group {partition.group}[{partition.partition}]: {partition.trouble}"
    if found.faults:
        return "fault", found.faults[0]
    if found.windows.final < due:
        missing = due - found.windows.final
        return "late", f"finals missing: {missing}; records not counted yet: {found.lag:,}"
    if found.windows.final >= plan.windows:
        return "over", ""
    return ("well", "") if now_ms >= plan.start * 1000 else ("not started", "")


def _due(plan: Plan, now_ms: int) -> int:
    """Return the number of windows whose final should exist."""
    last = now_ms // 1000 - plan.grace - LATE_SECONDS - plan.start
    return min(max(last // plan.window, 0), plan.windows)
