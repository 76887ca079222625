"""The permissions that each role of a plan needs in Kafka. A role is a kind of process.

In Kafka, READ and WRITE include DESCRIBE, and an idempotent producer needs nothing beyond WRITE.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from calmstream.broker.names import TopicNames
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
    if role not in ROLES:
        raise InvalidInput(f"no role {role!r}; there are {', '.join(ROLES)}")
    return tuple(sorted(set(ROLES[role](names))))


def _reports(names: TopicNames, *operations: str) -> list[Permission]:
    # The name of a reports topic ends with "g" and the number of a group of devices.
    return [Permission("topic", f"{names.prefix}.reports.g", o, True) for o in operations]


def _topic(name: str, *operations: str) -> list[Permission]:
    return [Permission("topic", name, operation) for operation in operations]


def _tally(names: TopicNames) -> list[Permission]:
    # Workers also write to the reports topics: ticks, which advance the clock of an idle partition.
    return [
        *_reports(names, "READ", "WRITE", "DESCRIBE_CONFIGS"),
        *_topic(names.state, "READ", "WRITE", "DESCRIBE_CONFIGS"),
        *_topic(names.dead_letters, "WRITE", "DESCRIBE_CONFIGS"),
        *_topic(names.snapshots, *_DESCRIBE),
        *(Permission("group", group, "READ") for group in names.groups_of("tally")),
    ]


def _publisher(names: TopicNames) -> list[Permission]:
    # The first offsets of the reports topics decide which records it may delete from the state.
    return [
        *_reports(names, *_DESCRIBE),
        *_topic(names.state, "READ", "WRITE", "DESCRIBE_CONFIGS"),
        *_topic(names.snapshots, "READ", "WRITE", "DESCRIBE_CONFIGS"),
        *_topic(names.counts, "READ", "WRITE", "DESCRIBE_CONFIGS"),
        *_topic(names.dead_letters, *_DESCRIBE),
        *(Permission("group", group, "READ") for group in names.groups_of("publisher")),
    ]


def _operator(names: TopicNames) -> list[Permission]:
    every = ("CREATE", "READ", "WRITE", "DELETE", "ALTER_CONFIGS", "DESCRIBE_CONFIGS")
    # With READ on the consumer groups, Kafka's tools can show their lag and reset their offsets.
    return _everything(names, "READ", *every)


def _everything(names: TopicNames, of_groups: str, *of_topics: str) -> list[Permission]:
    prefixes = {f"{names.prefix}.", f"{names.output_prefix}."}
    groups = (*names.groups_of("tally"), *names.groups_of("publisher"))
    return [
        *(Permission("topic", prefix, o, True) for prefix in prefixes for o in of_topics),
        *(Permission("group", group, of_groups) for group in groups),
    ]


ROLES: Mapping[str, Callable[[TopicNames], list[Permission]]] = {
    "edge": lambda names: _reports(names, "WRITE"),
    "tally": _tally,
    "publisher": _publisher,
    "subscriber": lambda names: _topic(names.snapshots, "READ"),
    # The counts answer questions that the plan does not publish.
    "analyst": lambda names: [*_topic(names.snapshots, "READ"), *_topic(names.counts, "READ")],
    "observer": lambda names: _everything(names, "DESCRIBE", "READ", "DESCRIBE_CONFIGS"),
    "operator": _operator,
}
"""The permissions of each role. Only the operator, who removes plans, may delete topics."""
