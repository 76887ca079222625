"""How often a test repeats: in the gate, and in `make test-long`, which runs by hand."""

from __future__ import annotations

import os

LONG = os.environ.get("CALMSTREAM_TEST_LONG") == "1"


def repeats(gate: int, long: int) -> int:
    """Return the number of repeats that this run is asked for."""
    return long if LONG else gate
