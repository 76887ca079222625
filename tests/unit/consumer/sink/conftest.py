"""A place of each kind of target."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.sink.targets import KINDS, Place, place


@pytest.fixture(params=KINDS)
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    needs = request.param == "postgresql"
    server = request.getfixturevalue("postgres_server") if needs else None
    return place(request.param, tmp_path, server)
