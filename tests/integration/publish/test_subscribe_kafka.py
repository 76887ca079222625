"""Check a subscriber that starts late, stops and resumes while snapshots are written.

It must receive every final snapshot exactly once. The broker is real.
"""

from __future__ import annotations

import secrets
import threading

import pytest

from calmstream.broker.kafka import connect
from calmstream.consumer.publish.build import build_set
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.consumer.subscribe.subscribe import plan_names, subscribe
from calmstream.estimators.wire.snapshot import Kind
from tests.support.publisher import DAY_MS, count_of, published_plan

pytestmark = pytest.mark.kafka

WINDOWS = 12


def test_every_final_is_seen_exactly_once(kafka_bootstrap: str) -> None:
    plan = published_plan(groups=1, windows=WINDOWS)
    names = plan_names(plan, f"sub-{secrets.token_hex(4)}")
    broker = connect(kafka_bootstrap)
    windows: list[int] = []
    sometimes = threading.Event()

    def publish() -> None:
        """Write sets of all windows: five at once, one of them twice, and the others slowly."""
        sink = broker.sink()
        for window in [*range(5), 2, *range(5, WINDOWS)]:
            for kind in Kind:
                merged = MergedWindow(window, kind, (window + 2, 2), (count_of([1] * 50),))
                built = build_set(plan, merged)
                for key, value in [*built.tables(), built.closing()]:
                    sink.send(names.snapshots, key, value, partition=0).wait(60)
            sometimes.wait(0.1 if window >= 5 else 0)
        sink.close(5)

    writer = threading.Thread(target=publish)
    try:
        broker.topics().create([s for s in names.specs(DAY_MS) if s.name == names.snapshots])
        writer.start()
        while len(windows) < WINDOWS:
            snapshots = subscribe(
                plan,
                kafka_bootstrap,
                kinds=[Kind.FINAL],
                from_window=windows[-1] + 1 if windows else 0,
                namespace=names.namespace,
                poll_seconds=0.2,
            )
            windows.extend(next(snapshots).window for _ in range(3))
            snapshots.close()  # type: ignore[attr-defined]
        assert windows == list(range(WINDOWS))
        latest = subscribe(
            plan,
            kafka_bootstrap,
            from_window="latest",
            kinds=[Kind.TOTAL],
            namespace=names.namespace,
            follow=False,
        )
        writer.join(60)
        assert [s.window for s in latest] == [WINDOWS - 1]
    finally:
        sometimes.set()
        writer.join(60)
        broker.topics().delete([names.snapshots])
        broker.close()
