"""The in-process broker in virtual time, where any call may be the last one of a process.

A client that waits for what does not come advances the clock. `Crash` ends a process before or
after any call; no code of the product catches it.
"""

from __future__ import annotations

from typing import Any

from calmstream.common.errors import RecoverableError
from tests.support.clock import ManualClock
from tests.support.faulty_broker import FaultyBroker


class Crash(BaseException):
    """The process died here."""


class VirtualClock(ManualClock):
    """Looking at it takes a little time, so that every wait with a deadline ends."""

    def monotonic(self) -> float:
        self.advance(1e-4)
        return self.seconds


class Process:
    """One process's access to the broker.

    After ``fuse`` calls it dies: before the call with an even number, after it with an odd one.
    """

    def __init__(self, broker: FaultyBroker, clock: ManualClock) -> None:
        self.fuse: int | None = None
        self.dead = False
        self.members: list[Any] = []
        self._broker = broker
        self._clock = clock

    def call(self, function: Any, *args: Any, **more: Any) -> Any:
        if self.dead:
            raise Crash
        self._burn()
        result = function(*args, **more)
        self._burn()
        return result

    def _burn(self) -> None:
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse < 0:
                self.dead = True
                raise Crash

    def sink(self) -> Any:
        return _Client(self, self._broker.sink(), self._clock)

    def reader(self) -> Any:
        return _Client(self, self._broker.reader(), self._clock)

    def group_reader(self, group: str) -> Any:
        real = self._broker.group_reader(group)
        self.members.append(real)
        return _Client(self, real, self._clock)

    def expire(self) -> None:
        """End the memberships of the process, as after a session without a heartbeat."""
        for member in self.members:
            member.expire()

    def topics(self) -> Any:
        return _Client(self, self._broker.topics(), self._clock)

    def close(self) -> None:
        pass


class _Client:
    """Any client; only calls that reach the broker can be a process's last."""

    _REMOTE = frozenset(
        {
            "send",
            "poll",
            "describe",
            "ids",
            "log_starts",
            "log_ends",
            "first_after",
            "assign",
            "subscribe",
            "commit",
        }
    )

    def __init__(self, process: Process, real: Any, clock: ManualClock) -> None:
        self._process = process
        self.real = real
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.real, name)
        if name not in self._REMOTE:
            return function
        return lambda *args, **more: self._process.call(function, *args, **more)

    def poll(self, timeout: float, max_records: int = 500) -> Any:
        return self._polled(self.real.poll, timeout, max_records)

    def poll_chunks(self, timeout: float, max_records: int = 500) -> Any:
        return self._polled(self.real.poll_chunks, timeout, max_records)

    def _polled(self, poll: Any, timeout: float, max_records: int) -> Any:
        found = self._process.call(poll, 0.0, max_records)
        if not found:
            self._clock.advance(timeout)
        return found

    def send(self, *args: Any, **more: Any) -> Any:
        return _Delivery(self._process.call(self.real.send, *args, **more), self._clock)

    def close(self, *_timeout: float) -> None:
        """A dead process closes nothing: its members stay in their groups until they expire."""
        if not self._process.dead:
            self.real.close(*(0.0 for _ in _timeout))


class _Delivery:
    def __init__(self, real: Any, clock: ManualClock) -> None:
        self._real = real
        self._clock = clock

    def done(self) -> bool:
        return bool(self._real.done())

    def wait(self, timeout: float) -> int:
        if not self._real.done():
            self._clock.advance(timeout)
            raise RecoverableError("not acknowledged in (virtual) time")
        return int(self._real.wait(0.0))
