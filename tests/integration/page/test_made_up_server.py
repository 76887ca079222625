"""The server with made-up plans, on which the page is tested, answers as the real one does."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

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


@pytest.fixture(scope="module")
def both() -> Iterator[list[httpx.Client]]:
    with made_up() as client, serving_bench(filled()) as server:
        yield [client, server.client]


def _first_plan(client: httpx.Client) -> dict[str, Any]:
    plan: dict[str, Any] = client.get("/v1/plans").json()["plans"][0]
    whole: dict[str, Any] = client.get(f"/v1/plans/{plan['name']}").json()
    return whole


def _forms(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield the places of a JSON value with their types; an empty one says nothing of its parts."""
    if not value and (value is None or isinstance(value, dict | list)):
        yield place, ""
    elif isinstance(value, dict):
        for name, part in value.items():
            # Rejections are by reason.
            yield from _forms(part, place if place.endswith(".rejected") else f"{place}.{name}")
    elif isinstance(value, list):
        for part in value:
            yield from _forms(part, f"{place}[]")
    else:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        yield place, "number" if number else type(value).__name__


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/windows?limit=2",
        "/tables?attributes={one}&windows=1..2",
        "/tables?attributes={one}&windows=2&minus=1",
        "/tables?attributes={one}&attributes={two}&given={one}",
        "/series?attributes={one}&windows=last:2",
        "/associations?windows=total",
        "/changes?window=2&against=before",
    ],
)
def test_answers_of_both_have_one_form(both: list[httpx.Client], path: str) -> None:
    found = []
    for client in both:
        plan = _first_plan(client)
        one, two = (attribute["name"] for attribute in plan["attributes"][:2])
        answer = client.get(f"/v1/plans/{plan['name']}{path.format(one=one, two=two)}")
        assert answer.status_code == 200
        assert answer.headers["content-security-policy"] == POLICY
        found.append(dict(_forms(answer.json())))
    made, real = found
    unknown = tuple(place for place, kind in real.items() if not kind)
    for place, kind in made.items():
        if kind and not place.startswith(unknown):
            assert real.get(place) == kind, place


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
def test_refusals_have_the_same_status(both: list[httpx.Client], path: str, status: int) -> None:
    for client in both:
        plan = _first_plan(client)
        one = plan["attributes"][0]["name"]
        answer = client.get("/v1/plans/" + path.format(plan=plan["name"], one=one))
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["title"]


def test_both_refuse_without_a_token() -> None:
    with made_up("--token", TOKEN) as client, serving_bench(filled(), token=TOKEN) as server:
        for one in (client, server.client):
            assert one.get("/v1/plans").status_code == 401
            headers = {"authorization": f"Bearer {TOKEN}"}
            assert one.get("/v1/plans", headers=headers).status_code == 200
            assert one.get("/").status_code == 200
