"""The open clients of a connection."""

from __future__ import annotations

import threading
from typing import Protocol, TypeVar


class Closable(Protocol):
    """A client that its owner may have closed."""

    @property
    def closed(self) -> bool: ...

    def close(self) -> None: ...


T = TypeVar("T", bound=Closable)


class OpenClients:
    """The clients that a connection has to close. Safe for use from several threads.

    Those that their owners have closed are forgotten when the next one is added, so that a service
    that opens and closes clients for months does not keep them all in memory.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[Closable] = []

    def add(self, client: T) -> T:
        with self._lock:
            self._open = [one for one in self._open if not one.closed]
            self._open.append(client)
        return client

    def close(self) -> None:
        with self._lock:
            left, self._open = self._open, []
        for client in reversed(left):
            client.close()
