"""Check commands on a real broker without the plan's topics.

Each one must print one line of error and return an exit code other than 0.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from calmstream.broker.kafka import connect
from calmstream.broker.kafka.broker import KafkaBroker
from calmstream.broker.transport import TopicSpec
from calmstream.consumer.subscribe.subscribe import plan_names
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire import counts
from tests.support.publisher import published_plan
from tests.support.service.processes import run

pytestmark = pytest.mark.kafka


class Place:
    """A plan on disk, records for it, and a broker without its topics."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self.bootstrap = bootstrap
        self.broker: KafkaBroker = connect(bootstrap)
        start = int(time.time()) - 60
        self.plan: Plan = replace(published_plan(), start=start, expires=start + 7200, window=7200)
        self.namespace = f"it-{secrets.token_hex(4)}"
        self.names = plan_names(self.plan, self.namespace)
        self.path = directory / "plan.json"
        self.path.write_bytes(self.plan.to_bytes())
        self.records = directory / "records.csv"
        labels = [a.labels[0] for a in self.plan.domain.attributes]
        self.records.write_text(f"{','.join(self.plan.domain.names)}\n{','.join(labels)}\n")

    def refused(self, command: str, *more: object, code: int = 1) -> str:
        """Run a command that must fail, and return its one line of error."""
        where = ["--plan", self.path, "--bootstrap", self.bootstrap, "--namespace", self.namespace]
        done = run(command, *where, *more, seconds=200, settings={"CALMSTREAM_HTTP_PORT": "-1"})
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        (line,) = [x for x in done.stderr.splitlines() if x.startswith("calmstream: ")]
        return line


@pytest.fixture
def place(kafka_bootstrap: str, tmp_path: Path) -> Iterator[Place]:
    created = Place(kafka_bootstrap, tmp_path)
    yield created
    created.broker.topics().delete([spec.name for spec in created.names.specs(0)])
    created.broker.close()


def test_topics_that_do_not_exist_are_named_with_the_remedy(place: Place) -> None:
    for command in ("consume", "watch"):
        line = place.refused(command)
        assert f"{place.names.prefix}." in line
        assert "does not exist; create it: calmstream topics" in line


def test_producing_to_topics_that_do_not_exist_ends(place: Place) -> None:
    line = place.refused("produce", "--records", place.records)
    assert f"{place.names.prefix}." in line


def test_topics_set_differently_are_named(place: Place) -> None:
    wrong = place.names.reports(0)
    place.broker.topics().create([TopicSpec(wrong, place.plan.partitions + 1, {})])
    line = place.refused("topics")
    assert f"topic {wrong} has {place.plan.partitions + 1} partitions" in line
    place.broker.topics().delete([wrong])


@pytest.mark.slow
def test_times_set_by_senders_are_refused(place: Place) -> None:
    wrong = place.names.reports(0)
    place.broker.topics().create(place.names.specs(7 * 86_400_000))
    place.broker.topics().alter([wrong], {"message.timestamp.type": "CreateTime"})
    line = place.refused("consume")
    assert f"topic {wrong} has message.timestamp.type=CreateTime, not LogAppendTime" in line


@pytest.mark.slow
def test_a_snapshot_of_a_newer_version_is_named(place: Place) -> None:
    place.broker.topics().create(place.names.specs(7 * 86_400_000))
    value = orjson.dumps({"v": "9.0", "plan": place.plan.digest, "whatever": "it will hold"})
    place.broker.sink().send(place.names.snapshots, b"0/final/manifest", value).wait(60)
    line = place.refused("watch", code=2)
    assert "version 9.0, newer than" in line


@pytest.mark.slow
def test_questions_that_no_counts_answer_get_the_reason(place: Place) -> None:
    """Ask a plan without topics, one without finals, and one with counts of a later release."""
    asked = ("--attributes", "a0")
    line = place.refused("query", *asked)
    assert f"topic {place.names.counts}" in line
    assert "retired with its counts, or has none yet (create it: calmstream topics)" in line
    place.broker.topics().create(place.names.specs(7 * 86_400_000))
    assert "no window is final yet" in place.refused("query", *asked, code=2)
    header = {"v": "2.0", "plan": place.plan.digest, "window": 0, "group": 0}
    value = orjson.dumps(header) + b"\n"
    place.broker.sink().send(place.names.counts, b"0/0000", value, partition=0).wait(60)
    line = place.refused("query", *asked, code=2)
    assert f"version 2.0, newer than {counts.VERSION}" in line


@pytest.mark.slow
def test_a_question_to_a_broker_that_is_away_ends(place: Place) -> None:
    place.bootstrap = "127.0.0.1:1"
    assert "127.0.0.1:1" in place.refused("query", "--attributes", "a0")
