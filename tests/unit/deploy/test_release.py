"""One version everywhere, workflows that can be read, and the image's own check of health."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from calmstream.common.clock import SystemClock
from calmstream.common.health import RoleHealth, health_app
from calmstream.common.http.server import ThreadServer
from tests.support.deploy import DEPLOY, ROOT, load
from tests.support.ports import free_port

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_every_file_states_the_version() -> None:
    edge, chart = ROOT / "edge" / "typescript", DEPLOY / "helm" / "calmstream" / "Chart.yaml"
    locked = json.loads((edge / "package-lock.json").read_text())
    stated = {
        json.loads((edge / "package.json").read_text())["version"],
        locked["version"],
        locked["packages"][""]["version"],
        load(chart)["version"],
        load(chart)["appVersion"],
        load(ROOT / "CITATION.cff")["version"],
    }
    assert stated == {VERSION}
    latest = re.findall(r"^## \[(.*?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert latest[:2] == ["Unreleased", VERSION]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_can_be_read_and_trusts_no_tag(path: Path) -> None:
    document: dict[Any, Any] = load(path)
    # YAML 1.1 reads the word `on` as true.
    assert set(document) <= {"name", True, "permissions", "concurrency", "jobs"}
    assert document["permissions"] == {"contents": "read"}
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for job in document["jobs"].values():
        assert {"runs-on", "timeout-minutes", "steps"} <= set(job)
        for step in job["steps"]:
            assert len({"uses", "run"} & set(step)) == 1, step
            if "uses" in step:
                assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"]), step
                continue
            subprocess.run(["bash", "-n", "-c", step["run"]], check=True, timeout=60)
            assert set(re.findall(r"^make ([a-z-]+)", step["run"])) <= targets


def image_check(port: int) -> int:
    """Run the command of the image's HEALTHCHECK; return its exit code."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", "")
    (command,) = re.findall(r"^HEALTHCHECK .* CMD (\[.*\])$", text, re.MULTILINE)
    environment = {"CALMSTREAM_HTTP_PORT": str(port), "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        json.loads(command), env=environment, capture_output=True, timeout=60, check=False
    ).returncode


@pytest.mark.parametrize("why", ["", "stuck"])
def test_the_image_is_healthy_where_the_process_lives(why: str) -> None:
    role = RoleHealth("tally", SystemClock())
    role.stuck(why)
    server = ThreadServer(health_app(CollectorRegistry(), [role]), "127.0.0.1", 0, "tests")
    try:
        assert (image_check(server.port) == 0) is not bool(why)
    finally:
        server.close()
    assert image_check(free_port()) != 0
