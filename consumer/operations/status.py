"""The state of each of many plans, from the brokers alone; for ``calmstream status``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from calmstream.broker.names import TopicNames
from calmstream.broker.shared.broker import SharedBroker
from calmstream.broker.topic_facts import retired
from calmstream.broker.transport import Partition, Topics
from calmstream.common.clock import Clock
from calmstream.common.errors import CalmstreamError, FatalError, RecoverableError
from calmstream.consumer.operations.inspect import Inspection, inspect
from calmstream.estimators.plan import Plan

LATE_SECONDS = 60
"""A final is late when it is missing for so long after its window's end and grace."""

BEHIND_SECONDS = 30
"""Counting is late when a record waits for longer than this and than a window."""


@dataclass(frozen=True, slots=True)
class PlanStatus:
    """The state of one plan; ``due`` finals should exist by now.

    ``health`` is ``well``, ``not started``, ``over``, ``retired``, ``late``, ``fault``, or
    ``refused`` by devices, which the command finds out. If ``unread``, the numbers are 0 and mean
    nothing.
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
    """Yield the state of each plan. A fault of one plan is part of its state."""
    for plan, names in plans:
        broker = shared.plan()
        try:
            found = inspect(plan, broker, names, clock)
            yield _status(plan, found, unserved(names, shared.topics()), clock.now_ms())
        except RecoverableError:
            raise
        except CalmstreamError as error:
            yield _unread(plan, names, shared.topics(), str(error), clock.now_ms())
        finally:
            broker.close()


def unserved(names: TopicNames, topics: Topics) -> str:
    """Return who is missing that should serve the plan; empty while all work."""
    try:
        owned = topics.owned([*names.groups_of("tally"), *names.groups_of("publisher")])
    except FatalError as error:
        return f"whether anybody works cannot be known: {error} (calmstream acl --role observer)"
    unread = [partition for partition in names.inputs if partition not in owned]
    if unread:
        return f"no worker reads {len(unread)} of {len(names.inputs)} partitions"
    return "" if Partition(names.state, 0) in owned else "no publisher works"


def _status(plan: Plan, found: Inspection, missing: str, now_ms: int) -> PlanStatus:
    due, windows = _due(plan, now_ms), found.windows
    health, reason = _health(plan, found, missing, now_ms)
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


def _unread(plan: Plan, names: TopicNames, topics: Topics, reason: str, now_ms: int) -> PlanStatus:
    """Return the state of a plan whose topics cannot be read: retired, or a fault."""
    if retired(names, topics.describe([spec.name for spec in names.specs(0)], ())):
        health, reason = "retired", ""
    else:
        health = "fault"
    return PlanStatus(plan, health, reason, 0, _due(plan, now_ms), 0, 0, None, 0, unread=True)


def _health(plan: Plan, found: Inspection, missing: str, now_ms: int) -> tuple[str, str]:
    """Return the health in a word, and the reason; ``missing`` is what :func:`unserved` says."""
    for partition in found.partitions:
        if partition.trouble:
            return "fault", f"group {partition.group}[{partition.partition}]: {partition.trouble}"
    if found.faults:
        return "fault", found.faults[0]
    if found.windows.final >= plan.windows:
        return "over", ""
    late = _lateness(plan, found, now_ms)
    if missing or late:
        return ("fault", missing) if missing else ("late", late)
    return ("well", "") if now_ms >= plan.start * 1000 else ("not started", "")


def _lateness(plan: Plan, found: Inspection, now_ms: int) -> str:
    uncounted = f"records not counted yet: {found.lag:,}"
    missing = _due(plan, now_ms) - found.windows.final
    if missing > 0:
        return f"finals missing: {missing}; {uncounted}"
    since = min((p.waits_since for p in found.partitions if p.waits_since), default=now_ms)
    behind = (now_ms - since) // 1000
    late = behind > max(plan.window, BEHIND_SECONDS)
    return f"counting is {behind:,} s behind; {uncounted}" if late else ""


def _due(plan: Plan, now_ms: int) -> int:
    last = now_ms // 1000 - plan.grace - LATE_SECONDS - plan.start
    return min(max(last // plan.window, 0), plan.windows)
