"""The recorder: it counts what happens on a device, as the plan says, and reports about it."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from calmstream.common.clock import wall_clock
from calmstream.producer.device import control, events
from calmstream.producer.device.events import record_of
from calmstream.producer.device.policy import Policy
from calmstream.producer.device.reporter import Reporter
from calmstream.producer.device.store import DeviceStore, Document

if TYPE_CHECKING:
    from calmstream.estimators.plan import Plan
    from calmstream.estimators.randomness import Randomness
    from calmstream.producer.device.report import Report

WRITE_MS = 10_000  # until what was noted is written; the first event of a day at once
MAX_WAITING = 4096  # days and events that wait for a disk that does not write
MAX_LINEAGES = 8
_DAY_MS = 86_400_000


class Recorder:
    """Counts events and keeps states, and makes a device's reports from them.

    The plan says with the field ``from`` of an attribute what is taken from which event or state;
    an attribute without it is the state of its own name. Everything stays on the device: a report
    is about one view of the record, and is perturbed like every other. What is counted never
    changes whether or when the device reports.

    A record is about complete days (UTC) before the window of the report. It is kept in the store,
    beside the ledger, in at most 64 KiB for each lineage. A crash loses the events of the last 10
    seconds at most, and never a day: the first event of each day is written at once. A withdrawal
    by another door erases what waits, and what is noted until the next write too. Safe for use from
    several threads; processes that share a store add up.

    The arguments and errors are those of `Reporter`.

    Attributes:
        reporter: states ``status``, ``remaining`` and ``refusal``.
        trouble: why what was noted could not be written lately; empty while it can. It waits.
    """

    def __init__(
        self,
        plan: Plan | bytes,
        store: DeviceStore,
        randomness: Randomness | None = None,
        clock: Callable[[], int] = wall_clock,
        *,
        policy: Policy | None = None,
        allow_unsigned: bool = False,
    ) -> None:
        self.reporter = Reporter(
            plan, store, randomness, clock, policy=policy, allow_unsigned=allow_unsigned
        )
        self._plan = plan = self.reporter.plan
        self._store, self._clock = store, clock
        sources = [events.source_of(each) for each in plan.domain.attributes]
        self._events = {each.name for each in sources if each.take}
        self._states = {each.name for each in sources if not each.take}
        windows = -(-plan.window // events.DAY)
        self._days = max(each.days for each in sources) + windows + 2
        self._lock = threading.Lock()
        self._waiting = _Waiting()
        self._known: set[tuple[str, int]] = set()
        self._kept: dict[str, object] = {}
        self._written_at = clock()
        self.trouble = ""
        self._withdrawals = store.read().withdrawals
        store.read_events()  # an error that lasts is said at once

    def note(self, event: str, value: float = 1) -> None:
        """Count an event that happened now. No argument causes an error.

        What the plan does not name, and values that are no numbers within 10^15, are dropped and
        counted in `dropped`.
        """
        now = self._clock()
        with self._lock:
            waiting, number = self._waiting, events.amount(value)
            if not _names(event, self._events):
                waiting.dropped["unplanned"] += 1
                return
            place = (event, now // _DAY_MS)
            if number is None:
                waiting.dropped["value"] += 1
            elif place not in waiting.events and len(waiting.events) >= MAX_WAITING:
                waiting.dropped["room"] += 1
            else:
                n, total, largest, _ = waiting.events.get(place, (0, 0.0, number, number))
                waiting.events[place] = [n + 1, total + number, max(largest, number), number]
                if place not in self._known or not 0 <= now - self._written_at < WRITE_MS:
                    self._write(now)

    def set(self, state: str, value: object) -> None:
        """Set a state: a label, a number, or a list of options; None for no value.

        A value that is none of these, or longer than 1,024 bytes, leaves the state without one.
        """
        now = self._clock()
        with self._lock:
            if not _names(state, self._states):
                self._waiting.dropped["unplanned"] += 1
                return
            self._forget_erased()
            kept = events.state_value(value)
            if kept is None and value is not None:
                self._waiting.dropped["value"] += 1
            if self._kept.get(state, self) != kept:  # no value equals the recorder
                self._waiting.states[state] = self._kept[state] = kept
                self._write(now)

    def record(self) -> dict[str, object]:
        """Return what a report would be about now: values by field; it never leaves the device."""
        return self._record(self._plan.window_at(self._clock()))

    def report(self, *, keep: bool = False) -> Report | None:
        """Return the device's report, or None if it must not report now; see `Reporter.report`."""
        return self.reporter.report_for(self._record, keep=keep)

    def flush(self) -> None:
        """Write what was noted; for programs that end soon."""
        with self._lock:
            self._write(self._clock())

    def withdraw(self) -> None:
        """Erase all that was recorded, and stop all reports until `rejoin`."""
        with self._lock:
            self._waiting, self._known, self._kept = _Waiting(), set(), {}
            control.withdraw(self._store)
            self._forget_erased()

    @property
    def dropped(self) -> dict[str, int]:
        """How much was not recorded, by reason.

        ``unplanned``: the plan does not name it; ``value``: no number, or no value of a state;
        ``clock``: the clock was behind a day that was counted; ``room``: no room was left.
        """
        with self._lock:
            return dict(self._book()["dropped"])

    def _record(self, window: int) -> dict[str, object]:
        with self._lock:
            self._write(self._clock())
            return record_of(self._book(), self._plan, window)

    def _book(self) -> Document:
        """Return what is kept; what cannot be read is nothing: the device reports nevertheless."""
        self._forget_erased()
        stored: Document = {}
        try:
            stored = self._store.read_events()
        except Exception as error:  # noqa: BLE001
            self.trouble = str(error)
        book: Document = self._merged(stored)[self._plan.lineage]
        return book

    def _write(self, now: int) -> None:
        """Write what waits, if there is anything; what cannot be written waits on."""
        self._written_at = now
        self._known = set(self._waiting.events) | (
            self._known if len(self._known) < MAX_WAITING else set()
        )
        if not self._waiting:
            return
        written: Document | None = None

        def change(stored: Document) -> Document:
            nonlocal written
            # Looked at under the lock, so that nothing is written after a withdrawal has erased it.
            state = self._store.read()
            self._forget_before(state.withdrawals)
            written = {} if state.withdrawn else self._merged(stored)
            return written

        try:
            self._store.update_events(change)
        except Exception as error:  # noqa: BLE001 - no application ends because it was counted
            self.trouble = str(error)
            if written is None or not self._holds(written):
                return
        self.trouble, self._waiting = "", _Waiting()
        if not written:
            self._known, self._kept = set(), {}

    def _forget_erased(self) -> None:
        """Forget what the person has erased by another door, also if they take part again."""
        with contextlib.suppress(Exception):  # the next write says what is wrong with the store
            self._forget_before(self._store.read().withdrawals)

    def _forget_before(self, withdrawals: int) -> None:
        if withdrawals != self._withdrawals:
            self._withdrawals = withdrawals
            self._waiting, self._known, self._kept = _Waiting(), set(), {}

    def _holds(self, written: Document) -> bool:
        """Whether the disk has taken what it could not confirm."""
        try:
            return self._store.read_events() == written
        except Exception:  # noqa: BLE001
            return False

    def _merged(self, stored: Document) -> Document:
        books, lineage = dict(stored), self._plan.lineage
        book = books.pop(lineage, None) or events.new_book()
        for (event, day), values in self._waiting.events.items():
            if events.counts_on(book, day):
                events.add(book, event, day, values)
            else:
                events.drop(book, "clock", int(values[0]))
        for state, value in self._waiting.states.items():
            events.put(book, state, value)
        for reason, times in self._waiting.dropped.items():
            events.drop(book, reason, times)
        events.fit(book, self._events, self._states, self._days)
        others = sorted(books.items(), key=lambda each: each[1]["latest"] or 0)
        return {**dict(others[1 - MAX_LINEAGES :]), lineage: book}


def _names(name: object, names: set[str]) -> bool:
    return isinstance(name, str) and name in names


@dataclass(slots=True)
class _Waiting:
    """What was noted and is not written yet: numbers by event and day of the clock, and states."""

    events: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    states: dict[str, object] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)

    def __bool__(self) -> bool:
        return bool(self.events or self.states or self.dropped)
