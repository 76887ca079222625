"""Check that shell scripts parse, and that the check of the image copies the same files."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.support.deploy import ROOT

SCRIPTS = [
    "deploy/check-image.sh",
    "deploy/helm/render.sh",
    ".ci/run",
    "tests/containers/bases.sh",
    "tests/containers/images.sh",
    "tests/containers/kafka/bin/kafka-storage",
    *(f"tests/containers/kafka/docker/{name}" for name in ("configure", "launch", "run")),
]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_parses_and_may_be_run(name: str) -> None:
    subprocess.run(["bash", "-n", str(ROOT / name)], check=True)
    assert (ROOT / name).stat().st_mode & 0o100


def test_the_image_gets_every_package_and_nothing_else_of_the_checkout() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    copied = " ".join(re.findall(r"^COPY ([^-].*) \S+$", dockerfile, re.MULTILINE)).split()
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "benchmarks"}
    assert packages <= set(copied)
    allowed = (ROOT / ".dockerignore").read_text().split()
    assert {f"!{name}" for name in copied} <= set(allowed)
    # The check takes its list from the same lines by the same rule.
    script = (ROOT / "deploy" / "check-image.sh").read_text()
    assert r"s/^COPY \([^-].*\) [^ ]*$/\1/p" in script


def test_the_chart_and_the_image_agree_on_user_and_port() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert "USER 10001" in dockerfile
    assert "EXPOSE 9464" in dockerfile
