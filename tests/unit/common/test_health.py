from __future__ import annotations

import socket
import urllib.error
import urllib.request
from contextlib import closing, suppress
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter

from calmstream.cli import main
from calmstream.common.health import RoleHealth, health_app
from calmstream.common.http.server import ThreadServer
from tests.support.clock import ManualClock

SECONDS = 60.0  # how long a client waits for the server, which may get no processor for a while


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def roles(clock: ManualClock) -> list[RoleHealth]:
    return [RoleHealth("tally", clock), RoleHealth("publish", clock)]


def ask(app: Any, path: str) -> tuple[int, str]:
    answer = app(path, "")
    return answer.status, answer.body.decode()


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
    roles[1].ready()
    roles[0].troubled({"two": "quarantined"})
    assert ask(app, "/readyz") == (200, "tally: ready\n  two: quarantined\npublish: ready\n")


def get(server: ThreadServer, path: str, host: str = "127.0.0.1") -> tuple[int, str]:
    url = f"http://{host}:{server.port}{path}"
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


def test_served_over_http_on_loopback(roles: list[RoleHealth]) -> None:
    registry = CollectorRegistry()
    Counter("calmstream_test_total", "a test", registry=registry).inc(3)
    with closing(ThreadServer(health_app(registry, roles), "127.0.0.1", 0, "tests")) as server:
        assert "calmstream_test_total 3.0" in get(server, "/metrics")[1]
        for path, code in (("/livez", 200), ("/readyz", 503), ("/other", 404)):
            assert get(server, path)[0] == code


@pytest.mark.parametrize("host", ["::", "::1", "0.0.0.0", "127.0.0.1", "localhost"])
def test_every_address_is_taken(
    roles: list[RoleHealth], host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if ":" in host and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    monkeypatch.setenv("CALMSTREAM_HTTP_HOST", host)
    with closing(ThreadServer(health_app(CollectorRegistry(), roles), host, 0, "tests")) as server:
        for at in {"::": ["127.0.0.1", "[::1]"], "::1": ["[::1]"]}.get(host, ["127.0.0.1"]):
            assert get(server, "/livez", at)[0] == 200
        assert main(["health", "--http-port", str(server.port)]) == 0


def has_ipv6() -> bool:
    with suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


def test_a_defect_of_the_application_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    app: Any = lambda *_: 1 // 0  # noqa: E731
    with closing(ThreadServer(app, "127.0.0.1", 0, "tests")) as server:
        assert get(server, "/")[0] == 500
    assert "ZeroDivisionError" in capsys.readouterr().out
