"""Run compose for real and kill every service once; `make compose-test` builds its images first.

Without CALMSTREAM_TEST_COMPOSE every test is skipped. Compose 2, root and the ports of the compose
file are needed.
"""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.containers.engine import docker, state, until
from tests.support.deploy import DEPLOY

pytestmark = [
    pytest.mark.skipif(
        not os.environ.get("CALMSTREAM_TEST_COMPOSE"),
        reason="CALMSTREAM_TEST_COMPOSE is not set: make compose-test",
    ),
    pytest.mark.timeout(1200),
]
PROJECT = "calmstream-test"
KILLED = ("tally-1", "tally-2", "publisher-1", "gateway-1", "producer-1", "kafka-1", "prometheus-1")


def compose(*words: str) -> str:
    files = ("--file", str(DEPLOY / "compose.yaml"), "--file", str(DEPLOY / "compose.local.yaml"))
    return docker("compose", "--project-name", PROJECT, *files, *words, seconds=400)


@pytest.fixture(scope="module", autouse=True)
def _up() -> Iterator[None]:
    try:
        compose("up", "--detach")
        yield
    finally:
        compose("down", "--volumes")


def asked(path: str) -> Any:
    """Return what Prometheus answers, or nothing while it is away."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:9090/api/v1/{path}", timeout=5) as answer:
            return json.loads(answer.read())["data"]
    except OSError:
        return None


def final() -> int:
    words = (
        "inspect",
        "--plan",
        "/var/lib/calmstream/plans/demo.json",
        "--bootstrap",
        "kafka:19092",
    )
    out = compose("exec", "--no-TTY", "publisher", "calmstream", *words, "--json")
    return int(json.loads(out.splitlines()[-1])["windows"]["final"])


def all_scraped() -> bool:
    found = asked("targets")
    targets = found["activeTargets"] if found else []
    return len(targets) == 7 and all(target["health"] == "up" for target in targets)


def test_finals_appear_and_everything_is_scraped() -> None:
    until(all_scraped, "seven targets are scraped")
    until(lambda: final() >= 2, "two windows are final", 300)


@pytest.mark.parametrize("name", KILLED)
def test_a_killed_service_comes_back(name: str) -> None:
    container = f"{PROJECT}-{name}"
    before = state(container)
    os.kill(before["Pid"], signal.SIGKILL)  # docker kill would be a wish of the operator
    until(lambda: state(container)["Pid"] not in {0, before["Pid"]}, "it runs again")
    until(
        lambda: state(container).get("Health", {}).get("Status", "healthy") == "healthy", "health"
    )


def test_after_all_kills_finals_go_on_and_alerts_are_quiet() -> None:
    seen = final()
    until(lambda: final() > seen, "another window is final", 300)
    until(all_scraped, "seven targets are scraped")
    found = asked("alerts")
    assert found is not None
    assert not [alert for alert in found["alerts"] if alert["state"] == "firing"]


def test_all_end_by_themselves_when_they_are_stopped() -> None:
    compose("stop")
    for name in KILLED:
        # A Java process that SIGTERM ended in order says 143.
        assert state(f"{PROJECT}-{name}")["ExitCode"] == (143 if name == "kafka-1" else 0), name
