"""Run the image with the docker command, confined as compose and the chart confine it."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.deploy import CHART, load
from tests.support.service import processes

IMAGE = os.environ.get("CALMSTREAM_TEST_IMAGE", "")
KAFKA_IMAGE = os.environ.get("CALMSTREAM_TEST_KAFKA_IMAGE", "")
COMMAND_SECONDS = 180
CONFINED = (
    *("--read-only", "--tmpfs", "/tmp:mode=1777", "--cap-drop", "ALL"),
    *("--security-opt", "no-new-privileges", "--pull", "never"),
)
"""Options of every container of ours: as `x-calmstream` in compose.yaml and `containerSecurity`."""


def docker(*words: str, check: bool = True, seconds: float = COMMAND_SECONDS) -> str:
    run = subprocess.run(
        ["docker", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=seconds,
    )
    assert run.returncode == 0 or not check, f"docker {words[0]}: {run.stdout[-2000:]}"
    return run.stdout


def memory(role: str) -> tuple[str, ...]:
    """Return the options for the memory limit that the chart gives a role."""
    limit = load(CHART / "values.yaml")[role]["resources"]["limits"]["memory"]
    number = limit.removesuffix("i").lower()
    return "--memory", number, "--memory-swap", number


def state(container: str) -> dict[str, Any]:
    """Return the state of a container: Running, ExitCode, OOMKilled, Health."""
    found: dict[str, Any] = json.loads(docker("inspect", "--format", "{{json .State}}", container))
    return found


def until(condition: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
    processes.until(what, condition, seconds, pause=0.5)


@contextmanager
def started(*words: str, name: str = "") -> Iterator[str]:
    name = name or f"calmstream-test-{secrets.token_hex(4)}"
    docker("run", "--detach", "--name", name, *words)
    try:
        yield name
    finally:
        docker("rm", "--force", "--volumes", name, check=False)


@contextmanager
def network() -> Iterator[str]:
    name = f"calmstream-test-{secrets.token_hex(4)}"
    docker("network", "create", name)
    try:
        yield name
    finally:
        docker("network", "rm", name, check=False)


@contextmanager
def volume() -> Iterator[str]:
    name = f"calmstream-test-{secrets.token_hex(4)}"
    docker("volume", "create", name)
    try:
        yield name
    finally:
        docker("volume", "rm", "--force", name, check=False)


@contextmanager
def kafka(on: str) -> Iterator[str]:
    """Run a broker on a network; return its address there, once its port is open."""
    host = f"kafka-{secrets.token_hex(4)}"
    settings = {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": f"1@{host}:9093",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://{host}:9092",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "KAFKA_LOG_DIRS": "/var/lib/kafka/data",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "300",
        "KAFKA_LOG_MESSAGE_TIMESTAMP_TYPE": "LogAppendTime",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
    }
    environment = [word for pair in settings.items() for word in ("--env", "=".join(pair))]
    options = ["--network", on, "--hostname", host, "--pull", "never"]
    with started(*options, *environment, KAFKA_IMAGE, name=host):
        probe = ("exec", host, "bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/9092 && echo open")
        until(lambda: docker(*probe, check=False) == "open\n", "the broker's port is open")
        yield f"{host}:9092"
