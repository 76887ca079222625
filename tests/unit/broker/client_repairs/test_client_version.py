"""Check that only the pinned version of the Kafka client is used."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from calmstream.broker.kafka import client_repairs, connect
from calmstream.broker.kafka.client_repairs import CLIENT_VERSION
from calmstream.common.errors import FatalError

ROOT = Path(__file__).parents[4]


def test_the_pinned_version_is_the_one_that_the_repairs_are_for() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins = [
        requirement
        for extra in extras["optional-dependencies"].values()
        for requirement in extra
        if requirement.startswith("kafka-python")
    ]
    assert set(pins) == {f"kafka-python=={CLIENT_VERSION}"}
    lock = (ROOT / "requirements.lock").read_text().splitlines()
    (locked,) = [line.split()[0] for line in lock if line.startswith("kafka-python==")]
    assert locked.removeprefix("kafka-python==") == CLIENT_VERSION == version("kafka-python")


def test_a_broker_is_not_reached_with_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_repairs, "version", lambda _: "3.1.0")
    with pytest.raises(FatalError, match=f"expected version {CLIENT_VERSION}"):
        connect("127.0.0.1:1", connect_seconds=0.1)


def test_every_repair_has_its_report_for_the_maintainers() -> None:
    reports = (ROOT / "docs/upstream/README.md").read_text()
    folder = Path(client_repairs.__file__).parent
    modules = [
        path for path in folder.glob("*.py") if path.stem not in {"__init__", "missing_calls"}
    ]
    text = "".join(path.read_text() for path in modules)
    repairs = re.findall(r"^def ([a-z]\w+)", text, re.MULTILINE)
    assert len(repairs) > 10
    assert [name for name in repairs if f"`{name}`" not in reports] == []
