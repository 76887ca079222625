"""Check the batcher's counters under any sequence of faults.

Every accepted report is counted as sent, failed or waiting.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.clock import ManualClock
from estimators.errors import CalmstreamError, FatalError, RecoverableError, Rejection
from estimators.wire.batch import decode_batch
from producer.device.reporter import Report
from producer.gateway import rows, sender
from producer.gateway.batcher import Batcher, Small
from producer.gateway.encoding import EncodedBatch
from producer.gateway.sender import Budget
from producer.gateway.spool import Spool
from producer.gateway.totals import Failure, Totals
from tests.support.producer import START, ScriptedDelivery, ScriptedSink, make_plan, names_of

PLAN = make_plan()
POISON = 11
MAKE_BATCH = rows.make_batch


def failing_make_batch(*arguments: Any) -> EncodedBatch:
    """Encode a batch; fail if it contains the cell POISON."""
    if POISON in arguments[-1].get("v", ()):
        raise OverflowError("a defect")
    return MAKE_BATCH(*arguments)


def report(cell: int, period: int = 0) -> Report:
    return Report(0, period, 0, {"v": np.array([cell])})


class BrokenSinkError(RuntimeError):
    """An error that a sink must not raise."""


OUTCOMES: dict[str, CalmstreamError | int | None] = {
    "sent": 0,
    "down": RecoverableError("down"),
    "refused": FatalError("refused"),
    "never": None,
}
steps = st.sampled_from(["add", "add", "add", "poison", "malformed", "flush", "look"])
fates = st.sampled_from(["sent", "sent", "sent", "down", "refused", "never", "broken"])


def balanced(totals: Totals) -> None:
    settled = totals.reports_sent + totals.reports_failed
    assert totals.reports_taken == settled + totals.reports_waiting
    assert totals.reports_waiting >= 0
    assert totals.reports_failed == sum(totals.failures.values())


def was_seen(delivery: ScriptedDelivery) -> bool:
    return delivery.seen


def was_acknowledged(delivery: ScriptedDelivery) -> bool:
    return delivery.outcome == 0


def reports_in(sink: ScriptedSink, chosen: Callable[[ScriptedDelivery], bool]) -> int:
    """Return the reports of the batches whose delivery is chosen, each batch once."""
    batches = {
        key: decode_batch(PLAN, 0, key, value).n
        for (_, key, value), delivery in zip(sink.sends, sink.deliveries, strict=True)
        if chosen(delivery)
    }
    return sum(batches.values())


def taken_by(batcher: Batcher, script: list[str]) -> int:
    """Run a script that may be interrupted; check the counters and return the reports taken."""
    taken = 0
    with suppress(FatalError, RecoverableError):
        for i, step in enumerate(script):
            if step == "flush":
                batcher.flush(0.02)
            elif step == "malformed":
                with pytest.raises(Rejection):
                    batcher.add(report(99))
            elif step != "look":
                batcher.add(report(POISON if step == "poison" else i % POISON, i % 2), timeout=0.05)
                taken += 1
            totals = batcher.totals
            balanced(totals)
            assert totals.reports_taken == taken
    return taken


@given(
    script=st.lists(steps, max_size=25),
    fate=st.lists(fates, min_size=1, max_size=6),
    size=st.integers(1, 6),
    least=st.integers(1, 3),
    small=st.sampled_from(["send", "drop"]),
    spooled=st.booleans(),
    wall=st.sampled_from([1, 1000]),
    hurried=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_nothing_is_ever_lost_from_the_accounts(
    script: list[str], fate: list[str], size: int, least: int, small: Small, spooled: bool,
    wall: int, hurried: bool,
) -> None:  # fmt: skip
    def outcome(attempt: int) -> CalmstreamError | int | None:
        chosen = fate[min(attempt, len(fate) - 1)]
        if chosen == "broken":
            raise BrokenSinkError
        return OUTCOMES[chosen]

    # The windows are open 1 s after the start, and over after 1000 s. Time passes only while the
    # sender waits. A hurried end has no resend, whose acknowledgement could come too late to count.
    clock = ManualClock((START + wall) * 1000)
    sink = ScriptedSink(outcome)
    sink.on_wait = lambda: clock.advance(sender.POLL_SECONDS)
    budget = Budget(in_flight=2, attempts=1 if hurried else 2, pause=0.001, attempt_seconds=0.02)
    with (
        tempfile.TemporaryDirectory() as directory,
        patch.object(rows, "make_batch", failing_make_batch),
        patch.object(sender, "SystemClock", lambda: clock),
        patch.object(threading, "excepthook", lambda _: None),
    ):
        spool = Spool(directory, PLAN) if spooled else None
        batcher = Batcher(
            PLAN,
            names_of(PLAN),
            sink,
            size=size,
            linger=0,
            min_batch=min(least, max(size // 2, 1)),
            small=small,
            budget=budget,
            spool=spool,
            clock=clock,
        )
        taken = taken_by(batcher, script)
        totals = batcher.close(0.0 if hurried else 60.0)
    balanced(totals)
    assert (totals.reports_taken, totals.reports_waiting) == (taken, 0)
    seen, acknowledged = (reports_in(sink, answered) for answered in (was_seen, was_acknowledged))
    assert totals.reports_sent == seen
    if "broken" not in fate:
        assert totals.failures.get(Failure.ABANDONED, 0) == 0
        assert totals.reports_sent == acknowledged


def test_one_report_that_cannot_be_encoded_costs_its_neighbours_nothing() -> None:
    sink = ScriptedSink(lambda _: 0)
    with patch.object(rows, "make_batch", failing_make_batch):
        batcher = Batcher(PLAN, names_of(PLAN), sink, linger=60)
        for i in range(50):
            batcher.add(report(i % POISON))
        batcher.add(report(POISON))
        totals = batcher.close()
    assert (totals.reports_sent, totals.reports_failed, totals.batches_sent) == (50, 1, 1)
    assert totals.failures == {Failure.UNENCODABLE: 1}


def test_what_a_restart_finds_in_the_spool_is_taken_over() -> None:
    with tempfile.TemporaryDirectory() as directory:
        down = ScriptedSink(lambda _: None)
        spool = Spool(directory, PLAN)
        first = Batcher(PLAN, names_of(PLAN), down, linger=0, min_batch=1, spool=spool)
        first.add(report(1))
        assert first.close(0).reports_failed == 1
        up = ScriptedSink(lambda _: 0)
        totals = Batcher(PLAN, names_of(PLAN), up, spool=Spool(directory, PLAN)).close()
    assert (totals.reports_taken, totals.reports_sent) == (1, 1)
