from __future__ import annotations

import urllib.error
import urllib.request
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter

from consumer.clock import ManualClock
from consumer.health import HealthServer, RoleHealth, health_app


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


def test_a_partition_that_stands_still_is_not_live(roles: list[RoleHealth]) -> None:
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
        with urllib.request.urlopen(f"{base}/metrics", timeout=5) as answer:
            assert b"calmstream_test_total 3.0" in answer.read()
        with urllib.request.urlopen(f"{base}/livez", timeout=5) as answer:
            assert answer.status == 200
        for path, code in (("/readyz", 503), ("/other", 404)):
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(base + path, timeout=5)
            assert caught.value.code == code
    finally:
        server.close()
