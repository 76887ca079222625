"""Run the procedures of the runbook: its own commands, on real brokers, and count what is lost.

With ``-s`` it prints a table: procedure, commands, seconds, reports lost.
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from calmstream.broker.kafka import connect
from calmstream.estimators.wire.batch import encode_batch
from calmstream.estimators.wire.report import decode_report
from calmstream.producer.device.read_plan import read_signed_plan
from tests.brokers.native import NativeKafka
from tests.support.ports import free_port
from tests.support.service.place import SECONDS, Place
from tests.support.service.processes import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]

COUNTING = {"consume ": "consume --http-port 0 ", "--grace 172800": "--grace 600"}
"""A window of a test is too short for a grace of days."""


@pytest.fixture(scope="module")
def place(kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One service and one gateway; each test adds a plan of its own."""
    with ExitStack() as stack:
        made = Place(kafka_bootstrap, tmp_path_factory.mktemp("place"), stack)
        made.start("service", "consume")
        made.start_gateway()
        yield made


def test_a_plan_from_its_beginning_to_its_retirement(place: Place) -> None:
    place.begin()
    place.added("settings")
    place.report(20)
    place.follow("begin", **{"localhost:9092": place.bootstrap})
    place.exact("settings")
    place.took("add a plan", "settings")
    place.follow("rotate")
    old = read_signed_plan((place.folder / "settings.json").read_bytes(), None)
    new = read_signed_plan((place.folder / "gateway" / "settings.json").read_bytes(), None)
    assert old.plan == new.plan
    assert old.statement != new.statement, "signed by another key"
    place.report(20)
    place.exact("settings")
    place.took("rotate a signing key", "settings")
    place.follow("successor")
    until("the successor is offered", lambda: place.report(1, "settings-2") == 1, SECONDS, 0.5)
    until("the old one is not", lambda: place.report(1) == 0, SECONDS, 0.5)
    place.report(20, "settings-2")
    place.exact("settings-2", "settings")
    place.took("follow a plan, more partitions", "settings-2", "settings")
    waiting = "calmstream_gateway_reports_waiting"
    gateway = place.processes["gateway"]
    until("the gateway has sent all", lambda: gateway.metric(waiting) == 0, SECONDS)
    sent = place.acknowledged.pop("settings")
    place.follow("retire", **{"calmstream retire": "calmstream retire --yes"})
    place.took("retire a plan")
    table = place.shell("calmstream export --plan settings.json --kind total --format json")
    assert f'"reports":{sent},' in table.replace(" ", ""), "the results stay, and have all"
    place.shell("cp settings.json services/")
    place.healthy(["settings"], "retired")
    place.healthy(["settings-2"])
    place.drop("settings", "settings-2")


def test_dead_letters_are_read_and_counted_after_all(place: Place) -> None:
    place.begin()
    place.added("letters")
    plan, sink = place.plan("letters"), place.broker.sink()
    group, report = decode_report(plan, place.device("letters"))
    over = plan.window_end(0) / 1000 + plan.grace
    until("the first window is over", lambda: time.time() > over, SECONDS)
    place.report(5, "letters")
    topic = place.names("letters").reports(group)
    late = encode_batch(plan, group, replace(report, period=0))
    for key, body in ((secrets.token_bytes(16), late), (b"k" * 16, b"?")):
        sink.send(topic, key, body, partition=0).wait(60)

    def read() -> bool:
        said = place.shell("calmstream dead-letters --plan letters.json")
        return "late" in said and "undecodable" in said and "--grace" in said

    until("both are listed", read, SECONDS, pause=0.5)
    until("it closes", lambda: place.look("letters").windows.closed_everywhere > 0, SECONDS, 0.5)
    place.begin()
    with place.running(place.script("dead letters", "letters", **COUNTING)):
        until("the late one too",
              lambda: place.counted("letters", "corrected") == place.acknowledged["letters"] + 1,
              SECONDS, 0.5)  # fmt: skip
    place.took("read dead letters and count them", "letters")
    place.drop("letters")


def test_a_gateway_goes_on_with_an_empty_spool(place: Place) -> None:
    place.added("spooled")
    place.report(20, "spooled")
    place.exact("spooled")
    place.processes["gateway"].kill()
    shutil.rmtree(place.folder / "spool")
    place.begin()
    place.script("spool")  # as the runbook says, on a port of the test
    place.start_gateway().ready(SECONDS)
    place.report(20, "spooled")
    place.exact("spooled")
    place.took("lose a gateway's disk, all sent", "spooled")
    place.drop("spooled")


