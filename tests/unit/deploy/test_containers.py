"""Check the files that build and run containers, without a container engine."""

from __future__ import annotations

import re
from typing import Any

from tests.support.deploy import DEPLOY, ROOT, load

CONTAINERS = ROOT / "tests" / "containers"
COMPOSE: dict[str, Any] = load(DEPLOY / "compose.yaml")["services"]
LOCAL: dict[str, Any] = load(DEPLOY / "compose.local.yaml")["services"]
BUILT = re.findall(r"--tag (calmstream\S*:\S+?)[\s\"]", (CONTAINERS / "images.sh").read_text())


def test_everything_that_the_image_installs_or_builds_with_is_locked_by_hash() -> None:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    steps = [step for line in text.splitlines() for step in line.split("&&") if "bin/pip" in step]
    assert len(steps) == 4
    for step in steps:
        assert "--require-hashes" in step or "--no-deps" in step, step
    assert "--no-build-isolation" in text, "the backend of another version would be fetched"
    lock = (ROOT / "requirements-build.lock").read_text()
    assert re.findall(r"^(\w+)==\d+", lock, re.MULTILINE) == ["setuptools"]
    assert "--hash=sha256:" in lock


def test_the_image_has_what_every_command_needs() -> None:
    text = (ROOT / "requirements.lock").read_text()
    locked = set(re.findall(r"^([\w.-]+)==", text, re.MULTILINE))
    assert {"starlette", "kafka-python", "psycopg", "psycopg-binary", "pyarrow"} <= locked


def test_local_images_replace_every_image_and_none_is_pulled() -> None:
    assert set(LOCAL) == set(COMPOSE)
    for name, service in LOCAL.items():
        if "profiles" not in service:
            assert service["pull_policy"] == "never", name
            assert service["image"] in BUILT, name
    assert LOCAL["grafana"] == {"profiles": ["grafana"]}, "no image of it is built"
