"""The gateway: one thread answers requests and watches files, one owns the spool, one sends."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import structlog

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Broker
from calmstream.common.clock import Clock, SystemClock, utc
from calmstream.common.health import RoleHealth
from calmstream.common.http.connections import Connections
from calmstream.common.http.server import HttpServer, defect, event_loop, listen
from calmstream.estimators.plan import Plan
from calmstream.producer.gateway.durable.spool import Spool, locked
from calmstream.producer.gateway.http.app import GatewayApp
from calmstream.producer.gateway.http.app_keys import AppKeys
from calmstream.producer.gateway.http.committer import Committer
from calmstream.producer.gateway.http.cors import Origins
from calmstream.producer.gateway.http.delivery import BatchDelivery
from calmstream.producer.gateway.http.metrics import GatewayMetrics
from calmstream.producer.gateway.http.plans import CountedPlans, Offered, plan_folder
from calmstream.producer.gateway.settings import GatewaySettings

FILES_SECONDS = 2.0
AWAY_SECONDS = 40.0
"""A gateway is not ready when its last answer from a broker is older: what it accepts could be lost
when its window ends."""

STUCK_SECONDS = 10.0  # a thread that has not turned for so long hangs
_TURN_SECONDS = 0.2

WEEK = 7 * 86_400  # before a signing certificate ends, the metrics show it


class Gateway:
    """The gateway, a role of the service; :meth:`run` is its life.

    ``offered``, plans by digest, is replaced as a whole, so that any thread may read it.
    ``app_keys`` is None where everybody may send. Clients of ``broker`` are opened until it works.
    """

    name = "gateway"

    def __init__(
        self,
        settings: GatewaySettings,
        metrics: GatewayMetrics,
        clock: Clock | None = None,
        *,
        spool: Path,
        plans: Path,
        roots: Sequence[str],
        allow_unsigned: bool,
        app_keys: Path | None,
        broker: Broker,
        names: Callable[[Plan], TopicNames],
    ) -> None:
        self.settings, self.metrics = settings, metrics
        self._folder, self._broker, self._names = spool, broker, names
        self._clock = clock or SystemClock()
        self.health = RoleHealth(self.name, self._clock, away_seconds=AWAY_SECONDS)
        self._log = structlog.get_logger("calmstream.gateway")
        self._plans = plan_folder(plans, roots, settings, allow_unsigned=allow_unsigned)
        self.offered: Mapping[str, Offered] = {}
        self.app_keys = None if app_keys is None else AppKeys(app_keys)
        self.origins = Origins(settings.origins)
        self._refused_origins: set[str] = set()
        self.stopping = False
        self._failure: BaseException | None = None
        self._refusals: dict[str, str] = {}
        self._ended = threading.Event()
        self.counted = CountedPlans(broker, names, self._clock)
        self._socket = listen(settings.host, settings.port, "reports")
        self.port: int = self._socket.getsockname()[1]

    def run(self, stop: threading.Event) -> None:
        """Work until ``stop`` is set; finish what was begun and leave the rest in the spool."""
        with (
            contextlib.closing(self._socket),
            locked(self._folder),
            asyncio.Runner(loop_factory=event_loop) as runner,
        ):
            runner.run(self._run(stop))

    def present(self) -> int:
        return self._spool.mark.present()

    def note_origin(self, refused: str) -> None:
        """Log an origin whose pages may not send, once; of a few, as anybody can state one."""
        if refused and refused not in self._refused_origins and len(self._refused_origins) < 20:
            self._refused_origins.add(refused)
            self._log.warning("a page may not send: set CALMSTREAM_ORIGINS", origin=refused)

    async def _run(self, stop: threading.Event) -> None:
        loop = asyncio.get_running_loop()

        loop.set_exception_handler(lambda _, context: self.note(context.get("exception")))
        self.health.not_ready("reading the spool")
        self._spool = Spool(self._folder, self._clock, self.settings, totals=self.metrics.of_plan)
        self.committer = Committer(self._spool, loop, self.metrics, self._clock)
        self._delivery = BatchDelivery(
            self._spool, self.committer, self._broker, self._names, self._clock
        )
        await self._recover()
        threads = [
            self._thread("gateway-spool", self.committer.run),
            self._thread("gateway-delivery", self._delivery.run),
        ]
        self.health.watched(self.counted.silent_seconds)
        self._thread("gateway-topics", lambda: self.counted.run(self._ended))
        try:
            await self._serve(stop)
        finally:
            self._ended.set()
            await asyncio.to_thread(self._drain, threads)
        if self._failure is not None:
            raise self._failure

    async def _recover(self) -> None:
        """A large spool takes a while; the role is alive meanwhile."""
        reading = asyncio.ensure_future(asyncio.to_thread(self._spool.recover))
        while not reading.done():
            self.health.turned()
            await asyncio.wait([reading], timeout=_TURN_SECONDS)
        for each in reading.result():
            self.committer.sealed.put(each)

    async def _serve(self, stop: threading.Event) -> None:
        settings = self.settings
        connections = Connections(
            self.metrics.answered,
            connections=settings.max_connections,
            requests=settings.max_requests,
            body_bytes=settings.body_bytes,
            buffer_bytes=settings.buffer_bytes,
            request_seconds=settings.request_seconds,
            idle_seconds=settings.idle_seconds,
        )
        server = HttpServer(
            GatewayApp(self),
            self._socket,
            connections,
            graceful_seconds=max(round(settings.stop_seconds / 2), 1),
            date_header=False,
        )
        await asyncio.to_thread(self._read_files)
        serving = asyncio.create_task(server.run())
        self._log.info("serving reports", host=settings.host, port=self.port)
        try:
            await self._watch(stop, serving, connections)
        finally:
            self.stopping = True
            server.stop()
            self.health.not_ready("draining")
            await asyncio.wait([serving])
        serving.result()

    async def _watch(
        self, stop: threading.Event, serving: asyncio.Task[None], connections: Connections
    ) -> None:
        cut, refreshed = 0, self._clock.monotonic()
        while not stop.is_set() and not serving.done() and self._failure is None:
            await asyncio.sleep(_TURN_SECONDS)
            turned = min(self.committer.turned, self._delivery.turned)
            if self._clock.monotonic() - turned < STUCK_SECONDS:
                self.health.turned()
            self._say_ready()
            batches = self._delivery.waiting
            self.metrics.turned(len(connections), connections.cut - cut, batches)
            cut = connections.cut
            if self._clock.monotonic() - refreshed >= FILES_SECONDS:
                await asyncio.to_thread(self._read_files)
                refreshed = self._clock.monotonic()

    def _say_ready(self) -> None:
        if not self._spool.has_room:
            self.health.not_ready("the disk of the spool takes no reports")
        elif not self.offered:
            self.health.not_ready("no plan is offered")
        elif self.offered.keys() <= self.counted.refused.keys():
            self.health.not_ready(next(iter(self.counted.refused.values())))
        else:
            self.health.ready()
        self._say_refusals()

    def _say_refusals(self) -> None:
        """Say which plans cannot be served: their topics are wrong, or devices refuse them."""
        now = self.present() // 1000
        ended = {
            digest: f"its signing certificate ended at {utc(one.until)}: devices refuse it; sign "
            "it again (calmstream sign)"
            for digest, one in self.offered.items()
            if one.until is not None and one.until < now
        }
        refused = {**ended, **self.counted.refused}
        for digest, why in refused.items():
            if self._refusals.get(digest) != why:
                self._log.error("reports of a plan are refused", plan=digest[:8], reason=why)
        self._refusals = refused
        soon = [u for one in self.offered.values() if (u := one.until) and u < now + WEEK]
        self.metrics.ending(len(soon))
        self.health.troubled({digest[:8]: why for digest, why in refused.items()})

    def _read_files(self) -> None:
        self._plans.watch(self._log)
        for one in self._plans.documents.values():
            self.metrics.of_plan(one.plan)
        self.offered = self.counted.plans = self._plans.documents
        keys = self.app_keys
        if keys is not None and keys.refresh():
            self._log.warning("app keys refused", reason=keys.refused)
        stale = keys is not None and bool(keys.refused)
        refused = len(self._plans.refused)
        self.metrics.files(len(self.offered), refused, keys_refused=stale)

    def _thread(self, name: str, work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - raised again by the first thread
                self._failure = self._failure or error

        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def _drain(self, threads: Sequence[threading.Thread]) -> None:
        """Let sending end, then write what has arrived; the rest stays in the spool."""
        committing, sending = threads
        half = self.settings.stop_seconds / 2
        self._delivery.stop(half)
        sending.join(half + 5)
        self.committer.stop()
        committing.join(half + 5)
        if not committing.is_alive():
            self._spool.close()
        self._delivery.close()

    def note(self, error: BaseException | None) -> None:
        """Log a defect: its kind and place, nothing of the request."""
        self._log.error("defect", **defect(error))
