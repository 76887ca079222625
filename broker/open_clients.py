"""The open clients of a connection."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol


class Closable(Protocol):
    """A client that its owner may have closed."""

    @property
    def closed(self) -> bool: ...


class OpenClients:
    """The clients that a connection has to close. Safe for use from several threads.

    Those that their owners have closed are forgotten when the next one is added, so that a service
    that opens and closes clients for months does not keep them all in memory.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[tuple[Closable, Callable[[], None]]] = []

    def add(self, client: Closable, close: Callable[[], None]) -> None:
        with self._lock:
            self._open = [(one, how) for one, how in self._open if not one.closed]
            self._open.append((client, close))

    def close(self) -> None:
        with self._lock:
            left, self._open = self._open, []
        for _, close in reversed(left):
            close()
