"""Without a plan's topics each command prints one line of error and fails, on a real broker."""

from __future__ import annotations

import secrets
import time
from pathlib import Path

import pytest

from calmstream.broker.kafka import connect
from calmstream.broker.names import TopicNames
from calmstream.broker.transport import TopicSpec
from tests.support.publisher import published_plan
from tests.support.service.processes import run

pytestmark = pytest.mark.kafka


def test_topics_that_do_not_exist_or_are_set_differently_are_named(
    kafka_bootstrap: str, tmp_path: Path
) -> None:
    plan = published_plan(start=int(time.time()) - 60, window=7200, windows=1)
    names = TopicNames.of(plan, f"it-{secrets.token_hex(4)}")
    path, records = tmp_path / "plan.json", tmp_path / "records.csv"
    path.write_bytes(plan.to_bytes())
    labels = [attribute.labels[0] for attribute in plan.domain.attributes]
    records.write_text(f"{','.join(plan.domain.names)}\n{','.join(labels)}\n")
    where = ["--plan", path, "--bootstrap", kafka_bootstrap, "--namespace", names.namespace]

    def refused(command: str, *more: object) -> str:
        done = run(command, *where, *more, seconds=200, settings={"CALMSTREAM_HTTP_PORT": "-1"})
        assert done.returncode == 1, done.stderr
        assert "Traceback" not in done.stderr
        (line,) = [x for x in done.stderr.splitlines() if x.startswith("calmstream: ")]
        return line

    for command in ("consume", "watch"):
        line = refused(command)
        assert f"{names.prefix}." in line
        assert "does not exist; create it: calmstream topics" in line
    assert f"{names.prefix}." in refused("produce", "--records", records)
    broker, wrong = connect(kafka_bootstrap), names.reports(0)
    broker.topics().create([TopicSpec(wrong, plan.partitions + 1, {})])
    try:
        assert f"topic {wrong} has {plan.partitions + 1} partitions" in refused("topics")
    finally:
        broker.topics().delete([wrong])
        broker.close()
