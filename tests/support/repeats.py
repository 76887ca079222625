"""How often a test repeats: in the gate, and in `make test-long`, which runs by hand."""

from __future__ import annotations

import os
from typing import Any

import pytest


def repeats(gate: int, long: int) -> int:
    return long if os.environ.get("CALMSTREAM_TEST_LONG") == "1" else gate


def parts(fast: int, gate: int, long: int) -> list[Any]:
    """Return the parts of a long test; those after the first ``fast`` ones are slow."""
    slow = range(fast, repeats(gate, long))
    return [*range(fast), *(pytest.param(part, marks=pytest.mark.slow) for part in slow)]
