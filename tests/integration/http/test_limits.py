"""What one client can do to the HTTP servers, done with real sockets; the others are served."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from calmstream.common.health import health_app
from calmstream.common.http.server import ThreadServer
from calmstream.consumer.read.formats import FORMATS
from calmstream.consumer.read.history import History
from tests.support.gateway.running import JSON_LINES, SECONDS, Running, line, running, until
from tests.support.serving import Serving, filled, serving_bench

OTHER = ("127.0.0.2", 0)  # another client: all of 127.0.0.0/8 is this machine

MIB = 1 << 20


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("gateway"), body_bytes=200_000) as found:
        yield found


@pytest.fixture(scope="module")
def serve() -> Iterator[Serving]:
    with serving_bench(filled(windows=1)) as found:
        yield found


@pytest.fixture
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    """The port of the server that the test is about."""
    if request.param == "health":
        server = ThreadServer(health_app(CollectorRegistry(), ()), "127.0.0.1", 0, "tests")
        yield server.port
        server.close()
    elif request.param == "gateway":
        yield request.getfixturevalue("gateway").gateway.port
    else:
        yield request.getfixturevalue("serve").server.port


PATHS = {"gateway": "/v1/plans", "serve": "/v1/plans", "health": "/livez"}
EVERY_SERVER = pytest.mark.parametrize(
    ("port", "path"), list(PATHS.items()), indirect=["port"], ids=list(PATHS)
)


def connect(port: int, source: tuple[str, int] | None = None) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), SECONDS, source_address=source)


def memory() -> int:
    """Return the bytes that this process, clients and server, has in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def everything(connection: socket.socket) -> bytes:
    """Return what comes until the server closes; a reset is an error."""
    parts = []
    while part := connection.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def status(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    with contextlib.closing(connection):
        connection.request("GET", path)
        return connection.getresponse().status


# H1: requests without reading their answers.


@EVERY_SERVER
def test_requests_behind_an_unread_answer_cost_nothing(port: int, path: str) -> None:
    request = f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()
    block, before = request * (64 * 1024 // len(request)), memory()
    with connect(port) as connection:
        connection.settimeout(0.5)
        with contextlib.suppress(OSError):  # not read any more, or closed
            for _ in range(22 * MIB // len(block)):
                connection.sendall(block)
        assert memory() - before < 60 * MIB
        assert status(port, path) == 200


@EVERY_SERVER
def test_some_requests_at_once_are_answered_in_their_order(port: int, path: str) -> None:
    requests = [f"GET {path}{end} HTTP/1.1\r\nhost: localhost\r\n" for end in ("", "x") * 4]
    requests.append(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n")
    with connect(port) as connection:
        connection.sendall(b"".join(f"{one}\r\n".encode() for one in requests))
        answer = everything(connection)
    statuses = [int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:]]
    assert statuses[:2] == [200, 404]
    # The gateway closes behind an address that it does not have.
    assert statuses in ([200, 404], [200, 404] * 4 + [200])


# H2: an upgrade that is not taken.


@pytest.mark.parametrize("pause", [0.0, 0.2])
def test_an_upgrade_changes_nothing(gateway: Running, pause: float) -> None:
    body = line(gateway.plan, 2000 + int(pause * 10))
    head = (
        f"POST {gateway.path}/reports HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        f"Content-Length: {len(body)}\r\nHost: localhost\r\nHTTP2-Settings: AAEAAEAAAAIAAAAA\r\n"
        "Upgrade: h2c\r\nContent-Type: application/json\r\n\r\n"
    )
    with connect(gateway.gateway.port) as connection:
        connection.sendall(head.encode() + (b"" if pause else body))
        if pause:
            time.sleep(pause)  # a segment of its own
            connection.sendall(body)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 202 ")
        connection.sendall(
            b"GET /v1/plans HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        )
        assert everything(connection).startswith(b"HTTP/1.1 200 ")


def test_a_body_behind_an_upgrade_is_no_request(gateway: Running) -> None:
    body = b"GET /v1/plans HTTP/1.1\r\nhost: localhost\r\n\r\n"
    head = (
        f"POST {gateway.path}/reports HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\n"
        f"upgrade: h2c\r\ncontent-length: {len(body)}\r\ncontent-type: {JSON_LINES}\r\n\r\n"
    )
    last = b"GET /v1/none HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    with connect(gateway.gateway.port) as connection:
        for part in (head.encode(), body, last):
            connection.sendall(part)
            time.sleep(0.1)
        answer = everything(connection)
    assert [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]] == [b"400", b"404"]
    assert b'"not_json"' in answer


# H3: readers who do not read.


def test_slow_readers_of_one_answer_share_it_and_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, readers = filled(windows=1), 60
    with serving_bench(bench, request_seconds=1.0) as live, contextlib.ExitStack() as held:
        monkeypatch.setattr(History, "ask", lambda *_, **__: None)
        body = b"x" * (16 * MIB)
        monkeypatch.setitem(FORMATS, "csv", lambda *_: body)  # type: ignore[arg-type]
        path = f"/v1/plans/{bench.plan.name}/tables?attributes=a0&format=csv"
        before = memory()
        for _ in range(readers):
            connection = held.enter_context(connect(live.server.port, OTHER))
            connection.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        until("the first ones are cut", lambda: live.server.connections.cut > 0)
        assert memory() - before < 100 * MIB
        assert len(live.client.get(path).content) == len(body)
        until("all are cut", lambda: live.server.connections.cut >= readers)


def test_different_large_answers_have_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = filled(windows=1)
    options = {"sending_bytes": 8 * MIB, "answer_bytes": 0}
    with serving_bench(bench, **options) as live, contextlib.ExitStack() as held:
        monkeypatch.setattr(History, "ask", lambda *_, **__: None)
        monkeypatch.setitem(FORMATS, "csv", lambda *_: b"x" * (3 * MIB))  # type: ignore[arg-type]
        path = f"/v1/plans/{bench.plan.name}/tables?attributes=a0&format=csv"
        for _ in range(2):
            connection = held.enter_context(connect(live.server.port, OTHER))
            connection.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
        refused = live.client.get(path)
        assert (refused.status_code, refused.json()["reason"]) == (503, "busy")
        assert live.get("/windows").status_code == 200
    assert not live.server.connections.sending._share.used


# H4: questions of clients that have gone.


def test_questions_nobody_waits_for_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, computed = filled(windows=1), []
    gate, began = threading.Event(), threading.Event()
    with serving_bench(bench) as live:
        for _ in range(2):
            live.service._queue.submit(lambda: None).result(SECONDS)
        real = History.ask

        def counted(self: History, *given: Any, **options: Any) -> Any:
            began.set()
            assert gate.wait(SECONDS)
            computed.append(given)
            return real(self, *given, **options)

        monkeypatch.setattr(History, "ask", counted)
        for number in range(200):
            path = f"/v1/plans/{bench.plan.name}/tables?attributes=a0&group=a0=0;a0={number}"
            path = path if number else f"/v1/plans/{bench.plan.name}/tables?attributes=a1"
            with connect(live.server.port) as connection:
                connection.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
                if not number:
                    assert began.wait(SECONDS)
        asked = "calmstream_serve_requests_total"
        until("all were read", lambda: (live.registry.get_sample_value(asked) or 0) >= 200)
        until("all have gone", lambda: len(live.server.connections) <= 1)
        waiting = live.service._queue._waiting
        until("none waits", lambda: all(f.cancelled() for q in [*waiting.values()] for f, _ in q))
        gate.set()
        assert live.get("/tables?attributes=a2").status_code == 200
        assert len(computed) <= 3


# H5: places that are taken and not used.


def unfinished(gateway: Running, sent: int, stated: int) -> bytes:
    head = f"POST {gateway.path}/reports HTTP/1.1\r\nhost: x\r\ncontent-type: {JSON_LINES}\r\n"
    return f"{head}content-length: {stated}\r\n\r\n".encode() + b" " * sent


def test_unfinished_bodies_take_no_place_of_a_request(tmp_path: Path) -> None:
    with running(tmp_path, max_requests=2) as gateway, contextlib.ExitStack() as held:
        for _ in range(20):
            held.enter_context(connect(gateway.gateway.port)).sendall(unfinished(gateway, 1, 99))
        for value in range(20):
            assert gateway.report(line(gateway.plan, value)).status == 202


def test_small_bodies_pass_full_memory(tmp_path: Path) -> None:
    sizes = {"body_bytes": MIB, "buffer_bytes": MIB}
    with running(tmp_path, **sizes) as gateway, contextlib.ExitStack() as held:

        def full() -> bool:
            one = held.enter_context(connect(gateway.gateway.port, OTHER))
            one.sendall(unfinished(gateway, 300_000, MIB))
            return gateway.report(line(gateway.plan, 1) + b" " * 700_000).status == 503

        until("the memory is full", full)
        assert gateway.report(line(gateway.plan, 1)).status == 202
        held.close()
        until("it is free", lambda: gateway.report(b" " * 700_000).reason == "no_reports")


@pytest.mark.parametrize("source", [None, OTHER])
def test_idle_connections_make_room(tmp_path: Path, source: tuple[str, int] | None) -> None:
    with running(tmp_path, max_connections=8) as gateway, contextlib.ExitStack() as held:
        first = held.enter_context(connect(gateway.gateway.port, source))
        for _ in range(20):
            held.enter_context(connect(gateway.gateway.port, source))

        def taken() -> bool:
            with contextlib.suppress(ConnectionError):
                return gateway.report(line(gateway.plan, 0)).status == 202
            return False

        until("they are idle", taken)
        for value in range(5):
            assert gateway.report(line(gateway.plan, value)).status == 202
        with contextlib.suppress(ConnectionResetError):
            assert first.recv(1) == b"", "the oldest is closed first"


def test_one_client_leaves_room_for_others(tmp_path: Path) -> None:
    with running(tmp_path, max_connections=8) as gateway, contextlib.ExitStack() as held:
        for _ in range(20):
            one = held.enter_context(connect(gateway.gateway.port, OTHER))
            with contextlib.suppress(ConnectionError):  # what is beyond the share is closed
                one.sendall(b"GET /v1/pl")
        for value in range(5):
            assert gateway.report(line(gateway.plan, value)).status == 202


# H6: headers that come later or twice.


def test_a_trailer_changes_nothing(gateway: Running) -> None:
    body = line(gateway.plan, 4001)
    head = f"POST {gateway.path}/reports HTTP/1.1\r\nhost: x\r\ncontent-type: text/plain\r\n"
    chunk = b"%x\r\n%s\r\n0\r\n" % (len(body), body)
    sent = f"{head}transfer-encoding: chunked\r\n\r\n".encode() + chunk
    answer = gateway.raw(sent + b"content-type: application/json\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 415 ")


@pytest.mark.parametrize(
    "repeated",
    [
        "content-type: application/json\r\ncontent-type: text/plain",
        "content-type: text/plain\r\nContent-Type: application/json",
        "content-length: 5\r\ncontent-length: 5",
        "authorization: Bearer a\r\nauthorization: Bearer b",
        "host: y\r\nhost: x",
        "content-encoding: gzip\r\ncontent-encoding: identity",
        "content-length: 5\r\ntransfer-encoding: chunked",
    ],
)
def test_a_header_that_decides_comes_once(gateway: Running, repeated: str) -> None:
    sent = f"POST {gateway.path}/reports HTTP/1.1\r\n{repeated}\r\n\r\n5\r\n{{}}   \r\n0\r\n\r\n"
    answer = gateway.raw(sent.encode())
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'"not_http"' in answer


# H7: an answer before the request has been read.


@pytest.mark.parametrize(("path", "expected"), [("reports", 413), ("other", 404)])
def test_an_early_answer_arrives(gateway: Running, path: str, expected: int) -> None:
    address = f"http://127.0.0.1:{gateway.gateway.port}{gateway.path}/{path}"

    def post(_: int) -> int:
        headers = {"content-type": JSON_LINES}
        request = urllib.request.Request(address, b" " * (8 * MIB), headers)
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=SECONDS)
        return caught.value.code

    assert {post(number) for number in range(16)} == {expected}
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(post, range(16))) == {expected}


@EVERY_SERVER
def test_a_body_that_nobody_reads_does_not_hide_the_answer(port: int, path: str) -> None:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", b" " * (4 * MIB))
    for _ in range(4):
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                found = answer.status
        except urllib.error.HTTPError as error:
            found = error.code
        assert found == {"/livez": 200}.get(path, 405)


def test_a_client_that_never_stops_sending_is_cut(gateway: Running) -> None:
    chunk = b"ffff\r\n" + b" " * 0xFFFF + b"\r\n"
    head = f"POST {gateway.path}/reports HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"

    def send_on(connection: socket.socket) -> None:
        deadline = time.monotonic() + SECONDS
        connection.sendall(head.encode())
        while time.monotonic() < deadline:
            connection.sendall(chunk)

    with connect(gateway.gateway.port) as connection, pytest.raises(ConnectionError):
        send_on(connection)
