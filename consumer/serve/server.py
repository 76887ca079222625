"""The server of `calmstream serve`, and the loop that looks after its plans."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence

import structlog

from calmstream.broker.names import DEFAULT_NAMESPACE, TopicNames
from calmstream.broker.transport import Broker
from calmstream.common.clock import Clock
from calmstream.common.health import RoleHealth
from calmstream.common.http.connections import Connections
from calmstream.common.http.server import HttpServer, anywhere, as_host, listen
from calmstream.consumer.metrics.registry import plan_label
from calmstream.consumer.runtime.threads import Threads
from calmstream.consumer.serve.guard import Guard
from calmstream.consumer.serve.metrics import ServeMetrics
from calmstream.consumer.serve.plan_service import PlanService
from calmstream.consumer.serve.problems import Problem, Refused
from calmstream.consumer.serve.routes import create_app
from calmstream.consumer.serve.settings import ServeSettings
from calmstream.consumer.serve.turns import Queue
from calmstream.estimators.plan import Plan

_TURN_SECONDS = 0.2
MAX_WAITING = 256  # questions of one plan that wait for their turn; further ones get 503
_IDLE_SECONDS = 30.0  # after which a connection without a request is closed


class ResultsServer:
    """Serves the results of plans over HTTP; a role of the service."""

    name = "serve"

    def __init__(
        self,
        wanted: Callable[[], Mapping[str, Plan]],
        broker: Broker,
        settings: ServeSettings,
        clock: Clock,
        metrics: ServeMetrics,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        output_namespace: str = "",
        hosts: Sequence[str] = (),
        origins: Sequence[str] = (),
        token: str | None = None,
    ) -> None:
        self.health = RoleHealth(self.name, clock)
        self._threads = Threads(settings.fits, "answers")

        def make(plan: Plan) -> PlanService:
            names = TopicNames.of(plan, namespace, output_namespace)
            queue = Queue(self._threads, MAX_WAITING)
            return PlanService(
                plan, broker, names, queue, clock, retry_seconds=settings.retry_seconds
            )

        self.plans: Mapping[str, PlanService] = {}
        self._wanted = wanted
        self._make = make
        self.health.watched(self.silent_seconds)
        self._said: dict[str, Refused] = {}
        self._settings = settings
        self._metrics = metrics
        self._log = structlog.get_logger("calmstream.serve")
        own = [] if anywhere(settings.host) else [as_host(settings.host)]
        self._guard = Guard(
            create_app(lambda: self.plans, settings, metrics),
            hosts=[*own, *hosts],
            origins=origins,
            token=token,
            metrics=metrics,
        )
        self.connections = Connections(
            metrics.connection_refused,
            connections=settings.max_connections,
            requests=settings.max_requests,
            sending_bytes=settings.sending_bytes,
            request_seconds=settings.request_seconds,
            idle_seconds=_IDLE_SECONDS,
            cancels=True,
        )
        self._socket = listen(settings.host, settings.port, "results")
        self.port: int = self._socket.getsockname()[1]

    def silent_seconds(self) -> float:
        """Return the age of the last answer that any plan got from a broker; 0 while all do."""
        return min((one.silent_seconds() for one in self.plans.values()), default=0.0)

    def run(self, stop: threading.Event) -> None:
        try:
            with contextlib.closing(self._socket), asyncio.Runner() as runner:
                runner.run(self._serve(stop))
        finally:
            threads = [self._stopping(one) for one in self.plans.values()]
            for thread in threads:
                thread.join()
            self._threads.close()

    async def _serve(self, stop: threading.Event) -> None:
        server = HttpServer(self._guard, self._socket, self.connections)
        serving = asyncio.create_task(server.run())
        self._log.info("serving results", host=self._settings.host, port=self.port)
        try:
            while not stop.is_set() and not serving.done():
                await asyncio.sleep(_TURN_SECONDS)
                self._turn()
        finally:
            self._guard.stopping = True
            server.stop()
            self.health.not_ready("stopping")
            await asyncio.wait([serving])
        serving.result()

    def _turn(self) -> None:
        self.health.turned()
        self._turn_plans()
        found = {name: one.trouble() for name, one in self.plans.items()}
        troubles = {name: one for name, one in found.items() if one is not None}
        self._say(troubles)
        # A fault of one plan does not keep clients from the others.
        if troubles and len(troubles) == len(self.plans):
            self.health.not_ready(
                "; ".join(f"plan {name}: {one.detail}" for name, one in troubles.items())
            )
        else:
            self.health.ready()
        finals = {
            plan_label(one.plan): 0 if one.results.newest is None else one.results.newest + 1
            for one in self.plans.values()
        }
        self._metrics.turned(len(self.connections), len(troubles), finals)

    def _turn_plans(self) -> None:
        wanted, served = self._wanted(), {one.plan.digest: one for one in self.plans.values()}
        for digest in served.keys() - wanted.keys():
            # Clients may take a while to close; the other plans do not wait for that.
            self._stopping(served.pop(digest))
        for digest in wanted.keys() - served.keys():
            served[digest] = self._make(wanted[digest])
            served[digest].start()
        self.plans = {one.plan.name: one for one in served.values()}
        for service in served.values():
            service.turn()

    @staticmethod
    def _stopping(service: PlanService) -> threading.Thread:
        thread = threading.Thread(target=service.stop, daemon=True)
        thread.start()
        return thread

    def _say(self, troubles: dict[str, Refused]) -> None:
        for name, one in troubles.items():
            said = self._said.get(name)
            if one.problem is not Problem.STARTING and (said is None or said.detail != one.detail):
                self._log.warning("results cannot be read", plan=name, reason=one.detail)
        for name in self._said.keys() - troubles.keys():
            self._log.info("results can be read", plan=name)
        self._said = troubles
