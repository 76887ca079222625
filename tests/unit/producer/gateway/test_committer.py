"""The thread that owns the spool."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from calmstream.producer.gateway.durable.entries import SpoolEntry
from calmstream.producer.gateway.durable.plan_spool import SpoolOutcome
from calmstream.producer.gateway.encoding import EncodedBatch
from calmstream.producer.gateway.http.committer import Committer
from tests.support.clock import ManualClock
from tests.support.producer import make_plan


def test_a_defect_while_a_batch_is_settled_leaves_no_request_without_an_answer() -> None:
    def settle(batch: EncodedBatch, *, acknowledged: bool) -> None:
        raise ValueError("a made-up defect")

    async def answered() -> list[Any]:
        plan, spool, nothing = make_plan(), SimpleNamespace(settle=settle), SimpleNamespace()
        loop: Any = asyncio.get_running_loop()
        committer = Committer(spool, loop, nothing, ManualClock())  # type: ignore[arg-type]
        committer.settled.put((EncodedBatch(plan, 0, 0, 1, bytes(16)), True))
        before = committer.submit(plan, [SpoolEntry(bytes(16), 0, 0, 0, (0, (1,)))], None)
        with pytest.raises(ValueError, match="made-up"):
            await asyncio.to_thread(committer.run)
        after = committer.submit(plan, [SpoolEntry(bytes(16), 0, 0, 0, (0, (1,)))], None)
        return [await asyncio.wait_for(each, 5) for each in (before, after)]

    assert asyncio.run(answered()) == [[SpoolOutcome.UNAVAILABLE]] * 2
