"""Compute the expected results of a simulation from the input logs alone.

The computation uses only lists and loops, and none of the product's code for counting.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

from calmstream.broker.transport import Record
from calmstream.estimators.plan import Plan


@dataclass
class Verdicts:
    """One input partition: each record is accepted or rejected by the documented rules.

    Attributes:
        accepted: (offset, window, cells).
        rejected: offsets.
        closed_at: window -> offset of the record that closed it.
    """

    plan: Plan
    accepted: list[tuple[int, int, list[int]]] = field(default_factory=list)
    rejected: list[int] = field(default_factory=list)
    closed_at: dict[int, int] = field(default_factory=dict)

    def judge(self, log: list[Record]) -> Verdicts:
        clock, accepted_ids = 0, set()
        for record in log:
            clock = max(clock, record.timestamp)
            for window in range(self.plan.windows):
                if window not in self.closed_at and clock > self._closes(window):
                    self.closed_at[window] = record.offset
            body = None if record.damage else _body(record)
            if body == "tick":
                continue
            if body is None or not self.plan.digest.startswith(body["plan"]):
                self.rejected.append(record.offset)
                continue
            window = body["period"]
            early = self._starts(window) > clock + self.plan.skew * 1000
            late = window < 0 or window in self.closed_at
            again = (window, record.key) in accepted_ids
            if late or early or again or window >= self.plan.windows:
                self.rejected.append(record.offset)
            else:
                accepted_ids.add((window, record.key))
                self.accepted.append((record.offset, window, body["columns"]["v"]))
        return self

    def cells(self, window: int, below: int | None = None) -> list[int]:
        """Return the cells accepted for a window by records below an offset."""
        return [
            cell
            for offset, w, cells in self.accepted
            if w == window and (below is None or offset < below)
            for cell in cells
        ]

    def _closes(self, window: int) -> int:
        return (self.plan.start + (window + 1) * self.plan.window + self.plan.grace) * 1000

    def _starts(self, window: int) -> int:
        return (self.plan.start + window * self.plan.window) * 1000


def _body(record: Record) -> Any:
    """Return the content of a batch of the simulation's only group, None for a bad one."""
    value = record.value or b""
    if record.key is None and value == b'{"tick":1,"v":"1.0"}':
        return "tick"
    if len(value) < 26 or value[:2] != b"\x01\x01":
        return None
    digest, group, period, n = struct.unpack_from("<16sHIH", value, 2)
    cells = list(value[26:])
    if group or not n or len(cells) != n or max(cells) > 63:
        return None
    return {"plan": digest.hex(), "period": period, "columns": {"v": cells}}
