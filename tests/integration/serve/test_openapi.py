"""Requests against the published OpenAPI document: every answer is one that it states."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import checks

from tests.support.serving import Serving, filled, serving_bench

CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
EXAMPLES = 40
SECONDS = 60.0
GOOD = (
    ("/v1/plans", {}),
    ("/v1/plans/{name}", {}),
    ("/v1/plans/{name}/windows", {"limit": 2}),
    ("/v1/plans/{name}/tables", {"attributes": ["a0", "a2"], "given": ["a0"]}),
    ("/v1/plans/{name}/tables", {"attributes": ["a0"], "windows": "2", "minus": "0..1"}),
    ("/v1/plans/{name}/tables", {"attributes": ["a0"], "format": "csv"}),
    ("/v1/plans/{name}/tables", {"attributes": ["a0"], "format": "arrow"}),
    ("/v1/plans/{name}/series", {"attributes": ["a0"]}),
    ("/v1/plans/{name}/series", {"attributes": ["a0", "a1"], "group": "a1=1|0"}),
    ("/v1/plans/{name}/associations", {"windows": "latest"}),
    ("/v1/plans/{name}/changes", {}),
    ("/v1/plans/{name}/changes", {"window": "2", "against": "before"}),
)


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    with serving_bench(filled(), heartbeat_seconds=0.1) as found:
        yield found


@pytest.fixture(scope="module")
def openapi(serving: Serving) -> Any:
    # A stream of events has no end; test_live.py reads one.
    found = schemathesis.openapi.from_url(f"{serving.address}/openapi.json")
    return found.exclude(path_regex="/events$")


@pytest.mark.parametrize(("path", "query"), GOOD)
def test_answers_are_as_described(
    serving: Serving, openapi: Any, path: str, query: dict[str, Any]
) -> None:
    case = openapi[path]["GET"].Case(
        path_parameters={"name": serving.service.plan.name} if "{name}" in path else {},
        query=query,
    )
    found = case.call(timeout=SECONDS)
    assert found.status_code == 200, found.text
    case.validate_response(found, checks=CHECKS)


def test_a_client_can_be_generated(serving: Serving, tmp_path: Path) -> None:
    pytest.importorskip("openapi_python_client")
    (tmp_path / "openapi.json").write_bytes(serving.client.get("/openapi.json").content)
    (tmp_path / "config.yaml").write_text("post_hooks: []\nproject_name_override: client\n")
    tool = [sys.executable, "-m", "openapi_python_client", "generate", "--path", "openapi.json"]
    done = subprocess.run(
        [*tool, "--config", "config.yaml", "--fail-on-warning"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    script = (
        "from calmstream_client import Client\n"
        "from calmstream_client.api.default import tables_v1_plans_name_tables_get as tables\n"
        "import sys\n"
        "found = tables.sync('none', client=Client(base_url=sys.argv[1]), attributes=['a'])\n"
        "print(type(found).__name__, found.reason)\n"
    ).replace("calmstream_client", next(tmp_path.glob("client/*/api")).parent.name)
    asked = subprocess.run(
        [sys.executable, "-c", script, serving.address],
        cwd=tmp_path / "client",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert asked.stdout.split() == ["ProblemDocument", "unknown_plan"], asked.stderr


@pytest.mark.slow
@pytest.mark.parametrize("real", [False, True])
def test_generated_requests_get_described_answers(
    serving: Serving, openapi: Any, real: bool
) -> None:
    """Check invented parameters, and invented ones beside the plan's own attributes."""
    answers: set[int] = set()

    def check(case: Any) -> None:
        if "name" in case.path_parameters:
            case.path_parameters["name"] = serving.service.plan.name
        if real and "attributes" in (case.query or {}):
            number = len(case.query["attributes"])
            case.query = {**case.query, "attributes": ["a0", "a1", "a2"][: 1 + number % 3]}
        found = case.call(timeout=SECONDS)
        answers.add(found.status_code)
        case.validate_response(found, checks=CHECKS)

    for operation in openapi.get_all_operations():
        rules = settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        rules(given(case=operation.ok().as_strategy())(check))()
    assert {200, 400, 404, 422} >= answers >= {200, 400}
