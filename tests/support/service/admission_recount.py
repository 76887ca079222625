"""An independent recount of a reports partition: admission by append times, as documented.

Records come from the broker's files. The recount uses dictionaries and loops, and none of the
product's fold, decoder or admission. Each group has one view, by GRR.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from calmstream.estimators.plan import Plan
from tests.brokers.segments import Stored
from tests.support.forged import read

KEPT_DEAD_LETTERS = 1000  # as documented: the recount shares nothing with the product

TICK = b'{"tick":1,"v":"1.0"}'  # without reports: it only moves the time of a partition on


class RefusedError(Exception):
    """A record is not counted; the text is the reason."""


@dataclass
class Share:
    cells: Counter[int] = field(default_factory=Counter)  # reports per cell
    rejects: Counter[str] = field(default_factory=Counter)  # records per reason

    def __add__(self, other: Share) -> Share:
        return Share(self.cells + other.cells, self.rejects + other.rejects)


@dataclass
class Recount:
    plan: Plan
    group: int
    # reports and rejects by window; a reject counts in the window of the log's clock
    windows: dict[int, Share] = field(default_factory=lambda: defaultdict(Share))
    # window -> offset of the record that closed it
    closed_at: dict[int, int] = field(default_factory=dict)
    # (offset, reason) of each reject that has a dead letter
    dead_letters: list[tuple[int, str]] = field(default_factory=list)
    # batch id -> reports, of all batches that are counted or late
    keys: dict[bytes, int] = field(default_factory=dict)
    # ids of batches of which every copy arrived after its window had closed
    late: set[bytes] = field(default_factory=set)
    # records that are rejected after the plan's end, per reason
    after_end: Counter[str] = field(default_factory=Counter)
    # (offset, the clock before it, window) of each batch that is counted
    counted: list[tuple[int, int, int]] = field(default_factory=list)
    # the ids of the batches that are counted, per window
    seen: dict[int, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    clock: int = 0
    # the first window that is open
    open_from: int = 0
    next_offset: int = 0

    def read(self, log: Iterable[Stored], below: int | None = None) -> Recount:
        for record in log:
            if below is None or record.offset < below:
                self._take(record)
        return self

    def through(self, window: int) -> Share:
        return sum((self.windows[w] for w in sorted(self.windows) if w <= window), Share())

    def _take(self, record: Stored) -> None:
        assert record.append_time, f"offset {record.offset} has its sender's time"
        before, self.clock = self.clock, max(self.clock, record.timestamp)
        self.next_offset = record.offset + 1
        while self.open_from < self.plan.windows and self.clock > self._closes(self.open_from):
            self.closed_at[self.open_from] = record.offset
            self.open_from += 1
        try:
            self._admit(record, before)
        except RefusedError as refusal:
            self._reject(record.offset, str(refusal))

    def _admit(self, record: Stored, before: int) -> None:
        if record.key is None and record.value == TICK:
            return
        _require(not record.damaged, "undecodable")
        bound = self.plan.groups[self.group].mechanism.cells
        found = read(self.plan.digest, self.group, bound, record.key, record.value)
        _require(not found.problem, found.problem)
        cells, key, period = found.cells, record.key or b"", found.period
        try:
            self._in_time(period)
        except RefusedError as refusal:
            if str(refusal) == "late" and key not in self.keys:
                self.keys[key] = len(cells)
                self.late.add(key)
            raise
        if key in self.seen[period]:
            raise RefusedError("duplicate")
        if (limits := self.plan.limits) is not None:
            batches = len(self.seen[period])
            within = len(cells) <= limits.batch_reports and batches < limits.batches
            _require(within, "over_limit")
        self.seen[period].add(key)
        self.counted.append((record.offset, before, period))
        self.keys[key] = len(cells)
        self.windows[period].cells.update(cells)

    def _in_time(self, period: int) -> None:
        _require(period < self.plan.windows, "after_end")
        _require(period >= self.open_from, "late")
        starts = (self.plan.start + period * self.plan.window) * 1000
        _require(starts <= self.clock + self.plan.skew * 1000, "early")

    def _reject(self, offset: int, reason: str) -> None:
        last = self.plan.windows - 1
        if self.open_from > last:  # the plan is over
            self.after_end[reason] += 1
            self.dead_letters.append((offset, reason))
            return
        now = (self.clock - self.plan.start * 1000) // (self.plan.window * 1000)
        rejects = self.windows[min(max(now, self.open_from), last)].rejects
        rejects[reason] += 1
        if rejects[reason] <= KEPT_DEAD_LETTERS:
            self.dead_letters.append((offset, reason))

    def _closes(self, window: int) -> int:
        return (self.plan.start + (window + 1) * self.plan.window + self.plan.grace) * 1000


def _require(holds: bool, reason: str) -> None:
    if not holds:
        raise RefusedError(reason)
