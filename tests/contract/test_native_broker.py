"""Check that the broker that tests start ends with the test run, however that ends."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.brokers import supervise
from tests.contract.conftest import DEADLINE, until
from tests.support.ports import free_port

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes by /proc")


def _alive(pid: int) -> bool:
    """Return whether the process exists and is more than a zombie; it may vanish while we look."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rsplit(") ", 1)[1][0] != "Z"


def test_a_supervised_child_dies_with_its_parent() -> None:
    # A parent that starts a supervised sleeper and is then killed outright.
    starter = (
        "import subprocess, sys, time\n"
        f"p = subprocess.Popen([sys.executable, {supervise.__file__!r}, 'sleep', '600'],"
        " stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "print(int(p.stdout.readline()), flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    sleeper = int(parent.stdout.readline())
    assert _alive(sleeper)
    parent.kill()
    parent.wait(DEADLINE)
    parent.stdout.close()
    until(lambda: not _alive(sleeper))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a port cannot be kept")
def test_a_free_port_is_nobody_elses_and_a_server_can_listen_there_again_and_again() -> None:
    port = free_port()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
    for _ in range(2):
        with (
            socket.create_server(("127.0.0.1", port)) as server,
            socket.create_connection(("127.0.0.1", port), DEADLINE),
        ):
            server.accept()[0].close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), DEADLINE)
