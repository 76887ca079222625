"""A lock whose holder can wait, with a deadline, until another thread changes something."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType


class Monitor:
    """A re-entrant lock whose holders can wait for a change."""

    def __init__(self) -> None:
        self._condition = threading.Condition(threading.RLock())

    def __enter__(self) -> None:
        self._condition.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._condition.__exit__(kind, error, trace)

    def notify(self) -> None:
        """Wake all waiting threads."""
        self._condition.notify_all()

    def wait(self, deadline: float) -> bool:
        """Release the lock until a change; return False after ``deadline`` (monotonic seconds)."""
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return False
        self._condition.wait(remaining)
        return True

    def wait_for(self, happened: Callable[[], bool], deadline: float) -> bool:
        """Release the lock until ``happened()`` is true; return False after the deadline."""
        while not happened():
            if not self.wait(deadline):
                return False
        return True
