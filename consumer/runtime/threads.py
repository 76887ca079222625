"""A number of threads that do calls in the order in which they came."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue


class Threads:
    """Threads that call in order; calls raise nothing, and the process does not wait for them."""

    def __init__(self, number: int, name: str) -> None:
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._number = number
        for _ in range(number):
            threading.Thread(target=self._work, name=name, daemon=True).start()

    def put(self, call: Callable[[], object]) -> None:
        self._calls.put(call)

    def close(self) -> None:
        """End the threads after the calls that were put before."""
        for _ in range(self._number):
            self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
