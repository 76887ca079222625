"""Check the table of permissions: what each role may do, and what it may not."""

from __future__ import annotations

import pytest

from calmstream.broker.names import TopicNames
from calmstream.broker.permissions import ROLES, Permission, permissions
from calmstream.common.errors import InvalidInput

NAMES = TopicNames("ns", "plan", "ab" * 32, 2, 3)
RENAMED = TopicNames("ns", "plan", "ab" * 32, 2, 3, "again")


def may(role: str, operation: str, topic: str, names: TopicNames = NAMES) -> bool:
    return any(
        rule.kind == "topic"
        and rule.operation == operation
        and (topic.startswith(rule.name) if rule.prefixed else topic == rule.name)
        for rule in permissions(role, names)
    )


@pytest.mark.parametrize(
    ("role", "writes", "reads"),
    [
        ("edge", {"reports"}, set()),
        ("tally", {"reports", "state", "letters"}, {"reports", "state"}),
        ("publisher", {"state", "snapshots", "counts"}, {"state", "snapshots", "counts"}),
        ("subscriber", set(), {"snapshots"}),
        ("analyst", set(), {"snapshots", "counts"}),
    ],
)
def test_roles_read_and_write_as_the_table_states(
    role: str, writes: set[str], reads: set[str]
) -> None:
    topics = {
        "reports": NAMES.reports(1),
        "state": NAMES.state,
        "snapshots": NAMES.snapshots,
        "counts": NAMES.counts,
        "letters": NAMES.dead_letters,
    }
    assert {name for name, topic in topics.items() if may(role, "WRITE", topic)} == writes
    assert {name for name, topic in topics.items() if may(role, "READ", topic)} == reads
    assert not any(may(role, "DELETE", topic) for topic in topics.values())


def test_no_rule_reaches_beyond_the_plan() -> None:
    for role in ROLES:
        for rule in permissions(role, RENAMED):
            if rule.name in ("again.plans.tally", "again.plans.publisher"):
                continue  # the groups that the plans of a namespace share
            assert rule.name.startswith(("ns.plan-abababab", "again.plan-abababab"))
            if rule.prefixed:
                assert rule.name.endswith((".", ".reports.g"))


def test_groups_are_read_only_by_their_own_role() -> None:
    assert Permission("group", f"{NAMES.prefix}.tally", "READ") in permissions("tally", NAMES)
    assert Permission("group", "ns.plans.tally", "READ") in permissions("tally", NAMES)
    assert Permission("group", "ns.plans.tally", "READ") not in permissions("publisher", NAMES)
    assert not [r for r in permissions("edge", NAMES) if r.kind == "group"]


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(InvalidInput, match="there are edge"):
        permissions("admin", NAMES)
