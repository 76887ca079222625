"""Requests to a gateway: those that succeed, and every way in which one can fail."""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from calmstream.estimators.plan import Plan
from calmstream.producer.signed import keys
from calmstream.producer.signed.certificate import Statement
from calmstream.producer.signed.envelope import certify, seal, signed_lineage
from tests.support.gateway.running import (
    JSON_LINES,
    SECONDS,
    Reply,
    Running,
    line,
    present_plan,
    received,
    running,
    until,
)
from tests.support.gateway.spool_world import counting_plan
from tests.support.tally import names_of

ORIGIN = "https://page.example"
TRUNCATED = b"\r\n".join(
    (
        b"POST PLAN/reports HTTP/1.1",
        b"content-type: application/jsonl",
        b"content-length: 9",
        b"",
        b"{",
    )
)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    directory = tmp_path_factory.mktemp("gateway")
    with running(directory, origins=ORIGIN, body_bytes=200_000, request_seconds=SECONDS) as found:
        yield found


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway that soon cuts connections; a client without a processor may be cut too."""
    directory = tmp_path_factory.mktemp("impatient")
    with running(directory, request_seconds=2.0, idle_seconds=1.0) as found:
        yield found


@pytest.fixture
def first(request: pytest.FixtureRequest) -> int:
    return 1000 + int(hashlib.sha256(request.node.name.encode()).hexdigest(), 16) % 3000


def test_plans_are_listed_and_cached(gateway: Running) -> None:
    listed = gateway.ask("GET", "/v1/plans").json["plans"]
    assert [one["digest"] for one in listed] == [gateway.plan.digest]
    document = gateway.ask("GET", gateway.path)
    assert document.body == gateway.plan.to_bytes()
    assert "immutable" in document.headers["cache-control"]
    again = gateway.ask("GET", gateway.path, if_none_match=document.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    head = gateway.ask("HEAD", gateway.path)
    assert (head.status, head.body) == (200, b"")


def test_what_is_served_is_what_the_digest_is_of(tmp_path: Path) -> None:
    with running(tmp_path) as gateway:
        indented = json.dumps(json.loads(gateway.plan.to_bytes()), indent=2).encode()
        other = counting_plan(start=gateway.plan.start, windows=200)
        (tmp_path / "plans" / "plan.json").write_bytes(indented)
        (tmp_path / "plans" / "other.json").write_bytes(other.to_bytes())
        until("both are read", lambda: len(gateway.ask("GET", "/v1/plans").json["plans"]) == 2)
        for one in gateway.ask("GET", "/v1/plans").json["plans"]:
            document = gateway.ask("GET", f"/v1/plans/{one['digest']}").body
            assert hashlib.sha256(document).hexdigest() == one["digest"]


def test_a_plan_that_is_signed_again_replaces_the_former_certificate(tmp_path: Path) -> None:
    signed, root = signed_envelopes(present_plan(), 2)
    plans = tmp_path / "plans"
    plans.mkdir()
    with running(tmp_path, roots=(root,)) as gateway:
        (plans / "plan.json").write_bytes(signed[0])
        listed = until_listed(gateway)
        first = gateway.ask("GET", f"/v1/plans/{listed}")
        assert first.body == signed[0]
        assert first.headers["cache-control"] == "no-cache", "it may be signed again"
        (plans / "plan.json").write_bytes(signed[1])

        def again() -> Reply:
            etag = first.headers["etag"]
            return gateway.ask("GET", f"/v1/plans/{listed}", if_none_match=etag)

        until("the new certificate is served", lambda: again().body == signed[1])


def until_listed(gateway: Running) -> str:
    def others() -> list[str]:
        digests = [one["digest"] for one in gateway.ask("GET", "/v1/plans").json["plans"]]
        return [digest for digest in digests if digest != gateway.plan.digest]

    until("the signed plan is offered", lambda: bool(others()))
    return others()[0]


def signed_envelopes(plan: Plan, number: int) -> tuple[list[bytes], str]:
    root = keys.new_private_key()
    lineage = signed_lineage(keys.public_key(root), plan.name)
    raw = replace(plan, lineage=lineage, lineage_name=plan.name).to_bytes()
    now, envelopes = int(time.time()), []
    for _ in range(number):
        signing = keys.new_private_key()
        public = keys.public_key(root), keys.public_key(signing)
        statement = Statement(*public, plan.owner, now - 86_400, now + 86_400)
        envelopes.append(seal(signing, certify(root, statement), raw).to_bytes())
    return envelopes, keys.public_key(root)


def test_a_report_is_acknowledged_and_sent(gateway: Running, first: int) -> None:
    reply = gateway.ask(
        "POST",
        f"{gateway.path}/reports",
        line(gateway.plan, first),
        content_type="application/json; charset=utf-8",
    )
    assert (reply.status, reply.results) == (202, ["accepted"])
    until("the broker has it", lambda: first in gateway.values())


def test_the_first_bytes_of_an_id_win(gateway: Running, first: int) -> None:
    chosen = "ab" * 16
    assert gateway.report(line(gateway.plan, first, chosen)).results == ["accepted"]
    assert gateway.report(line(gateway.plan, first + 1, chosen)).results == ["duplicate"]
    twice = gateway.report(line(gateway.plan, first + 2), line(gateway.plan, first + 2))
    assert twice.results == ["accepted", "duplicate"]
    until("both are sent", lambda: {first, first + 2} <= set(gateway.values()))
    assert first + 1 not in gateway.values()


def test_one_bad_line_is_one_bad_line(gateway: Running, first: int) -> None:
    plan = gateway.plan
    other = json.loads(line(plan, first + 1))
    other["report"]["plan"] = "0" * 64
    extra = json.loads(line(plan, first + 2)) | {"more": 1}
    strange = json.loads(line(plan, first + 3))
    strange["report"]["columns"] = {"v": [True]}
    several = json.loads(line(plan, first + 4))
    several["report"] |= {"n": 2, "columns": {"v": [1, 2]}}
    present = plan.window_at(int(time.time() * 1000))
    reply = gateway.report(
        b"{",
        line(plan, first, "AB" * 16),
        json.dumps(other).encode(),
        json.dumps(extra).encode(),
        json.dumps(strange).encode(),
        json.dumps(several).encode(),
        line(plan, 4096, "01" * 16),
        line(plan, first, "02" * 16, present - 2),
        line(plan, first, "03" * 16, present + 5),
        line(plan, first, "04" * 16, 10**15),
        b"[]",
        b"null",
        b'{"id":"' + b"0" * 32 + b'","report":7}',
        line(plan, first),
    )
    assert reply.status == 202
    assert reply.results == [
        *("undecodable", "bad_report_id", "unknown_plan", "malformed", "malformed"),
        *("out_of_range", "out_of_range", "late", "early", "after_end"),
        *("malformed", "malformed", "undecodable", "accepted"),
    ]
    details = [one.get("detail") for one in reply.json["results"]]
    assert details[1] == "id: expected 32 lower-case hex digits"
    assert details[3] == "expected an object with the fields id and report"
    assert details[4] == "report: column v must be a list of integers"
    assert details[-1] is None


def test_a_request_without_any_report_to_take_is_no_success(gateway: Running, first: int) -> None:
    late = line(gateway.plan, first, period=-1)
    refused = gateway.report(late)
    assert (refused.status, refused.reason, refused.results) == (422, "refused", ["late"])
    assert gateway.report(b"{").reason == "not_json"
    assert gateway.report(b"").reason == "no_reports"
    assert gateway.report(b"\n \n").reason == "no_reports"


@pytest.mark.parametrize(
    ("method", "path", "headers", "reason", "status"),
    [
        ("GET", "/", {}, "not_found", 404),
        ("GET", "/v1/plans/", {}, "not_found", 404),
        ("GET", "/v1/plans/x/y", {}, "not_found", 404),
        ("GET", f"/v1/plans/{'0' * 64}", {}, "unknown_plan", 404),
        ("POST", f"/v1/plans/{'0' * 64}/reports", {}, "unknown_plan", 404),
        ("POST", "/v1/plans", {}, "method", 405),
        ("DELETE", "PLAN", {}, "method", 405),
        ("GET", "PLAN/reports", {}, "method", 405),
        ("POST", "PLAN/reports", {"content_type": "text/plain"}, "content_type", 415),
        ("POST", "PLAN/reports", {}, "content_type", 415),
        (
            "POST",
            "PLAN/reports",
            {"content_type": JSON_LINES, "content_encoding": "gzip"},
            "content_encoding",
            415,
        ),
    ],
)
def test_other_requests_get_a_problem_document(
    gateway: Running, method: str, path: str, headers: dict[str, str], reason: str, status: int
) -> None:
    body = b"{}" if method == "POST" else None
    reply = gateway.ask(method, path.replace("PLAN", gateway.path), body, **headers)
    assert (reply.reason, reply.status) == (reason, status)
    assert reply.json["type"] == f"urn:calmstream:problem:{reason}"
    assert reply.json["status"] == status
    assert reply.json["title"]


def test_a_huge_body_is_refused_before_it_is_read(gateway: Running) -> None:
    head = f"POST {gateway.path}/reports HTTP/1.1\r\nhost: x\r\ncontent-type: {JSON_LINES}\r\n"
    stated = gateway.raw(f"{head}content-length: 99999999999\r\n\r\n".encode())
    assert b" 413 " in stated.split(b"\r\n")[0]
    assert b'"too_large"' in stated


def send_on(connection: socket.socket, part: bytes, pause: float = 0.0) -> None:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        connection.sendall(part)
        time.sleep(pause)


def test_too_many_reports_are_refused_as_a_whole(gateway: Running) -> None:
    reply = gateway.report(*([b"{}"] * 1001))
    assert (reply.status, reply.reason) == (413, "too_many_reports")
    assert gateway.report(*([b""] * 5000)).reason == "too_many_reports"


def test_large_headers_are_refused(gateway: Running) -> None:
    request = b"GET /v1/plans HTTP/1.1\r\nhost: x\r\n"
    one = gateway.raw(request + b"x: " + b"a" * 20_000 + b"\r\n\r\n")
    many = gateway.raw(request + b"".join(b"x%d: y\r\n" % i for i in range(4000)) + b"\r\n")
    for answer in (one, many):
        assert b" 431 " in answer.split(b"\r\n")[0]
    with socket.create_connection(("127.0.0.1", gateway.gateway.port), SECONDS) as connection:
        connection.sendall(request + b"x: ")
        for _ in range(30):  # a header that never ends
            try:
                connection.sendall(b"a" * 1000)
            except OSError:
                break
            time.sleep(0.001)
        assert received(connection)[:12] in {b"HTTP/1.1 431", b""}


def test_what_is_not_http_gets_one_answer(gateway: Running) -> None:
    answer = gateway.raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")
    assert b" 400 " in answer.split(b"\r\n")[0]
    assert b'"not_http"' in answer


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"POST /v1/plans HTT",
        TRUNCATED,
    ],
)
def test_a_slow_or_truncated_request_is_cut(impatient: Running, sent: bytes) -> None:
    before = impatient.metric("calmstream_gateway_connections_cut_total")
    assert impatient.raw(sent.replace(b"PLAN", impatient.path.encode())) == b""
    until(
        "the cut is counted",
        lambda: impatient.metric("calmstream_gateway_connections_cut_total") > before,
    )


def test_a_request_that_trickles_in_is_cut(impatient: Running) -> None:
    with socket.create_connection(("127.0.0.1", impatient.gateway.port), SECONDS) as connection:
        connection.sendall(b"GET /v1/plans HTTP/1.1\r\nx: ")
        with pytest.raises(OSError, match=r"reset|[Bb]roken pipe"):
            send_on(connection, b"a", 0.1)


def test_the_same_report_sent_at_once_by_many_is_taken_once(gateway: Running, first: int) -> None:
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(lambda _: gateway.report(line(gateway.plan, first)), range(64)))
    assert {reply.status for reply in replies} == {202}
    assert sorted(r.results[0] for r in replies) == ["accepted", *["duplicate"] * 63]
    until("it is sent", lambda: first in gateway.values())
    assert gateway.values().count(first) == 1


def test_pages_of_other_origins_get_no_permission(gateway: Running, first: int) -> None:
    asked = {"access_control_request_method": "POST"}
    path = f"{gateway.path}/reports"
    known = gateway.ask("OPTIONS", path, origin=ORIGIN, **asked)
    assert known.status == 204
    assert known.headers["access-control-allow-origin"] == ORIGIN
    assert known.headers["access-control-allow-methods"] == "POST"
    assert "content-type" in known.headers["access-control-allow-headers"]
    assert int(known.headers["access-control-max-age"]) > 3600
    other = gateway.ask("OPTIONS", path, origin="https://other.example", **asked)
    assert not any(name.startswith("access-control") for name in other.headers)
    taken = gateway.report(line(gateway.plan, first), origin=ORIGIN)
    assert taken.headers["access-control-allow-origin"] == ORIGIN
    assert taken.headers["vary"] == "origin"
    assert "access-control-allow-origin" not in gateway.report(b"{", origin="null").headers


def test_the_log_names_an_origin_that_is_refused_once(
    gateway: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = structlog.testing.LogCapture()
    monkeypatch.setattr(gateway.gateway, "_log", structlog.wrap_logger(None, processors=[log]))
    path = f"/v1/plans/{gateway.plan.digest}/reports"
    for origin in (ORIGIN, "https://a.example", "https://a.example", "no origin", "null"):
        gateway.ask("OPTIONS", path, origin=origin)
    for number in range(30):
        gateway.ask("OPTIONS", path, origin=f"https://{number}.example")
    named = [entry["origin"] for entry in log.entries if "origin" in entry]
    assert named[0] == "https://a.example"
    assert len(named) == len(set(named)) <= 20, "nobody can fill the log"


def test_partitions_added_to_a_topic_stop_the_reports_and_lose_none(tmp_path: Path) -> None:
    with running(tmp_path) as gateway:
        gateway.broker.grow(names_of(gateway.plan).reports(0), gateway.plan.partitions + 3)
        sent: list[int] = []

        def refused() -> bool:
            reply = gateway.report(line(gateway.plan, len(sent)))
            sent.extend([len(sent)] if reply.status == 202 else [])
            return reply.status != 202 and reply.reason == "not_counted"

        until("reports are refused", refused)
        until("it says so", lambda: "the plan states" in gateway.why)
        until("all that was accepted is sent", lambda: gateway.values() == sent)


def keys_file(path: Path, *keys: tuple[int, str, int | None]) -> Path:
    entries = [
        {"number": number, "sha256": hashlib.sha256(key.encode()).hexdigest(), "per_window": quota}
        for number, key, quota in keys
    ]
    path.write_text(json.dumps({"v": "app-keys-1", "keys": entries}))
    return path


def test_application_keys_and_their_quotas(tmp_path: Path) -> None:
    path = keys_file(tmp_path / "keys.json", (1, "alpha", 3), (2, "beta", None), (4, "delta", 2))
    with running(tmp_path, app_keys=path) as gateway:

        def send(value: int, key: str, period: int | None = None) -> Reply:
            text = line(gateway.plan, value, period=period)
            return gateway.report(text, authorization=f"Bearer {key}")

        for headers in ({}, {"authorization": "Bearer gamma"}, {"authorization": "Basic alpha"}):
            reply = gateway.report(line(gateway.plan, 1), **headers)
            assert (reply.status, reply.reason) == (401, "unauthorized")
        assert gateway.ask("GET", "/v1/plans").status == 200, "plans are public"
        assert [send(value, "alpha").status for value in range(3)] == [202] * 3
        over = send(3, "alpha")
        assert (over.status, over.reason, over.results) == (429, "quota", ["quota"])
        assert 1 <= int(over.headers["retry-after"]) <= gateway.plan.window
        assert send(0, "alpha").results == ["duplicate"], "a repeat is no new report"
        assert send(3, "beta").status == 202, "keys have quotas of their own"
        three = [line(gateway.plan, value, f"{value:032x}") for value in range(3)]
        at_once = gateway.report(*three, authorization="Bearer delta")
        assert at_once.results == ["accepted", "accepted", "quota"]

        keys_file(path, (2, "beta", None), (3, "gamma", None))
        until("alpha is gone", lambda: send(4, "alpha").status == 401)
        assert send(5, "gamma").status == 202
        path.write_text("{")
        until(
            "the damage is seen",
            lambda: gateway.metric("calmstream_gateway_app_keys_refused") == 1,
        )
        assert send(6, "gamma").status == 202, "the former keys stay in force"


def test_reports_of_different_keys_do_not_leave_together(tmp_path: Path) -> None:
    path = keys_file(tmp_path / "keys.json", (1, "alpha", None), (2, "beta", None))
    with running(tmp_path, app_keys=path, min_batch=3) as gateway:
        for value in range(12):
            key = "alpha" if value < 5 else "beta"
            gateway.report(line(gateway.plan, value), authorization=f"Bearer {key}")
        until("some left", lambda: bool(gateway.values()))
        # The last three of a key wait for more: six are needed for any to leave.
        assert set(gateway.values()) <= set(range(5, 12)), "alpha has too few"
