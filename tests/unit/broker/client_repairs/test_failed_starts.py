"""Check that a client that finds no broker ends in time and leaves no thread and no socket."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer
from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient

from tests.support.ports import free_port

DEADLINE = 60.0

# Prints by how many the open descriptors and the threads grow in five attempts to connect.
ATTEMPTS = """
import gc, os, sys, threading
from calmstream.broker.kafka import connect
from calmstream.common.errors import RecoverableError

gc.disable()  # what is open must not depend on it

def used():
    return len(os.listdir("/proc/self/fd")), threading.active_count()

def attempt():
    try:
        connect(sys.argv[1], connect_seconds=0.3)
    except RecoverableError:
        return
    raise AssertionError("a broker answered")

attempt()
before = used()
for _ in range(5):
    attempt()
print(*(new - old for new, old in zip(used(), before)))
"""


@pytest.fixture
def address() -> str:
    """An address where connections are refused."""
    return f"127.0.0.1:{free_port()}"


@pytest.mark.parametrize("make", [KafkaAdminClient, KafkaConsumer])
def test_without_the_repair_a_thread_is_left(make: Callable[..., Any], address: str) -> None:
    opened: list[Any] = []

    def note(**settings: Any) -> Any:
        opened.append(KafkaNetClient(**settings))
        return opened[-1]

    name = f"failed-{address}"
    with pytest.raises(kafka_errors.KafkaTimeoutError):
        make(
            bootstrap_servers=[address],
            client_id=name,
            bootstrap_timeout_ms=100,
            kafka_client=note,
        )
    names = {thread.name for thread in threading.enumerate()}
    assert f"kafka-io-{name}" in names, "the fault is gone: delete the repair"
    opened[0].close()


def test_a_service_can_try_for_ever(address: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ATTEMPTS, address],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=True,
    )
    assert done.stdout.split() == ["0", "0"]
