"""Calls on other threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")


def begin(call: Callable[[], T], start: Callable[[Callable[[], None]], object]) -> Future[T]:
    """Do a call by ``start``, which runs a function now or later; its future has the outcome."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - whoever reads the future gets it
            future.set_exception(error)

    start(run)
    return future


def on_a_thread(run: Callable[[], None]) -> None:
    threading.Thread(target=run, name="call", daemon=True).start()


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
