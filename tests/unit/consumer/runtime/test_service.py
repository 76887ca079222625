"""Check the service that runs several roles in one process: failures and signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from calmstream.common.clock import SystemClock
from calmstream.common.errors import FatalError
from calmstream.common.health import RoleHealth
from calmstream.consumer.runtime.service import run_roles

SECONDS = 60.0


class Waiting:
    """A role that waits for its end."""

    name = "waiting"

    def __init__(self) -> None:
        self.health = RoleHealth(self.name, SystemClock())
        self.ended = False

    def run(self, stop: threading.Event) -> None:
        assert stop.wait(SECONDS)
        self.ended = True


class Failing(Waiting):
    name = "failing"

    def run(self, _stop: threading.Event) -> None:
        raise FatalError("no way on")


def test_a_role_that_fails_stops_the_others_and_is_reported() -> None:
    waiting = Waiting()
    with pytest.raises(FatalError, match="no way on"):
        run_roles([waiting, Failing()], threading.Event())
    assert waiting.ended


def test_all_roles_end_on_request() -> None:
    roles, stop = [Waiting(), Waiting()], threading.Event()
    threading.Timer(0.1, stop.set).start()
    run_roles(roles, stop)
    assert all(role.ended for role in roles)


PROGRAM = textwrap.dedent(
    """
    import sys, threading, time
    from prometheus_client import CollectorRegistry
    from calmstream.common.clock import SystemClock
    from calmstream.consumer.runtime.config import HttpConfig
    from calmstream.common.health import RoleHealth
    from calmstream.consumer.runtime.service import configure_logging, run_service

    class Role:
        name = "slow"
        health = RoleHealth("slow", SystemClock())
        def run(self, stop):
            print("up", flush=True)
            assert stop.wait(60)
            print("stopping", flush=True)
            time.sleep(float(sys.argv[1]))
            print("stopped", flush=True)

    configure_logging("info")
    run_service([Role()], CollectorRegistry(), HttpConfig(http_port=0))
    """
)


def start(seconds: float) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(seconds)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path.cwd())},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_stops_gracefully(number: int) -> None:
    process = start(0.0)
    process.send_signal(number)
    out, err = process.communicate(timeout=SECONDS)
    assert out.split() == ["stopping", "stopped"]
    assert process.returncode == 0
    assert '"event": "serving health and metrics"' in err


def test_the_second_signal_ends_at_once() -> None:
    process = start(30.0)
    process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    assert process.stdout.readline() == "stopping\n"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=SECONDS)
    assert out == ""
    assert process.returncode == -signal.SIGTERM
