"""The packages of a release work in empty environments, and two builds of them are equal."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from pathlib import Path

import pytest

from tests.support.runs import ran

ROOT = Path(__file__).parents[3]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


def made(*command: str, **variables: str) -> str:
    return ran(*command, seconds=1200, cwd=ROOT, env={**os.environ, **variables}).stdout


def test_packages_are_reproducible_complete_and_usable(tmp_path: Path) -> None:
    dist = tmp_path / "dist"
    said = made("make", "release", f"ARGS=--twice --packages --out {dist}")
    assert "two builds are equal" in said
    (sdist,), (wheel,) = dist.glob("calmstream-*.tar.gz"), dist.glob("*.whl")
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    assert {"calmstream/producer/device/reporter.py", "calmstream/py.typed", "LICENSE"} <= names
    for line in (dist / "SHA256SUMS").read_text().splitlines():
        digest, _, name = line.partition("  ")
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == digest
    bills = {path.name: json.loads(path.read_text()) for path in dist.glob("*.cdx.json")}
    assert all(bill["bomFormat"] == "CycloneDX" for bill in bills.values())
    version = wheel.name.split("-")[1]
    listed = {one["name"] for one in bills[f"calmstream-{version}.cdx.json"]["components"]}
    assert {"numpy", "orjson", "cryptography", "kafka-python", "starlette"} <= listed
    said = made(
        ".venv-release/bin/python", "deploy/release/install.py", "--short", "--dist", str(dist)
    )
    assert "wheel alone" in said
    assert "npm package" in said
