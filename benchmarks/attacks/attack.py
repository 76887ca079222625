"""Shared parts of the attacks: the verdict, plans to attack, and batches to send and read."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calmstream.broker.names import TopicNames
from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.mechanisms.registry import standard
from calmstream.estimators.plan import Group, Plan
from calmstream.estimators.view import View
from calmstream.estimators.wire.batch import Batch, encode_batch
from tests.support.faulty_broker import FaultyBroker

BINARY = Domain.binary(4)  # four binary attributes

COLOUR = Domain((Attribute("colour", tuple("0123456789"), other=0),))
"""One attribute with ten labels; an unknown label counts as the first one."""


@dataclass(frozen=True)
class Verdict:
    held: bool  # True if the product resists the attack, False if the attack succeeds
    what: str  # one line about what happened


Attack = Callable[[], Verdict]


def make_plan(**changes: Any) -> Plan:
    """Return a plan for two of four bits by GRR, which began a minute ago: a window of an hour."""
    start = int(time.time()) - 60
    given: dict[str, Any] = {
        "name": f"attack-{secrets.token_hex(3)}",
        "purpose": "an attack",
        "owner": "benchmarks",
        "lineage": secrets.token_hex(16),
        "domain": BINARY,
        "epsilon": "1",
        "k": 1,
        "method": "calm",
        "parameters": {},
        "groups": (Group(standard("grr", "1", 4), (View((0, 1)),), (1,)),),
        "start": start,
        "expires": start + 3600,
        "window": 3600,
        "users": 1000,
        "marginals": ((0, 1),),
    }
    return Plan(**(given | changes))


def names_of(plan: Plan) -> TopicNames:
    return TopicNames.of(plan)


def in_process(plan: Plan) -> FaultyBroker:
    broker = FaultyBroker()
    broker.topics().create(names_of(plan).specs(3_600_000))
    return broker


def body(plan: Plan, cells: list[int], group: int = 0) -> bytes:
    period = plan.window_at(time.time_ns() // 1_000_000)
    values = np.array(cells)
    return encode_batch(plan, group, Batch(period, len(cells), None, {"v": values}))
