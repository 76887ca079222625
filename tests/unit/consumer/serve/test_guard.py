"""Names, origins, tokens, methods and headers: what passes, and what every answer carries."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from calmstream.common.errors import InvalidInput
from calmstream.consumer.read.history import History
from calmstream.consumer.serve.guard import POLICY
from tests.support.publisher import Bench
from tests.support.serving import Serving, filled, serving_bench

TOKEN = "0123456789abcdef0123456789abcdef"
FRIEND = "https://friend.example"


@pytest.fixture(scope="module")
def bench() -> Bench:
    return filled(windows=1)


@pytest.fixture(scope="module")
def guarded(bench: Bench) -> Iterator[Serving]:
    with serving_bench(bench, token=TOKEN, hosts=("results.example",), origins=(FRIEND,)) as found:
        yield found


def test_results_need_the_token(guarded: Serving) -> None:
    for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {TOKEN}"}):
        for path in ("/v1/plans", "/v1/plans/other", "/v1/nothing"):
            found = guarded.client.get(path, headers=headers)
            assert found.status_code == 401
            assert found.headers["www-authenticate"] == "Bearer"
            assert found.json()["type"] == "urn:calmstream:problem:unauthorized"
    good = {"authorization": f"bearer {TOKEN}"}
    assert guarded.client.get("/v1/plans", headers=good).status_code == 200
    # The page asks for the token itself.
    assert guarded.client.get("/").status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("localhost:1234", 200),
        ("[::1]:80", 200),
        ("RESULTS.example:8090", 200),
        ("evil.example", 421),
        ("results.example.evil.example", 421),
        ("evil.example:80@localhost", 421),
        ("", 421),
    ],
)
def test_the_server_answers_to_its_own_names(guarded: Serving, host: str, status: int) -> None:
    found = guarded.client.get("/", headers={"host": host})
    assert found.status_code == status


def test_only_known_origins_may_ask(guarded: Serving) -> None:
    ask = {"authorization": f"Bearer {TOKEN}"}
    friend = guarded.client.get("/v1/plans", headers={**ask, "origin": FRIEND})
    assert friend.status_code == 200
    assert friend.headers["access-control-allow-origin"] == FRIEND
    own = guarded.client.get("/v1/plans", headers={**ask, "origin": guarded.address})
    assert own.status_code == 200
    assert "access-control-allow-origin" not in own.headers
    for origin in ("https://evil.example", "null", f"{FRIEND}.evil.example", "http://localhost:1"):
        found = guarded.client.get("/v1/plans", headers={**ask, "origin": origin})
        assert found.status_code == 403
        assert "access-control-allow-origin" not in found.headers


def test_a_browser_may_ask_beforehand(guarded: Serving) -> None:
    found = guarded.client.options(
        "/v1/plans",
        headers={
            "origin": FRIEND,
            "access-control-request-method": "GET",
            "access-control-request-headers": "authorization",
        },
    )
    assert found.status_code == 204
    assert found.headers["access-control-allow-origin"] == FRIEND
    assert "authorization" in found.headers["access-control-allow-headers"]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_nothing_can_be_written(guarded: Serving, method: str) -> None:
    found = guarded.client.request(
        method, "/v1/plans", headers={"authorization": f"Bearer {TOKEN}"}
    )
    assert found.status_code == 405
    assert found.headers["allow"] == "GET, HEAD"


def test_every_answer_has_the_policy(guarded: Serving) -> None:
    for path in ("/", "/v1/plans", "/assets/none.js"):
        headers = guarded.client.get(path).headers
        assert headers["content-security-policy"] == POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers


@pytest.mark.parametrize(
    "options", [{"hosts": ("http://x",)}, {"hosts": ("*",)}, {"origins": ("friend.example",)}]
)
def test_impossible_names_are_refused_at_the_start(
    bench: Bench, options: dict[str, object]
) -> None:
    with pytest.raises(InvalidInput, match="--allow-"), serving_bench(bench, **options):
        pass


def test_too_many_requests_at_once_are_refused(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, gate = threading.Event(), threading.Event()

    def slow(*_: object, **__: object) -> None:
        asked.set()
        gate.wait(60)

    with serving_bench(bench, max_requests=1) as small:
        monkeypatch.setattr(History, "ask", slow)
        question = threading.Thread(target=small.get, args=("/tables?attributes=a0",))
        question.start()
        assert asked.wait(60)
        found = small.get("")
        gate.set()
        question.join()
        assert found.status_code == 503
        assert found.headers["retry-after"] == "1"
