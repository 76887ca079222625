"""Check the batcher's counters under any sequence of faults.

Every report that `Batcher.add` takes is counted as sent, failed or waiting.
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

from calmstream.common.clock import ManualClock
from calmstream.common.errors import CalmstreamError, FatalError, RecoverableError, Rejection
from calmstream.estimators.wire.batch import decode_batch
from calmstream.producer.device.report import Report
from calmstream.producer.gateway import rows, sender
from calmstream.producer.gateway.batcher import Batcher, Small
from calmstream.producer.gateway.encoding import EncodedBatch
from calmstream.producer.gateway.sender import Budget
from calmstream.producer.gateway.spool import Spool
from calmstream.producer.gateway.totals import Failure, Totals
from tests.support.producer import START, ScriptedDelivery, ScriptedSink, make_plan, names_of

PLAN = make_plan()
POISON = 11
"""A value that cannot be encoded; see `failing_make_batch`."""

MALFORMED = 99
"""A number that is not a value of the plan."""

MAKE_BATCH = rows.make_batch


def failing_make_batch(*arguments: Any) -> EncodedBatch:
    """Encode a batch; fail if it contains the value POISON."""
    if POISON in arguments[-1].get("v", ()):
        raise OverflowError("a defect")
    return MAKE_BATCH(*arguments)


def report(value: int, period: int = 0) -> Report:
    """Return a report of the first group in one of the plan's windows."""
    return Report(0, period, 0, {"v": np.array([value])})


class BrokenSinkError(RuntimeError):
    """An error that the contract of a sink does not allow."""


OUTCOMES: dict[str, CalmstreamError | int | None] = {
    "sent": 0,
    "down": RecoverableError("down"),
    "refused": FatalError("refused"),
    "never": None,
}
"""What a delivery returns: an offset, an error, or nothing."""

# The step "look" only checks the counters.
steps = st.sampled_from(["add", "add", "add", "poison", "malformed", "flush", "look"])
outcome_names = st.sampled_from(["sent", "sent", "sent", "down", "refused", "never", "broken"])


def check_counters(totals: Totals) -> None:
    finished = totals.reports_sent + totals.reports_failed
    assert totals.reports_taken == finished + totals.reports_waiting
    assert totals.reports_waiting >= 0
    assert totals.reports_failed == sum(totals.failures.values())


def was_seen(delivery: ScriptedDelivery) -> bool:
    """Return whether the batcher waited for the delivery and received its acknowledgement."""
    return delivery.seen


def was_acknowledged(delivery: ScriptedDelivery) -> bool:
    """Return whether the sink acknowledged the delivery, seen by the batcher or not."""
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
                    batcher.add(report(MALFORMED))
            elif step != "look":
                batcher.add(report(POISON if step == "poison" else i % POISON, i % 2), timeout=0.05)
                taken += 1
            totals = batcher.totals
            check_counters(totals)
            assert totals.reports_taken == taken
    return taken


@given(
    script=st.lists(steps, max_size=25),
    outcomes=st.lists(outcome_names, min_size=1, max_size=6),
    size=st.integers(1, 6),
    least=st.integers(1, 3),
    small=st.sampled_from(["send", "drop"]),
    spooled=st.booleans(),
    seconds_after_start=st.sampled_from([1, 1000]),
    hurried=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_the_counters_account_for_every_report(
    script: list[str], outcomes: list[str], size: int, least: int, small: Small, spooled: bool,
    seconds_after_start: int, hurried: bool,
) -> None:  # fmt: skip
    def outcome(attempt: int) -> CalmstreamError | int | None:
        chosen = outcomes[min(attempt, len(outcomes) - 1)]
        if chosen == "broken":
            raise BrokenSinkError
        return OUTCOMES[chosen]

    # At 1 s the windows are open, at 1000 s they are over. Time passes only while the sender waits.
    clock = ManualClock((START + seconds_after_start) * 1000)
    sink = ScriptedSink(outcome)
    sink.on_wait = lambda: clock.advance(sender.POLL_SECONDS)
    # If `hurried`, `close` does not wait. Then nothing is sent twice, because the second
    # acknowledgement could come after the counters were read.
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
            min_batch=min(least, max(size // 2, 1)),  # the batcher allows at most size / 2
            small=small,
            budget=budget,
            spool=spool,
            clock=clock,
        )
        taken = taken_by(batcher, script)
        totals = batcher.close(0.0 if hurried else 60.0)
    check_counters(totals)
    assert (totals.reports_taken, totals.reports_waiting) == (taken, 0)
    seen, acknowledged = (reports_in(sink, chosen) for chosen in (was_seen, was_acknowledged))
    assert totals.reports_sent == seen
    if "broken" not in outcomes:
        assert totals.failures.get(Failure.ABANDONED, 0) == 0
        assert totals.reports_sent == acknowledged


def test_a_report_that_cannot_be_encoded_does_not_affect_the_others() -> None:
    sink = ScriptedSink(lambda _: 0)
    with patch.object(rows, "make_batch", failing_make_batch):
        batcher = Batcher(PLAN, names_of(PLAN), sink, linger=60)
        for i in range(50):
            batcher.add(report(i % POISON))
        batcher.add(report(POISON))
        totals = batcher.close()
    assert (totals.reports_sent, totals.reports_failed, totals.batches_sent) == (50, 1, 1)
    assert totals.failures == {Failure.UNENCODABLE: 1}


def test_after_a_restart_the_batches_in_the_spool_are_sent() -> None:
    with tempfile.TemporaryDirectory() as directory:
        down = ScriptedSink(lambda _: None)
        spool = Spool(directory, PLAN)
        first = Batcher(PLAN, names_of(PLAN), down, linger=0, min_batch=1, spool=spool)
        first.add(report(1))
        # The report counts as failed in this process, and stays in the spool.
        assert first.close(0).reports_failed == 1
        up = ScriptedSink(lambda _: 0)
        totals = Batcher(PLAN, names_of(PLAN), up, spool=Spool(directory, PLAN)).close()
    assert (totals.reports_taken, totals.reports_sent) == (1, 1)
