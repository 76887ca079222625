"""Streams of events (server-sent events): what was published, as it is published."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson

from calmstream.common.http.shares import Share
from calmstream.consumer.serve.plan_service import PlanService
from calmstream.consumer.serve.problems import Problem, Refused
from calmstream.estimators.wire.snapshot import Manifest

MAX_BEHIND = 1000
"""A client that is so many events behind is disconnected; it reads the windows when it is back."""

_CLOSED = None


class Streams:
    """All open streams of one server. To be used on the server's event loop only."""

    def __init__(self, most: int, heartbeat_seconds: float) -> None:
        self._share = Share(most)
        self._heartbeat = heartbeat_seconds
        self._queues: set[asyncio.Queue[Manifest | None]] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._queues)

    def close(self) -> None:
        self._closed = True
        for queue in self._queues:
            _put(queue, _CLOSED)

    def open(self, service: PlanService, peer: str) -> AsyncIterator[bytes]:
        if self._closed or not self._share.take(peer):
            raise Refused(Problem.BUSY, "too many streams of events are open")
        queue: asyncio.Queue[Manifest | None] = asyncio.Queue(MAX_BEHIND)
        self._queues.add(queue)
        return self._stream(service, queue, peer)

    async def _stream(
        self, service: PlanService, queue: asyncio.Queue[Manifest | None], peer: str
    ) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()

        def listener(event: Manifest) -> None:
            try:
                loop.call_soon_threadsafe(_put, queue, event)
            except RuntimeError:  # the server has stopped
                return

        service.listen(listener)
        try:
            yield _message("hello", "", {"newest": service.results.newest})
            while True:
                try:
                    event = await asyncio.wait_for(queue.get(), self._heartbeat)
                except TimeoutError:
                    yield b": \n\n"
                    continue
                if event is _CLOSED:
                    return
                yield _message(event.kind.value, _id(event), _document(event))
        finally:
            service.unlisten(listener)
            self._queues.discard(queue)
            self._share.give_back(peer)


def _put(queue: asyncio.Queue[Manifest | None], event: Manifest | None) -> None:
    """Add an event; a client that is too far behind is disconnected instead."""
    if event is _CLOSED or queue.full():
        while not queue.empty():
            queue.get_nowait()
        event = _CLOSED
    queue.put_nowait(event)


def _document(event: Manifest) -> dict[str, Any]:
    return {
        "window": event.window,
        "kind": event.kind.value,
        "reports": event.reports,
        "revision": list(event.revision),
    }


def _id(event: Manifest) -> str:
    return f"{event.window}-{event.kind.value}-{sum(event.revision)}"


def _message(name: str, event_id: str, data: dict[str, Any]) -> bytes:
    head = f"id: {event_id}\n" if event_id else ""
    return f"{head}event: {name}\n".encode() + b"data: " + orjson.dumps(data) + b"\n\n"
