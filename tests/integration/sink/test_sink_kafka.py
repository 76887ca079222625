"""Check ``calmstream sink`` as a process on a real broker: kills, failures, signals, rights."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from calmstream.cli import main
from tests.support.service.processes import until
from tests.support.sink.kills import WrittenFolder, WrittenTopic, kill_sinks, start
from tests.support.sink.postgres import PASSWORD, PostgresServer, provided
from tests.support.sink.targets import KINDS, expected_results, place, postgres_place

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    yield from provided()


@pytest.fixture
def topic(kafka_bootstrap: str, tmp_path: Path) -> Iterator[WrittenTopic]:
    made = WrittenTopic(kafka_bootstrap, tmp_path, seed=1)
    yield made
    made.close()


def test_once_stores_the_topic_and_says_how_much(
    topic: WrittenTopic, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Only the snapshots topic exists, as after `retire --delete-counts`."""
    where = place("parquet", tmp_path, None)
    topic.write(3, 0.0)
    assert main([*topic.words(where.address), "--once"]) == 0
    fresh = topic.snapshots()
    assert len(fresh) == 6
    assert where.results() == expected_results(topic.plan, topic.names, fresh)
    (line,) = [x for x in capfd.readouterr().err.splitlines() if x.startswith("Parquet")]
    assert " 6 sets stored with 2,544 rows; " in line


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_killed_sinks_lose_and_double_nothing(
    kind: str, topic: WrittenTopic, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    needs = request.getfixturevalue("server") if kind == "postgresql" else None
    where = place(kind, tmp_path, needs)
    outcome = kill_sinks(topic, where, tmp_path, kills=4, seed=20261123)
    assert outcome.differences == []
    assert outcome.kills == 4
    assert outcome.rows > 1000


@pytest.mark.slow
def test_killed_sinks_of_a_folder_of_plans_lose_and_double_nothing(
    kafka_bootstrap: str, server: PostgresServer, tmp_path: Path
) -> None:
    folder = WrittenFolder(kafka_bootstrap, tmp_path, seed=1)
    where = postgres_place(server, server.database())
    try:
        outcome = kill_sinks(folder, where, tmp_path, kills=5, seed=20261123)
        plans = {row[2] for row in where.sets()}
    finally:
        folder.close()
    assert outcome.differences == []
    assert plans == {topic.plan.name for topic in folder.topics}
    assert outcome.rows > 3000


@pytest.mark.slow
def test_a_database_that_goes_away_and_comes_back(
    topic: WrittenTopic, server: PostgresServer, tmp_path: Path
) -> None:
    where = postgres_place(server, server.database())
    sink = start(topic, where, tmp_path / "log")
    try:
        sink.ready()
        topic.start()
        until("rows are stored", lambda: sink.metric("calmstream_sink_rows_stored_total") > 0, 60)
        server.stop()
        until("it fails", lambda: sink.metric("calmstream_sink_failures_total") >= 2, 60)
        assert sink.page("/readyz")[0] == 503
        assert sink.page("/livez")[0] == 200
        server.start()
        topic.end()
        expected = expected_results(topic.plan, topic.names, topic.snapshots())
        until("all rows are stored", lambda: where.results() == expected, 120)
        sink.ready()  # the rows are there before the sink knows
        sink.signal(signal.SIGTERM)
        assert sink.wait(60) == 0
    finally:
        sink.kill()
    log = sink.log.read_text()
    assert "storing failed and is repeated" in log
    assert "Traceback" not in log
    assert PASSWORD not in log
