"""The permissions that each role of a plan needs in Kafka.

A role is a kind of process: ``edge`` sends reports, ``tally`` counts them, ``publisher`` publishes
the tables, ``subscriber`` reads them, and ``operator`` creates and deletes topics. The permissions
are data, so that they can be printed, applied and tested. In Kafka, READ and WRITE include
DESCRIBE, and an idempotent producer needs nothing beyond WRITE.

The reports topics have the plan's prefix. All other topics and the consumer groups have its output
prefix. Both prefixes are equal, unless a log is counted again into an output namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from calmstream.broker.names import CountingRole, TopicNames
from calmstream.common.errors import InvalidInput


@dataclass(frozen=True, slots=True, order=True)
class Permission:
    """One operation, by Kafka's name, that a role may perform; ``name`` may be a prefix."""

    kind: Literal["topic", "group"]
    name: str
    operation: str
    prefixed: bool = False


_DESCRIBE = ("DESCRIBE", "DESCRIBE_CONFIGS")


def permissions(role: str, names: TopicNames) -> tuple[Permission, ...]:
    """Return the permissions of a role on the topics and consumer groups of one plan.

    Raises:
        InvalidInput: there is no such role.
    """
    if role not in ROLES:
        raise InvalidInput(f"no role {role!r}; there are {', '.join(ROLES)}")
    return tuple(sorted(set(ROLES[role](names))))


def _reports(names: TopicNames, *operations: str) -> list[Permission]:
    """Return permissions on all reports topics of the plan, granted on their common prefix."""
    # The name of a reports topic ends with "g" and the number of a group of devices.
    return [Permission("topic", f"{names.prefix}.reports.g", o, True) for o in operations]


def _topic(name: str, *operations: str) -> list[Permission]:
    return [Permission("topic", name, operation) for operation in operations]


def _consumer_group(names: TopicNames, which: CountingRole) -> list[Permission]:
    """Return permissions on the plan's own group, and on that of processes with many plans."""
    return [Permission("group", group, "READ") for group in names.groups_of(which)]


def _edge(names: TopicNames) -> list[Permission]:
    return _reports(names, "WRITE")


def _tally(names: TopicNames) -> list[Permission]:
    # Workers also write to the reports topics: ticks, which advance the clock of an idle partition.
    return [
        *_reports(names, "READ", "WRITE", "DESCRIBE_CONFIGS"),
        *_topic(names.state, "READ", "WRITE", "DESCRIBE_CONFIGS"),
        *_topic(names.dead_letters, "WRITE", "DESCRIBE_CONFIGS"),
        *_topic(names.snapshots, *_DESCRIBE),
        *_consumer_group(names, "tally"),
    ]


def _publisher(names: TopicNames) -> list[Permission]:
    # The publisher reads the first offsets of the reports topics: they decide which records it may
    # delete from the state topic.
    return [
        *_reports(names, *_DESCRIBE),
        *_topic(names.state, "READ", "WRITE", "DESCRIBE_CONFIGS"),
        *_topic(names.snapshots, "READ", "WRITE", "DESCRIBE_CONFIGS"),
        *_topic(names.counts, "READ", "WRITE", "DESCRIBE_CONFIGS"),
        *_topic(names.dead_letters, *_DESCRIBE),
        *_consumer_group(names, "publisher"),
    ]


def _subscriber(names: TopicNames) -> list[Permission]:
    return _topic(names.snapshots, "READ")


def _analyst(names: TopicNames) -> list[Permission]:
    # The counts answer questions that the plan does not publish.
    return [*_subscriber(names), *_topic(names.counts, "READ")]


def _operator(names: TopicNames) -> list[Permission]:
    every = ("CREATE", "READ", "WRITE", "DELETE", "ALTER_CONFIGS", "DESCRIBE_CONFIGS")
    prefixes = {f"{names.prefix}.", f"{names.output_prefix}."}
    # With READ on the consumer groups, Kafka's tools can show their lag and reset their offsets.
    return [
        *(Permission("topic", prefix, o, True) for prefix in prefixes for o in every),
        *_consumer_group(names, "tally"),
        *_consumer_group(names, "publisher"),
    ]


ROLES: Mapping[str, Callable[[TopicNames], list[Permission]]] = {
    "edge": _edge,
    "tally": _tally,
    "publisher": _publisher,
    "subscriber": _subscriber,
    "analyst": _analyst,
    "operator": _operator,
}
"""The permissions of each role. Only the operator may delete topics, because only the
operator removes plans."""
