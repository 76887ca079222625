"""Snapshots with any numbers, made without reports: what a publisher could have written."""

from __future__ import annotations

import random
from math import prod

from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.plan import Group, Plan
from calmstream.estimators.view import View
from calmstream.estimators.wire.snapshot import Kind, Manifest, MarginalRecord, encode, marginal_key

START = 1_700_000_000
Record = tuple[bytes, bytes]


def wide_plan(*cardinalities: int, windows: int, name: str = "planted") -> Plan:
    """Return a plan that publishes each attribute and each pair of neighbouring attributes."""
    attributes = tuple(
        Attribute(f"a{j}", tuple(f"label {code}" for code in range(size)))
        for j, size in enumerate(cardinalities)
    )
    single = tuple((j,) for j in range(len(cardinalities)))
    pairs = tuple((j, j + 1) for j in range(len(cardinalities) - 1))
    return Plan(
        name=name,
        purpose="tests",
        owner="tests",
        lineage="0" * 32,
        domain=Domain(attributes),
        epsilon="1",
        k=2,
        method="calm",
        parameters={},
        groups=(Group({"name": "grr", "cells": cardinalities[0]}, (View((0,)),), (1,)),),
        start=START,
        expires=START + windows * 10,
        window=10,
        users=1000,
        marginals=tuple(sorted(single + pairs)),
        partitions=1,
    )


def records(
    plan: Plan, window: int, kind: Kind, revision: int, dice: random.Random
) -> list[Record]:
    """Return key and value of all records of a set, the manifest last."""
    tables = [_table(plan, window, kind, revision, at, dice) for at in plan.marginals]
    manifest = Manifest(
        window=window,
        kind=kind,
        revision=(revision,),
        start=plan.start if kind is Kind.TOTAL else plan.window_start(window) // 1000,
        end=plan.window_end(window) // 1000,
        plan=plan.digest,
        name=plan.name,
        method=plan.method,
        epsilon=plan.epsilon,
        guarantee={"kind": "once", "windows": 1},
        loss_window="1",
        loss_plan="1",
        reports=100 + revision,
        groups=(100 + revision,),
        rejected={"late": window},
        marginals=tuple(marginal_key(window, kind, t.attributes).decode() for t in tables),
        processing=(),
        software="tests",
        counts=kind is Kind.FINAL,
    )
    return [(table.key, encode(table)) for table in tables] + [(manifest.key, encode(manifest))]


def _table(
    plan: Plan, window: int, kind: Kind, revision: int, at: tuple[int, ...], dice: random.Random
) -> MarginalRecord:
    attributes = [plan.domain.attributes[j] for j in at]
    cells = prod(len(attribute.labels) for attribute in attributes)
    return MarginalRecord(
        window=window,
        kind=kind,
        revision=(revision,),
        attributes=tuple(attribute.name for attribute in attributes),
        labels=tuple(attribute.labels for attribute in attributes),
        table=tuple(dice.random() for _ in range(cells)),
        stderr=tuple(dice.random() / 100 for _ in range(cells)),
        noise_floor=0.01,
        reports=100 + revision,
        flags=("covered",),
    )
