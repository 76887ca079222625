"""What fuzzing has found, and the examples it begins with, keep every promise (`tests/fuzz`)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fuzz.corpus import inputs
from tests.fuzz.targets import TARGETS, stop_servers


@pytest.fixture(scope="module", autouse=True)
def _ended() -> Iterator[None]:
    yield
    stop_servers()


@pytest.mark.parametrize("name", TARGETS)
def test_every_input_keeps_the_promises(name: str) -> None:
    found = inputs(name)
    assert found
    for raw in found:
        TARGETS[name][0](raw)
