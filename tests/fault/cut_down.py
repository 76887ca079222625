"""Shortens a sequence of faults that fails."""

from __future__ import annotations

from tests.fault.setting import Operation
from tests.fault.simulator import run


def cut_down(operations: list[Operation]) -> list[Operation]:
    """Return a shorter sequence that still fails, for a named reproduction; used by hand."""
    size = len(operations) // 2
    while size:
        place = 0
        while place < len(operations):
            fewer = operations[:place] + operations[place + size :]
            try:
                run(fewer)
            except Exception:  # noqa: BLE001 - any failure will do
                operations = fewer
            else:
                place += size
        size //= 2
    return operations
