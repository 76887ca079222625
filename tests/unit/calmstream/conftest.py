"""Shared by the tests of the command line: a data dictionary in a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.plans import CRASHES


@pytest.fixture
def dictionary(tmp_path: Path) -> Path:
    path = tmp_path / "domain.json"
    path.write_text(json.dumps(CRASHES))
    return path
