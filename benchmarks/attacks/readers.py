"""Attacks on readers: on subscribers, on logs, on the health port, and by batches of one sender."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import socket
import time
from dataclasses import replace

from prometheus_client import CollectorRegistry

from benchmarks.attacks.attack import Attack, Verdict, body, in_process, make_plan, names_of
from calmstream.broker.security import SecurityConfig
from calmstream.broker.transport import Partition, Record
from calmstream.common.health import health_app
from calmstream.common.http.server import ThreadServer
from calmstream.common.settings import load
from calmstream.consumer.publish.build import build_set
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.consumer.subscribe.subscribe import subscribe
from calmstream.consumer.tally.folding.fold import PartitionFold
from calmstream.estimators.plan.limits import MAX_BATCH_REPORTS
from calmstream.estimators.tally import Tally
from calmstream.estimators.wire.snapshot import Kind
from calmstream.estimators.wire.state import WindowCount
from tests.support.tally import fold_one

IDLE_SECONDS = 14.0  # longer than the time after which the health server closes an idle connection

PASSWORD = "hunter2"  # noqa: S105 - an invented password


def foreign_manifest() -> Verdict:
    """Publish a set of one plan on another plan's topic; its subscriber must not receive it."""
    plan = make_plan()
    other = replace(plan, purpose="another")
    broker = in_process(plan)
    counts = (WindowCount(Tally.zero(1, 4)),)
    foreign = build_set(other, MergedWindow(0, Kind.FINAL, (1,), counts))
    key, value = foreign.closing()
    broker.sink().send(names_of(plan).snapshots, key, value, partition=0).wait(5)
    received = list(subscribe(plan, broker, follow=False, poll_seconds=0.1))
    return Verdict(not received, f"a subscriber receives {len(received)} sets of the other plan")


def shown_password() -> Verdict:
    """Write the settings as they are written to a log, and search for the password."""
    os.environ |= {
        "CALMSTREAM_SECURITY_PROTOCOL": "SASL_SSL",
        "CALMSTREAM_SASL_MECHANISM": "PLAIN",
        "CALMSTREAM_SASL_USERNAME": "reader",
        "CALMSTREAM_SASL_PASSWORD": PASSWORD,
    }
    config = load(SecurityConfig)
    shown = PASSWORD in f"{config} {config!r}"
    what = "the log shows the password" if shown else "the log shows stars instead of the password"
    return Verdict(not shown, what)


def idle_connections() -> Verdict:
    """Leave connections to the health port idle, each after another beginning; no traceback."""
    log = io.StringIO()
    with contextlib.redirect_stderr(log):
        server = ThreadServer(health_app(CollectorRegistry(), []), "127.0.0.1", 0, "tests")
        connections = []
        for sent in (b"", b"GET", b"GET /livez HTTP/1.1\r\nHost: x\r\n", b"\x16\x03\x01\x02\x00"):
            connection = socket.create_connection(("127.0.0.1", server.port), 5)
            connection.sendall(sent)
            connections.append(connection)
        time.sleep(IDLE_SECONDS)
        for connection in connections:
            connection.close()
        server.close()
    traces = log.getvalue().count("Traceback")
    return Verdict(traces == 0, f"{traces} tracebacks in the log")


def large_batch() -> Verdict:
    """Send one record of 65,535 reports to a plan of 1,000 users; it must be rejected."""
    plan = make_plan()
    value = body(plan, [0] * MAX_BATCH_REPORTS)
    where = Partition(names_of(plan).reports(0), 0)
    record = Record(where, 0, time.time_ns() // 1_000_000, True, secrets.token_bytes(16), value)
    outcome = fold_one(PartitionFold.start(plan, 0, "attack"), record)
    if outcome.rejection is not None:
        return Verdict(True, str(outcome.rejection))
    return Verdict(False, f"{outcome.reports:,} reports are counted")


ATTACKS: dict[str, Attack] = {
    "A9 a set of another plan": foreign_manifest,
    "A9 settings in a log": shown_password,
    "A9 idle connections": idle_connections,
    "A10 a batch beyond all expectation": large_batch,
}
