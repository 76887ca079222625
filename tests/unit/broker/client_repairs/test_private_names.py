"""Check the list of the Kafka client's private names that the product uses.

It must be complete; a name that a new client lacks must give a clear error.
"""

from __future__ import annotations

import ast
import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from calmstream.broker.kafka import client_repairs, connect
from calmstream.broker.kafka.client_repairs import private_names
from calmstream.broker.kafka.client_repairs.private_names import (
    CLIENT_VERSION,
    PRIVATE_NAMES,
    check_private_names,
)
from calmstream.common.errors import FatalError

ROOT = Path(__file__).parents[4]
MODULES = sorted(Path(client_repairs.__file__).parent.glob("*.py"))
LISTED = {name for names in PRIVATE_NAMES.values() for name in names}


def test_the_installed_client_has_every_private_name() -> None:
    check_private_names()


def test_the_pinned_version_is_the_one_that_the_repairs_are_for() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins = [
        requirement
        for extra in extras["optional-dependencies"].values()
        for requirement in extra
        if requirement.startswith("kafka-python")
    ]
    assert len(pins) >= 3
    assert set(pins) == {f"kafka-python=={CLIENT_VERSION}"}
    lock = (ROOT / "requirements.lock").read_text().splitlines()
    (locked,) = [line.split()[0] for line in lock if line.startswith("kafka-python==")]
    assert locked.removeprefix("kafka-python==") == CLIENT_VERSION == version("kafka-python")


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_every_private_name_in_use_is_listed(module: Path) -> None:
    """Names of foreign objects; ``self._x`` is a name of the module's own class."""
    used = {
        node.attr
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Attribute)
        and re.match(r"_[^_]", node.attr)
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "argparse"))
    }
    assert used <= LISTED


@pytest.mark.parametrize(
    ("path", "missing"),
    [
        ("kafka.cluster:ClusterMetadata", "kafka.cluster.ClusterMetadata._gone"),
        ("kafka.cluster:Gone", "kafka.cluster.Gone"),
        ("kafka.gone:Gone", "kafka.gone.Gone"),
    ],
)
def test_a_missing_name_is_a_clear_error(path: str, missing: str) -> None:
    with pytest.raises(FatalError) as raised:
        check_private_names({path: ("config", "_gone")})
    message = str(raised.value)
    assert missing in message
    assert f"kafka-python {version('kafka-python')}" in message
    assert f"expected version {CLIENT_VERSION}" in message


def test_a_broker_is_not_reached_with_a_client_that_lacks_a_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def check() -> None:
        check_private_names({"kafka.cluster:ClusterMetadata": ("_gone",)})

    assert private_names.check_private_names is check_private_names
    monkeypatch.setattr("calmstream.broker.kafka.broker.check_private_names", check)
    with pytest.raises(FatalError, match="_gone"):
        connect("127.0.0.1:1", connect_seconds=0.1)
