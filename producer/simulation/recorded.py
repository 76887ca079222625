"""Devices that live through events of a table, each with a recorder of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count

import numpy as np

from calmstream.estimators.domain import Codes
from calmstream.estimators.kinds import Choice, Number, options_of
from calmstream.estimators.plan import Plan
from calmstream.estimators.randomness import Randomness
from calmstream.producer.device.events import source_of
from calmstream.producer.device.recorder import Recorder
from calmstream.producer.device.report import code_of
from calmstream.producer.device.store import MemoryStore


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a device at a ``time`` in ms, or a state (options split by ``|``)."""

    device: str
    time: int
    name: str
    value: str = ""


def number(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        return text


_READ: dict[type, Callable[[str], object]] = {Number: number, Choice: options_of}


class RecordedDevices:
    """The devices of a table of events; a window's records are of the events before it."""

    def __init__(self, plan: Plan, events: Iterable[Event], randomness: Randomness) -> None:
        self._plan, self._randomness = plan, randomness
        self._now = 0
        listed = list(events)
        numbers = count()
        self._places = {name: next(numbers) for name in dict.fromkeys(e.device for e in listed)}
        self._recorders = [
            Recorder(plan, MemoryStore(), randomness, lambda: self._now, allow_unsigned=True)
            for _ in self._places
        ]
        self._waiting = sorted(listed, key=lambda event: event.time, reverse=True)
        self._states: dict[str, Callable[[str], object]] = {}
        for attribute in plan.domain.attributes:
            source = source_of(attribute)
            if not source.take:
                self._states[source.name] = _READ.get(type(attribute.kind), str)

    def __len__(self) -> int:
        return len(self._recorders)

    def codes(self, window: int) -> Codes:
        """Return the devices' records for a window: shape (devices, d). Windows ascend."""
        start = self._plan.window_start(window)
        while self._waiting and self._waiting[-1].time < start:
            event = self._waiting.pop()
            self._now, recorder = event.time, self._recorders[self._places[event.device]]
            if event.name in self._states:
                recorder.set(event.name, self._states[event.name](event.value))
            else:
                recorder.note(event.name, number(event.value or "1"))  # type: ignore[arg-type]
        self._now = start
        d = len(self._plan.domain)
        codes = np.empty((len(self._recorders), d), np.uint16)
        for row, recorder in zip(codes, self._recorders, strict=True):
            record = recorder.record()
            row[:] = [code_of(self._plan, record, j, self._randomness) for j in range(d)]
        return codes

    @property
    def dropped(self) -> int:
        return sum(sum(recorder.dropped.values()) for recorder in self._recorders)
