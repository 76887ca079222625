"""The metric of the spool's size says nothing about the report that came last."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from calmstream.estimators.plan import Group
from calmstream.estimators.view import View
from calmstream.producer.gateway.durable.entries import SpoolEntry
from calmstream.producer.gateway.durable.plan_spool import Batching, SpoolOutcome
from calmstream.producer.gateway.durable.spool import Spool
from tests.support.clock import ManualClock
from tests.support.gateway.spool_world import LABELS, counting_plan
from tests.support.tally import START

NUMBER, BITS = (0, (3,)), (0, (bytes(LABELS**2 // 8),))


def test_reports_of_all_groups_look_alike(tmp_path: Path) -> None:
    grr, oue = ({"name": "grr", "cells": LABELS**2}, {"name": "oue", "cells": LABELS**2})
    groups = (Group(grr, (View((0, 1)),), (1,)), Group(oue, (View((0, 1)),), (1,)))
    plan = replace(counting_plan(), groups=groups)
    clock = ManualClock(START * 1000)
    grown, files = [], []
    for group, row in ((0, NUMBER), (1, BITS)):
        folder = tmp_path / str(group)
        spool = Spool(folder, clock, Batching(min_batch=1))
        spool.add(plan)
        before = spool.size
        report = SpoolEntry(bytes(16), 0, group, 0, row)
        assert spool.accept(plan.digest, [report], [None]) == [SpoolOutcome.ACCEPTED]
        grown.append(spool.size - before)
        files.append(sum(path.stat().st_size for path in folder.rglob("*.spool")))
        spool.close()
        again = Spool(folder, clock, Batching(min_batch=1))
        again.add(plan)
        assert again.size == spool.size
        again.close()
    assert files[0] != files[1]
    assert grown[0] == grown[1]