def test_lost_topics_are_made_again_and_no_report_is_lost(place: Place) -> None:
    """Each plan loses another topic, all at once: none disturbs another."""
    lost = ("state", "snapshots", "counts", "dead-letters")
    place.added(*lost)
    for name in lost:
        place.report(20, name)
    place.exact(*lost)
    place.broker.topics().delete([f"{place.names(name).prefix}.{name}" for name in lost])
    place.begin()
    place.healthy(lost, "fault")
    for name in lost:
        place.step(f"calmstream topics --plan {name}.json")
    place.healthy(lost)
    place.exact(*lost)
    place.took("lose four topics, all but reports", *lost)
    sent = place.acknowledged["snapshots"]
    with place.running(place.script("again", "snapshots", **COUNTING)):
        until("all is counted", lambda: place.counted("snapshots", "again") == sent, SECONDS, 0.5)
        until("finals", lambda: place.look("snapshots", "again").windows.final > 0, SECONDS, 0.5)
    place.took("count again", "snapshots")
    place.drop(*lost)


def test_after_a_lost_reports_topic_counting_goes_on_in_another_namespace(place: Place) -> None:
    place.added("lost")
    place.report(20, "lost")
    place.exact("lost")
    place.broker.topics().delete(place.names("lost").all_reports)
    place.healthy(["lost"], "fault")
    place.begin()
    place.step("calmstream topics --plan lost.json")
    with place.running(place.script("reports", "lost", **COUNTING)):
        place.processes["gateway"].kill()
        place.start_gateway().ready(SECONDS)
        new = place.report(20, "lost")
        until("they are counted", lambda: place.counted("lost", "again") == new, SECONDS, 0.5)
    place.took("lose a reports topic, all counted")
    place.drop("lost")


@pytest.fixture(scope="module")
def two() -> Iterator[tuple[NativeKafka, NativeKafka]]:
    """Another cluster, of two brokers with every topic on both."""
    settings = {"default.replication.factor": "2", "offsets.topic.replication.factor": "2"}
    with ExitStack() as stack:
        one = stack.enter_context(NativeKafka(properties=settings))
        yield one, stack.enter_context(NativeKafka(properties=settings, joins=one))


@contextmanager
def moved(place: Place, bootstrap: str) -> Iterator[None]:
    """Run the processes of the move's commands; devices find the new gateway meanwhile."""
    was, port = (place.http, place.bootstrap, place.broker), free_port()
    ports = f"--port {port} --http-port {free_port()}"
    words = {
        "new-cluster:9092": bootstrap,
        "--spool spool/": f"--spool spool-2/ --min-batch 1 {ports}",
        "consume ": f"consume --http-port {free_port()} ",
    }
    place.http, place.bootstrap, place.broker = port, bootstrap, connect(bootstrap)
    try:
        with place.running(place.script("move", "moved", **words)):
            yield
    finally:
        place.broker.close()
        place.http, place.bootstrap, place.broker = was


def test_a_plan_moves_to_another_cluster_where_a_broker_loses_its_disk(
    place: Place, two: tuple[NativeKafka, NativeKafka]
) -> None:
    place.added("moved")
    place.report(20, "moved")
    place.exact("moved")
    plan, sent = place.plan("moved"), place.acknowledged["moved"]
    last = plan.window_at(time.time_ns() // 1_000_000)
    one, other = two
    place.begin()
    place.follow("successor", "moved")
    with moved(place, f"{one.bootstrap},{other.bootstrap}"):
        until("the new cluster takes reports", lambda: place.report(1, "moved-2") == 1, SECONDS)
        place.report(20, "moved-2")
        place.exact("moved-2")
        place.took("move to another cluster", "moved-2")
        other.kill()
        shutil.rmtree(other.data)
        place.begin()
        other.start()
        place.report(20, "moved-2")
        place.exact("moved-2")
        place.took("lose a broker's disk", "moved-2")
    until("its last window is final",
          lambda: place.look("moved").windows.newest_final >= last, SECONDS, 0.5)  # fmt: skip
    place.begin()
    place.follow("take along", "moved", **{"localhost:9092": place.bootstrap})
    rows = pq.read_table(place.folder / "old.parquet").to_pylist()
    assert sum({row["window_number"]: row["reports"] for row in rows}.values()) == sent
    place.took("take the old results along", "moved")
