"""Check the health server: whether a process is live and ready, and that no client disturbs it."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import urllib.error
import urllib.request
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter

from calmstream.common.clock import ManualClock
from calmstream.consumer.runtime import health
from calmstream.consumer.runtime.health import HealthServer, RoleHealth, health_app

SECONDS = 60.0
"""How long a client waits for the server, which may get no processor for a while."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def roles(clock: ManualClock) -> list[RoleHealth]:
    return [RoleHealth("tally", clock), RoleHealth("publish", clock)]


def ask(app: Any, path: str) -> tuple[int, str]:
    status = []
    parts = app({"PATH_INFO": path, "REQUEST_METHOD": "GET"}, lambda s, _h: status.append(s))
    return int(status[0].split()[0]), b"".join(parts).decode()


def test_live_while_the_loops_turn(clock: ManualClock, roles: list[RoleHealth]) -> None:
    app = health_app(CollectorRegistry(), roles)
    clock.advance(59)
    roles[0].turned()
    clock.advance(2)
    code, text = ask(app, "/livez")
    assert code == 503
    assert "publish: no turn for 61 s" in text
    assert "tally: turning" in text
    roles[1].turned()
    assert ask(app, "/livez")[0] == 200


def test_a_process_with_a_partition_without_progress_is_not_live(roles: list[RoleHealth]) -> None:
    app = health_app(CollectorRegistry(), roles)
    roles[0].stuck("reports[3] stands still")
    assert ask(app, "/livez") == (503, "tally: reports[3] stands still\npublish: turning\n")
    roles[0].stuck("")
    assert ask(app, "/livez")[0] == 200


def test_ready_when_every_role_is(roles: list[RoleHealth]) -> None:
    app = health_app(CollectorRegistry(), roles)
    assert ask(app, "/readyz") == (503, "tally: starting\npublish: starting\n")
    roles[0].ready()
    assert ask(app, "/readyz")[0] == 503
    roles[1].ready()
    assert ask(app, "/readyz") == (200, "tally: ready\npublish: ready\n")
    roles[1].not_ready("draining")
    assert ask(app, "/readyz") == (503, "tally: ready\npublish: draining\n")


def test_served_over_http_on_loopback(roles: list[RoleHealth]) -> None:
    registry = CollectorRegistry()
    Counter("calmstream_test_total", "a test", registry=registry).inc(3)
    server = HealthServer(health_app(registry, roles), "127.0.0.1", 0)
    base = f"http://127.0.0.1:{server.port}"
    try:
        with urllib.request.urlopen(f"{base}/metrics", timeout=SECONDS) as answer:
            assert b"calmstream_test_total 3.0" in answer.read()
        with urllib.request.urlopen(f"{base}/livez", timeout=SECONDS) as answer:
            assert answer.status == 200
        for path, code in (("/readyz", 503), ("/other", 404)):
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(base + path, timeout=SECONDS)
            assert caught.value.code == code
    finally:
        server.close()


SILENT = [b"", b"\x16\x03\x01\x02\x00", b"GET /livez HTTP/1.1\r\nHost: x\r\n", b"GET"]
"""What a client sends before it says no more: nothing, a TLS greeting, half a request."""


def read_to_the_end(client: socket.socket) -> None:
    """Read until the server closes the connection.

    It closes with a reset where it has not read everything. Its time for a request is short here,
    so that on a busy machine it may have ended before the client has sent anything.
    """
    with contextlib.suppress(ConnectionError):
        while client.recv(1 << 12):
            pass


def serving() -> int:
    """Return the threads that serve a connection."""
    return sum("process_request_thread" in thread.name for thread in threading.enumerate())


def wait_until_none_serves() -> None:
    deadline = time.monotonic() + SECONDS
    while serving():
        assert time.monotonic() < deadline, "a thread still serves a silent client"
        time.sleep(0.01)


@pytest.fixture
def server(roles: list[RoleHealth], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(health, "REQUEST_SECONDS", 0.3)
    made = HealthServer(health_app(CollectorRegistry(), roles), "127.0.0.1", 0)
    yield made
    made.close()


@pytest.mark.parametrize("sent", SILENT)
def test_a_silent_client_leaves_no_traceback_and_no_thread(
    server: HealthServer, sent: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS) as client:
        client.sendall(sent)
        read_to_the_end(client)
        wait_until_none_serves()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("sent", [b"\x00\xff rubbish \r\n\r\n", b"\r\n" * 3, b"x" * 70_000])
def test_garbage_leaves_no_traceback(
    server: HealthServer, sent: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS) as client:
        with contextlib.suppress(OSError):  # the server has closed the connection before
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
        read_to_the_end(client)
        wait_until_none_serves()
    assert capfd.readouterr() == ("", "")


def test_a_client_that_resets_leaves_no_traceback(
    server: HealthServer, capfd: pytest.CaptureFixture[str]
) -> None:
    linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"  # closing sends a reset
    for sent in (b"GET /livez", b"GET /metrics HTTP/1.0\r\n\r\n"):
        client = socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        client.sendall(sent)
        client.close()
    # The server takes connections in their order: after this answer it has taken the two above.
    base = f"http://127.0.0.1:{server.port}"
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{base}/other", timeout=SECONDS)
    wait_until_none_serves()
    assert capfd.readouterr() == ("", "")


def test_a_request_that_trickles_in_has_one_deadline(server: HealthServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS) as client:
        client.settimeout(0.02)
        give_up = time.monotonic() + SECONDS
        closed = False
        while not closed:
            assert time.monotonic() < give_up, "the connection stays open for ever"
            try:
                client.sendall(b"G")
                closed = client.recv(1) == b""
            except TimeoutError:
                continue
            except OSError:
                closed = True
    wait_until_none_serves()


def test_an_answer_that_the_client_does_not_read_leaves_no_traceback_and_no_thread(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(health, "REQUEST_SECONDS", 0.3)

    def large(_: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"x" * (64 << 20)]

    server = HealthServer(large, "127.0.0.1", 0)
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS) as client:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            time.sleep(0.1)
            wait_until_none_serves()
    finally:
        server.close()
    assert capfd.readouterr() == ("", "")


def test_a_defect_of_the_application_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    server = HealthServer(lambda *_: 1 // 0, "127.0.0.1", 0)  # type: ignore[arg-type,return-value]
    try:
        with pytest.raises(urllib.error.HTTPError, match="500"):
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/", timeout=SECONDS)
    finally:
        server.close()
    assert "ZeroDivisionError" in capfd.readouterr().err
