"""The outcome of an ordeal, as numbers and as lines of text."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Outcome:
    """The outcome of one run; all times are in seconds."""

    reports: int = 0  # number of reports that the producer sent
    late: int = 0  # number of them that arrived after their window had closed
    resent: int = 0  # number of batches that were sent again
    faults: int = 0  # number of injected faults
    during: int = 0  # number of faults that began while the producer was still sending
    left: int = 0  # number of processes that ended by themselves after a freeze, as documented
    longest_gap: float = 0.0  # longest time in which no worker read a record
    seconds: float = 0.0
    # for each kind of fault, the times from its beginning (of a freeze: from the signal that
    # stops the process) until every partition has an owner that answers and has nearly read
    # its log, and one publisher is active
    recovery: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    # for each window, the time from its end plus grace until its final set was complete
    finals: dict[int, float] = field(default_factory=dict)
    # number of acknowledged hostile records by kind
    hostile: Counter[str] = field(default_factory=Counter)
    unacknowledged: int = 0  # number of hostile records without an acknowledgement
    # number of rejected records by reason
    rejections: Counter[str] = field(default_factory=Counter)

    def lines(self) -> list[str]:
        reasons = ", ".join(f"{name} {count:,}" for name, count in sorted(self.rejections.items()))
        latest = max(self.finals.values(), default=0.0)
        flow = (
            f"{self.reports:,} reports ({self.late:,} late), {self.resent:,} batches resent, "
            f"{self.faults} faults in {self.seconds:.0f} s, {self.during} of them while reports "
            f"flowed; longest gap without progress {self.longest_gap:.1f} s"
        )
        finals = (
            f"{len(self.finals)} finals, the latest {latest:.1f} s after its window's end plus "
            f"grace; {self.left} processes left after a freeze"
        )
        hostile = (
            f"{self.hostile.total():,} hostile records of {len(self.hostile)} kinds acknowledged, "
            f"{self.unacknowledged} unacknowledged"
        )
        rejected = f"rejected {self.rejections.total():,}: {reasons}"
        lines = [flow, finals, hostile, rejected]
        for kind, times in sorted(self.recovery.items()):
            lines.append(
                f"{kind:10} x{len(times):3}: recovered in {np.median(times):5.1f} s (median), "
                f"{max(times):5.1f} s (worst)"
            )
        return lines
