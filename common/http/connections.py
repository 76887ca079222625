"""What the connections of one server share: places, requests, memory, and who loses a place."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from calmstream.common.http.sending import BodyBudget
from calmstream.common.http.shares import Share

if TYPE_CHECKING:
    from calmstream.common.http.connection import Connection

SLOW_SECONDS = 0.1
"""An answer that is read slowly for so long may lose its place to another connection."""

SEARCH_SECONDS = 0.05
NEW_SECONDS = 0.25
"""So long a connection may do nothing before its request arrives, and keeps its place."""

SWEEP_SECONDS = 0.5


class Connections:
    """The open connections of one server, and what they share. ``cut`` is what limits closed."""

    def __init__(
        self,
        refused: Callable[[str], None] = lambda _: None,
        *,
        connections: int = 256,
        requests: int = 64,  # without an answer
        body_bytes: int = 0,  # largest that an application reads; 0 where no request has one
        buffer_bytes: int = 1 << 20,  # of all bodies of requests in progress
        sending_bytes: int = 64 << 20,  # of all different large bodies that are being sent
        request_seconds: float = 10.0,  # for a request to arrive
        idle_seconds: float = 30.0,  # after which a connection without a request is closed
        cancels: bool = False,  # whether the work on a request ends with its connection
    ) -> None:
        self.refused = refused
        self.body_bytes = body_bytes
        self.request_seconds, self.idle_seconds = request_seconds, idle_seconds
        self.cancels = cancels
        self.cut = 0
        self.places = Share(connections)
        self.requests = Share(requests)
        self.buffer = Share(buffer_bytes)
        self.sending = BodyBudget(sending_bytes)
        self._searched = -SEARCH_SECONDS  # when no slow connection was found
        self._open: set[Connection] = set()
        self._idle: dict[Connection, float] = {}  # since when, the oldest first

    def __len__(self) -> int:
        return len(self._open)

    def has(self, connection: Connection) -> bool:
        return connection in self._open

    def admit(self, connection: Connection) -> bool:
        """Give a place to a new connection; another one of the same peer may lose its place."""
        if not self.places.take(connection.peer):
            victim = self._victim(connection.peer)
            if victim is None:
                return False
            self.cut += 1
            victim.abort()
            if not self.places.take(connection.peer):
                return False
        self._open.add(connection)
        return True

    def _victim(self, peer: str) -> Connection | None:
        """Return the peer's oldest idle connection, or else one that reads its answer slowly."""
        now = time.monotonic()
        if now - self._searched < SEARCH_SECONDS:
            return None
        for connection, since in self._idle.items():
            if now - since < NEW_SECONDS:
                break
            if connection.peer == peer:
                return connection
        slow = (c for c in self._open if c.peer == peer and c.too_slow(now, SLOW_SECONDS))
        found = next(slow, None)
        if found is None:
            self._searched = now
        return found

    def leave(self, connection: Connection) -> None:
        if connection in self._open:
            self._open.discard(connection)
            self._idle.pop(connection, None)
            self.places.give_back(connection.peer)

    def note_idle(self, connection: Connection, *, idle: bool) -> None:
        self._idle.pop(connection, None)
        if idle and connection in self._open:
            self._idle[connection] = time.monotonic()

    async def sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            now = time.monotonic()
            for connection in tuple(self._open):
                if connection.too_slow(now):
                    self.cut += 1
                    connection.abort()
