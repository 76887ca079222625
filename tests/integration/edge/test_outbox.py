"""An outbox hands reports to a gateway over many short runs: each is counted once."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from calmstream import MemoryStore, Outbox
from calmstream.common.errors import FatalError, InvalidInput
from calmstream.estimators.plan import Plan
from calmstream.producer.device.report import Report
from tests.support.gateway.running import present_plan, running, until
from tests.support.producer import unsigned_reporter

CLOSED = "http://127.0.0.1:1"


def reported(plan: Plan) -> Report:
    report = unsigned_reporter(plan, MemoryStore()).report({"a": "1", "b": "2"})
    assert report is not None
    return report


class Answers:
    """A server that answers as a test sets it, and writes down what came."""

    def __init__(self) -> None:
        self.status, self.body, self.lines = 202, b"{}", list[dict[str, Any]]()
        self.headers: dict[str, str] = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["content-length"])
                outer.lines.append(json.loads(self.rfile.read(size)) | {"to": self.path})
                outer.headers = dict(self.headers)
                self.send_response(outer.status)
                self.send_header("location", f"{outer.url}/elsewhere")
                self.end_headers()
                self.wfile.write(outer.body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def answers() -> Iterator[Answers]:
    found = Answers()
    thread = threading.Thread(target=found.server.serve_forever)
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    thread.join()


def test_reports_wait_for_a_gateway_and_are_counted_once(tmp_path: Path) -> None:
    plan = present_plan()
    for number in range(3):  # three short runs without a network
        outbox = Outbox(tmp_path / "outbox", CLOSED)
        outbox.put(plan, reported(plan))
        done = outbox.deliver()
        assert (done.taken, done.waiting) == (0, number + 1)
        assert "does not answer" in done.trouble
    with running(tmp_path, plan) as gateway:
        outbox = Outbox(tmp_path / "outbox", f"http://127.0.0.1:{gateway.gateway.port}/")
        copy = (tmp_path / "outbox").read_bytes()
        assert (outbox.deliver().taken, outbox.deliver().taken) == (3, 0)
        (tmp_path / "outbox").write_bytes(copy)  # it was killed before it could forget them
        assert (outbox.deliver().taken, outbox.deliver().waiting) == (3, 0)
        until("they are sent", lambda: len(gateway.values()) == 3)


@pytest.mark.parametrize(
    ("status", "body", "taken", "refused", "waiting"),
    [
        (202, b'{"results":[{"result":"duplicate"}]}', 2, 0, 0),
        (202, b"", 2, 0, 0),
        (202, b'{"results":[{"result":"late"}]}', 0, 2, 0),
        (422, b'{"reason":"refused","results":[{"result":"early"}]}', 0, 0, 2),
        (422, b'{"reason":"refused","results":[{"result":"malformed"}]}', 0, 2, 0),
        (401, b'{"reason":"unauthorized"}', 0, 0, 2),
        (409, b'{"reason":"plan_over"}', 0, 2, 0),
        (429, b"[[[", 0, 0, 2),
        (503, b"x" * 10, 0, 0, 2),
        (302, b"", 0, 0, 2),
        (200, b"<html>Log in to the network</html>", 0, 0, 2),
        (200, b'{"results":[{"result":"accepted"}]}', 0, 0, 2),
    ],
)
def test_what_an_answer_means(
    tmp_path: Path,
    answers: Answers,
    status: int,
    body: bytes,
    taken: int,
    refused: int,
    waiting: int,
) -> None:
    plan = present_plan()
    outbox = Outbox(tmp_path / "outbox", answers.url, app_key="alpha")
    sent = [reported(plan) for _ in range(2)]
    for report in sent:
        outbox.put(plan, report)
    answers.status, answers.body = status, body
    done = outbox.deliver()
    assert (done.taken, len(done.refused), done.lost, done.waiting) == (taken, refused, 0, waiting)
    assert bool(done.trouble) == bool(waiting)
    assert answers.lines[0]["to"] == f"/v1/plans/{plan.digest}/reports"
    assert answers.lines[0]["report"] == json.loads(sent[0].encode(plan))
    assert answers.headers["Authorization"] == "Bearer alpha"
    again = outbox.deliver()
    assert again.taken == 0
    ids = [line["id"] for line in answers.lines]
    assert len(set(ids)) == min(2, len(ids)) or status in (429, 503, 302, 200)


def test_what_is_too_late_is_lost_and_what_is_too_much_is_given_up(
    tmp_path: Path, answers: Answers
) -> None:
    plan = present_plan()
    report = reported(plan)
    end = plan.window_end(report.period) + 500 * plan.grace
    outbox = Outbox(tmp_path / "outbox", answers.url, clock=lambda: end)
    for _ in range(70):
        outbox.put(plan, report)
    done = outbox.deliver()
    assert (done.lost, done.waiting, answers.lines) == (64, 0, [])


@pytest.mark.parametrize(
    "answer",
    [b"hello\r\n\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"],
)
def test_a_report_waits_where_an_answer_is_no_http_or_ends_early(
    tmp_path: Path, answer: bytes
) -> None:
    plan = present_plan()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            client, _ = server.accept()
            with client:
                client.recv(1 << 16)
                client.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        outbox = Outbox(tmp_path / "outbox", f"http://127.0.0.1:{server.getsockname()[1]}")
        outbox.put(plan, reported(plan))
        done = outbox.deliver()
        thread.join()
    assert (done.taken, done.waiting) == (0, 1)
    assert "does not answer" in done.trouble


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "outbox").write_bytes(b"{}")
    with pytest.raises(FatalError, match="cannot be read"):
        Outbox(tmp_path / "outbox", CLOSED).deliver()
    with pytest.raises(InvalidInput, match="https"):
        Outbox(tmp_path / "outbox", "file:///etc")
