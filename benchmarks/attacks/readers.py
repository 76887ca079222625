"""Attacks on readers: foreign sets, settings in logs, idle sockets, and forged batches."""

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
from broker.transport import Partition, Record
from calmstream.connect import SecurityConfig
from consumer.publish.build import build_set
from consumer.publish.merge import MergedWindow
from consumer.runtime.config import load
from consumer.runtime.health import HealthServer, health_app
from consumer.subscribe.subscribe import subscribe
from consumer.tally.folding.admission import AdmissionControl
from estimators.errors import Rejection
from estimators.tally import Tally
from estimators.wire.batch import MAX_BATCH_REPORTS
from estimators.wire.snapshot import Kind
from estimators.wire.state import WindowCount

IDLE_SECONDS = 14.0
PASSWORD = "hunter2"  # noqa: S105 - nobody's


def foreign_manifest() -> Verdict:
    """Write a set whose manifest names plan B to the snapshots topic of plan A."""
    plan = make_plan()
    other = replace(plan, purpose="another")
    broker = in_process(plan)
    counts = (WindowCount(Tally.zero(1, 4)),)
    made = build_set(other, MergedWindow(0, Kind.FINAL, (1,), counts))
    key, value = made.closing()
    broker.sink().send(names_of(plan).snapshots, key, value, partition=0).wait(5)
    found = list(subscribe(plan, broker, follow=False, poll_seconds=0.1))
    return Verdict(not found, f"{len(found)} sets of the other plan come out")


def shown_password() -> Verdict:
    """Print the settings as for a log, and look for the password."""
    os.environ["CALMSTREAM_SASL_PASSWORD"] = PASSWORD
    config = load(SecurityConfig)
    shown = PASSWORD in f"{config.redacted()} {config} {config!r}"
    return Verdict(not shown, "the password is shown" if shown else "the password is stars")


def idle_connections() -> Verdict:
    """Open connections to the health port that send nothing or half a request."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        server = HealthServer(health_app(CollectorRegistry(), []), "127.0.0.1", 0)
        held = []
        for sent in (b"", b"GET", b"GET /livez HTTP/1.1\r\nHost: x\r\n", b"\x16\x03\x01\x02\x00"):
            link = socket.create_connection(("127.0.0.1", server.port), 5)
            link.sendall(sent)
            held.append(link)
        time.sleep(IDLE_SECONDS)
        for link in held:
            link.close()
        server.close()
    traces = said.getvalue().count("Traceback")
    return Verdict(traces == 0, f"{traces} tracebacks in the log")


def large_batch() -> Verdict:
    """Send one record of 65,536 reports under a plan that expects 1,000."""
    plan = make_plan()
    value = body(plan, [0] * MAX_BATCH_REPORTS)
    where = Partition(names_of(plan).reports(0), 0)
    record = Record(where, 0, time.time_ns() // 1_000_000, True, secrets.token_bytes(16), value)
    judge = AdmissionControl(plan, 0)
    judge.advance(record.timestamp)
    try:
        batch = judge.admit(record)
    except Rejection as rejection:
        return Verdict(True, str(rejection))
    return Verdict(False, f"{batch.n if batch else 0:,} reports are counted")


def suspicion() -> Verdict:
    """Check that a plan can say what to do with a set that looks forged."""
    said = getattr(make_plan(), "on_suspicion", None)
    return Verdict(said is not None, f"on_suspicion: {said or 'there is no such field'}")


ATTACKS: dict[str, Attack] = {
    "A9 a set of another plan": foreign_manifest,
    "A9 settings in a log": shown_password,
    "A9 idle connections": idle_connections,
    "A10 a batch beyond all expectation": large_batch,
    "A10 a set that looks forged": suspicion,
}
