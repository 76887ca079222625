"""Change password and certificate under a running worker: what happens, and that it is said."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from calmstream.broker.kafka import connect
from calmstream.broker.names import TopicNames
from calmstream.broker.permissions import permissions
from calmstream.broker.topic_facts import ensure_topics
from tests.brokers.provide import or_skip
from tests.brokers.secured import MECHANISM, SecuredKafka
from tests.support.service.processes import Process, run, until
from tests.support.tally import body, small_plan

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]

SECONDS = 180.0


@pytest.fixture
def secured(tmp_path: Path) -> SecuredKafka:
    with or_skip():
        made = SecuredKafka(tmp_path, ["tally"])
        made.kafka.start()
    return made


def test_a_worker_with_an_old_password_or_authority_ends_and_goes_on_with_the_new_one(
    secured: SecuredKafka, tmp_path: Path
) -> None:
    plan = small_plan(window=3600, start=int(time.time()) - 60)
    file = tmp_path / "plan.json"
    file.write_bytes(plan.to_bytes())
    names = TopicNames.of(plan, "sec")
    where = ("--plan", file, "--bootstrap", secured.kafka.bootstrap, "--namespace", "sec")
    admin = connect(secured.kafka.bootstrap, secured.security("admin"))
    ensure_topics(admin, plan, names)
    admin.grant("User:tally", permissions("tally", names))
    admin.close()
    secured.add_scram("tally", "first")
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(secured.cafile.read_text())
    settings = secured.settings("tally") | {
        "CALMSTREAM_SASL_MECHANISM": MECHANISM,
        "CALMSTREAM_SSL_CAFILE": str(trusted),
    }
    password = Path(settings["CALMSTREAM_SASL_PASSWORD_FILE"])
    password.write_text("first")
    log = tmp_path / "tally.log"

    def worker() -> Process:
        return Process(log, "consume", *where, "--role", "tally", settings=settings)

    def counted() -> int:
        found = run("inspect", *where, "--json", settings=secured.settings("admin"))
        return sum(p["reports"] for p in json.loads(found.stdout)["partitions"])

    def send(number: int) -> None:
        client = connect(secured.kafka.bootstrap, secured.security("admin"))
        key = number.to_bytes(16, "big")
        period = plan.window_at(int(time.time() * 1000))
        sink = client.sink()
        sink.send(names.reports(0), key, body(plan, period, [1]), partition=0).wait(60)
        client.close()

    running = worker()
    running.ready(SECONDS)
    send(1)
    until("one report is counted", lambda: counted() == 1, SECONDS, 1.0)
    secured.add_scram("tally", "second")
    secured.kafka.stop()
    secured.kafka.start()
    until("the worker ends", lambda: not running.alive(), SECONDS)
    assert "the broker refused the credentials" in running.tail()
    assert "first" not in log.read_text()
    password.write_text("second")
    running = worker()
    send(2)
    until("both reports are counted", lambda: counted() == 2, SECONDS, 1.0)
    secured.kafka.stop()
    secured.renew_certificate()
    secured.kafka.start()
    until("the worker ends", lambda: not running.alive(), SECONDS)
    trusted.write_text(secured.cafile.read_text())
    running = worker()
    send(3)
    until("all reports are counted", lambda: counted() == 3, SECONDS, 1.0)
    running.kill()
    secured.kafka.close()
