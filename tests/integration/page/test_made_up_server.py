"""The server with made-up plans, on which the page is tested, answers as the real one does."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from calmstream.consumer.serve import schemas
from calmstream.consumer.serve.guard import POLICY
from tests.support.serving import DEADLINE, filled, serving_bench
from tests.support.typescript.package import PAGE

TOKEN = "0123456789abcdef"


@contextmanager
def made_up(*arguments: str) -> Iterator[httpx.Client]:
    program = PAGE.built() / "test" / "made_up.tool.mjs"
    process = subprocess.Popen(
        ["node", str(program), *arguments],
        cwd=PAGE.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        with httpx.Client(base_url=process.stdout.readline().strip(), timeout=DEADLINE) as client:
            yield client
    finally:
        process.kill()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]
        process.stdin.close()  # type: ignore[union-attr]


@pytest.fixture(scope="module", params=["made-up", "real"])
def client(request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    if request.param == "made-up":
        with made_up() as found:
            yield found
    else:
        with serving_bench(filled()) as server:
            yield server.client


def _first_plan(client: httpx.Client) -> dict[str, Any]:
    plan: dict[str, Any] = client.get("/v1/plans").json()["plans"][0]
    whole: dict[str, Any] = client.get(f"/v1/plans/{plan['name']}").json()
    return whole


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        ("", schemas.WholePlan),
        ("/windows?limit=2", schemas.PlanWindowList),
        ("/tables?attributes={one}", schemas.TableAnswer),
        ("/tables?attributes={one}&windows=latest", schemas.TableAnswer),
        ("/tables?attributes={one}&windows=1..2", schemas.TableAnswer),
        ("/tables?attributes={one}&windows=2&minus=1", schemas.TableAnswer),
        ("/tables?attributes={one}&attributes={two}&given={one}", schemas.TableAnswer),
        ("/series?attributes={one}&windows=last:2", schemas.SeriesAnswer),
        ("/summaries?attributes={one}", schemas.SummaryAnswer),
        ("/summaries?attributes={one}&attributes={two}&given={two}", schemas.SummaryAnswer),
        ("/associations?windows=total", schemas.AssociationAnswer),
        ("/changes", schemas.ChangesAnswer),
        ("/changes?window=2&against=before", schemas.ChangesAnswer),
    ],
)
def test_answers_have_the_published_form(
    client: httpx.Client, path: str, schema: type[BaseModel]
) -> None:
    plan = _first_plan(client)
    one, two = (attribute["name"] for attribute in plan["attributes"][:2])
    answer = client.get(f"/v1/plans/{plan['name']}{path.format(one=one, two=two)}")
    assert answer.status_code == 200
    schema.model_validate_json(answer.content, strict=True)
    assert answer.headers["content-security-policy"] == POLICY


def test_a_made_up_plan_of_numbers_has_the_published_form() -> None:
    with made_up() as client:
        plan = client.get("/v1/plans/numbers").content
        found = schemas.WholePlan.model_validate_json(plan, strict=True)
        assert {one.kind for one in found.attributes} == {"number", "ordered", "option", None}
        asked = {"attributes": "latency,region", "given": "region", "statistics": "mean,q0.9"}
        answer = client.get("/v1/plans/numbers/summaries", params=asked)
        rows = schemas.SummaryAnswer.model_validate_json(answer.content, strict=True).rows
        assert len(rows) == 6


def test_the_list_of_plans_has_the_published_form(client: httpx.Client) -> None:
    schemas.Plans.model_validate_json(client.get("/v1/plans").content, strict=True)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("nowhere", 404),
        ("{plan}/nothing", 404),
        ("{plan}/tables?attributes=nothing", 422),
        ("{plan}/tables?attributes={one}&windows=never", 400),
        ("{plan}/tables?attributes={one}&windows=9999", 404),
    ],
)
def test_refusals_have_the_same_status(client: httpx.Client, path: str, status: int) -> None:
    plan = _first_plan(client)
    one = plan["attributes"][0]["name"]
    answer = client.get("/v1/plans/" + path.format(plan=plan["name"], one=one))
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["title"]


def test_events_begin_with_hello(client: httpx.Client) -> None:
    plan = _first_plan(client)
    with client.stream("GET", f"/v1/plans/{plan['name']}/events") as stream:
        lines = stream.iter_lines()
        assert next(lines) == "event: hello"
        assert next(lines).startswith('data: {"newest":')


def test_a_differences_windows_are_those_asked_for(client: httpx.Client) -> None:
    plan = _first_plan(client)
    one = plan["attributes"][0]["name"]
    answer = client.get(f"/v1/plans/{plan['name']}/tables?attributes={one}&windows=2&minus=1")
    spans = [(w["first"], w["last"], w["total"]) for w in answer.json()["windows"]]
    assert spans == [(2, 2, False), (1, 1, False)]
    assert "difference" in answer.json()["flags"]


def test_both_refuse_without_a_token() -> None:
    with made_up("--token", TOKEN) as client, serving_bench(filled(), token=TOKEN) as server:
        for one in (client, server.client):
            assert one.get("/v1/plans").status_code == 401
            headers = {"authorization": f"Bearer {TOKEN}"}
            assert one.get("/v1/plans", headers=headers).status_code == 200
            assert one.get("/").status_code == 200
