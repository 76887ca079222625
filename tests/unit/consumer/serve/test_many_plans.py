"""Several plans of one server: they come and go, and a fault of one is not another's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from calmstream.broker.topic_watch import TopicWatch
from calmstream.consumer.serve.plan_service import PlanService
from calmstream.consumer.serve.server import ResultsServer
from calmstream.estimators.plan import Plan
from tests.support.publisher import Bench, published_plan, work
from tests.support.serving import DEADLINE, running, wait_for


def published(bench: Bench, name: str) -> Plan:
    plan = published_plan(groups=3, name=name)
    other = Bench(plan, beside=bench)
    for log in other.logs:
        log.report(0, 0, 1, 2, 3).close(0)
    other.put_all()
    work(other.publication())
    return plan


@pytest.fixture
def wanted() -> dict[str, Plan]:
    return {}


@pytest.fixture
def bench() -> Bench:
    return Bench(published_plan(groups=3))


@pytest.fixture
def server(bench: Bench, wanted: dict[str, Plan]) -> Iterator[ResultsServer]:
    with running(wanted, bench.broker, bench.names.namespace) as (server, _):
        yield server


def test_plans_come_and_go(server: ResultsServer, bench: Bench, wanted: dict[str, Plan]) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=DEADLINE) as client:
        assert client.get("/v1/plans").json() == {"plans": []}
        wait_for(lambda: server.health.readiness().well)
        first, second = (published(bench, name) for name in ("first", "second"))
        lost = replace(published_plan(groups=3), name="lost")  # is over, and has no topics
        for plan in (first, second, lost):
            wanted[plan.digest] = plan
        for name in ("first", "second"):
            path = f"/v1/plans/{name}/tables?attributes=a0"
            wait_for(lambda path=path: client.get(path).status_code == 200)
        names = [one["name"] for one in client.get("/v1/plans").json()["plans"]]
        assert names == ["first", "lost", "second"]
        # The lost plan has a reason of its own, and keeps nobody from the others.
        wait_for(lambda: "its results are gone" in client.get("/v1/plans/lost/windows").text)
        assert client.get("/v1/plans/lost/windows").status_code == 410
        wait_for(lambda: server.health.readiness().well)  # the next turn of the server says so
        del wanted[first.digest]
        wait_for(lambda: client.get("/v1/plans/first").status_code == 404)
        assert client.get("/v1/plans/second/tables?attributes=a1").status_code == 200
        wanted[first.digest] = first
        path = "/v1/plans/first/tables?attributes=a0"
        wait_for(lambda: client.get(path).status_code == 200)
        del wanted[first.digest], wanted[second.digest]
        wait_for(lambda: not server.health.readiness().well)
        assert "plan lost" in server.health.readiness().detail


def test_the_server_knows_the_age_of_the_last_answer_that_any_plan_got(
    server: ResultsServer, bench: Bench, wanted: dict[str, Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        plan = published(bench, name)
        wanted[plan.digest] = plan
    wait_for(lambda: len(server.plans) == 2)
    ages = {"first": 40.0, "second": 0.0}
    monkeypatch.setattr(TopicWatch, "silent_seconds", lambda _: 40.0)
    wait_for(lambda: server.health.silent_seconds == 40)
    assert server.health.readiness().detail == "no broker has answered for 40 s"
    monkeypatch.setattr(PlanService, "silent_seconds", lambda one: ages[one.plan.name])
    assert server.health.silent_seconds == 0
    wait_for(lambda: server.health.readiness().well)
