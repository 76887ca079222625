"""An outbox hands reports to a gateway over many short runs: each is counted once."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from calmstream import DeviceStore, FileStore, MemoryStore, Outbox, rejoin, withdraw
from calmstream.common.errors import InvalidInput, RecoverableError
from calmstream.estimators.plan import Plan
from calmstream.producer.device.history import MAX_WAITING, with_another
from calmstream.producer.device.report import Report
from tests.support.gateway.running import present_plan, running, until
from tests.support.producer import unsigned_reporter

CLOSED = "http://127.0.0.1:1"


def kept(plan: Plan, store: DeviceStore) -> Report:
    report = unsigned_reporter(plan, store).report({"a": "1", "b": "2"}, keep=True)
    assert report is not None
    return report


def plans(number: int) -> list[Plan]:
    """Return plans of lineages of their own, so that one device answers all."""
    one = present_plan()
    return [replace(one, name=f"p{n}", lineage=f"{n:032x}") for n in range(number)]


class Answers:
    """A server that answers as a test sets it, and writes down what came."""

    def __init__(self) -> None:
        self.status, self.body, self.lines = 202, b"{}", list[dict[str, Any]]()
        self.meanwhile: Callable[[], object] = list
        self.headers: dict[str, str] = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["content-length"])
                outer.lines.append(json.loads(self.rfile.read(size)) | {"to": self.path})
                outer.headers = dict(self.headers)
                outer.meanwhile()
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


def test_a_report_waits_for_a_gateway_and_is_counted_once(tmp_path: Path) -> None:
    plan, path = present_plan(), tmp_path / "device"
    kept(plan, FileStore(path))
    for _ in range(2):  # short runs without a network
        done = Outbox(FileStore(path), CLOSED).deliver()
        assert (done.taken, done.waiting) == (0, 1)
        assert "does not answer" in done.trouble
    with running(tmp_path, plan) as gateway:
        store = FileStore(path)
        outbox = Outbox(store, f"http://127.0.0.1:{gateway.gateway.port}/")
        before = store.read().waiting
        assert (outbox.deliver().taken, outbox.deliver().taken) == (1, 0)
        # It was killed before it could forget it.
        store.update(lambda state: replace(state, waiting=before))
        assert (outbox.deliver().taken, outbox.deliver().waiting) == (1, 0)
        until("it is sent", lambda: len(gateway.values()) == 1)


def test_the_plans_of_a_gateway_are_those_that_a_reporter_takes(tmp_path: Path) -> None:
    with running(tmp_path) as gateway:
        store = MemoryStore()
        (raw,) = Outbox(store, f"http://127.0.0.1:{gateway.gateway.port}").plans()
    assert unsigned_reporter(raw, store).plan.digest == gateway.plan.digest
    with pytest.raises(RecoverableError, match="offers no plans"):
        Outbox(store, CLOSED).plans()


def test_what_waits_when_a_person_withdraws_never_leaves(answers: Answers) -> None:
    store = MemoryStore()
    for plan in plans(2):
        kept(plan, store)
    answers.meanwhile = lambda: withdraw(store)  # while the first is on its way
    done = Outbox(store, answers.url).deliver()
    assert (done.taken, done.waiting, len(answers.lines)) == (1, 0, 1)
    rejoin(store)
    assert (Outbox(store, answers.url).deliver().taken, len(answers.lines)) == (0, 1)


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
    answers: Answers,
    status: int,
    body: bytes,
    taken: int,
    refused: int,
    waiting: int,
) -> None:
    store, (plan, other) = MemoryStore(), plans(2)
    outbox = Outbox(store, answers.url, app_key="alpha")
    sent = [kept(plan, store), kept(other, store)]
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


def test_what_is_too_late_is_lost_and_what_is_too_much_is_given_up(answers: Answers) -> None:
    store, plan = MemoryStore(), present_plan()
    report = kept(plan, store)
    (waits,) = store.read().waiting
    for _ in range(70):
        given = with_another(store.read().waiting, plan, report.period, report.encode(plan))
        store.update(lambda state, given=given: replace(state, waiting=given))
    assert waits not in store.read().waiting
    end = plan.window_end(report.period) + 500 * plan.grace
    done = Outbox(store, answers.url, clock=lambda: end).deliver()
    assert (done.lost, done.waiting, answers.lines) == (MAX_WAITING, 0, [])


@pytest.mark.parametrize(
    "answer",
    [b"hello\r\n\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"],
)
def test_a_report_waits_where_an_answer_is_no_http_or_ends_early(answer: bytes) -> None:
    plan = present_plan()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            client, _ = server.accept()
            with client:
                client.recv(1 << 16)
                client.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        store = MemoryStore()
        kept(plan, store)
        done = Outbox(store, f"http://127.0.0.1:{server.getsockname()[1]}").deliver()
        thread.join()
    assert (done.taken, done.waiting) == (0, 1)
    assert "does not answer" in done.trouble


def test_a_gateway_has_an_address_of_the_web() -> None:
    with pytest.raises(InvalidInput, match="https"):
        Outbox(MemoryStore(), "file:///etc")
