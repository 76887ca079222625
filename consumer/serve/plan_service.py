"""One plan: its results as they are published, and its questions on the pool."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from calmstream.broker.transport import Broker
from calmstream.common.clock import Clock
from calmstream.common.errors import CalmstreamError, MissingTopic, RecoverableError
from calmstream.consumer.read.history import History
from calmstream.consumer.read.ranges import LATEST, TOTAL
from calmstream.consumer.serve.follower import Follower
from calmstream.consumer.serve.problems import Problem, Refused, refusal
from calmstream.consumer.serve.results import Results
from calmstream.consumer.serve.settings import ServeSettings
from calmstream.consumer.serve.turns import Queue, QueueFull
from calmstream.consumer.subscribe.subscribe import plan_names
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.snapshot import Manifest

T = TypeVar("T")
PREPARE_SECONDS = 60
"""Models of the newest results are fitted before anybody asks if windows are at least so long."""

Listener = Callable[[Manifest], None]

_STARTING = Refused(Problem.STARTING, "the plan's results are still being read")


class PlanService:
    """Serves one plan. Its methods may be called from any thread.

    The follower notes what was published, and asks for a refresh of the history before it notes a
    final. Jobs of a plan run in their order, so a question about this final meets its counts.

    Attributes:
        results: what was published.
        kept: windows whose counts are kept, ascending; replaced as they are read.
    """

    def __init__(
        self,
        plan: Plan,
        broker: Broker,
        *,
        namespace: str,
        output_namespace: str,
        settings: ServeSettings,
        queue: Queue,
        clock: Clock,
    ) -> None:
        names = plan_names(plan, namespace, output_namespace)
        self.plan = plan
        self.names = names
        self.namespace = output_namespace or namespace
        self.results = Results(settings.table_bytes)
        self.kept: list[int] = []
        self._broker = broker
        self._spaces = (namespace, output_namespace)
        self._queue = queue
        self._clock = clock
        self._retry_seconds = settings.retry_seconds
        self._listeners: set[Listener] = set()
        self._stop = threading.Event()
        self._follower = Follower(
            plan,
            broker,
            names,
            self.results,
            clock,
            announce=self._announce,
            before_final=self._ask_for_refresh,
            retry_seconds=settings.retry_seconds,
        )
        self._thread = threading.Thread(
            target=self._follower.run,
            args=(self._stop,),
            name=f"calmstream-follow-{plan.name}",
            daemon=True,
        )
        # The following belong to the jobs; one runs at a time.
        self._history: History | None = None
        self._history_trouble: Refused | None = _STARTING
        self._tried = clock.monotonic()
        self._refreshing = False

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float = 5.0) -> None:
        """Stop following and release the clients, as far as that is possible in this time."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(seconds)
        closing = self._queue.submit(self._close_history)
        with suppress(TimeoutError):  # a long computation is left alone
            closing.result(seconds)

    def turn(self) -> None:
        """Try again to read the counts if that has failed; to be called from time to time."""
        if self._history_trouble is None or self._follower.trouble is not None:
            return
        waited = self._clock.monotonic() - self._tried >= self._retry_seconds
        if self._follower.caught_up and waited:
            self._ask_for_refresh()

    def trouble(self) -> Refused | None:
        """Return why the plan is not served as it should be; None where it is."""
        if self._follower.trouble is not None:
            return self._follower.trouble
        if not self._follower.caught_up:
            return _STARTING
        found = self._history_trouble
        # A plan without a counts topic is served as far as it can be.
        return None if found is not None and found.problem is Problem.NOT_KEPT else found

    def silent_seconds(self) -> float:
        """Return the age of the last answer from a broker while requests fail; 0 otherwise."""
        return self._follower.silent_seconds()

    def listen(self, listener: Listener) -> None:
        """Call a function, on another thread, whenever something is published."""
        self._listeners.add(listener)

    def unlisten(self, listener: Listener) -> None:
        self._listeners.discard(listener)

    def require_results(self) -> None:
        """Check that what was published is known."""
        trouble = self._follower.trouble
        if self._follower.caught_up and (trouble is None or trouble.problem is Problem.UNAVAILABLE):
            return  # finals do not change: what is known is shown while the broker is away
        raise (trouble or _STARTING).copy()

    def submit(self, job: Callable[[History], T], peer: str) -> Future[T]:
        """Run a job of a peer with the history, on the pool.

        The future raises :class:`Refused` where the history cannot be read.
        """
        try:
            return self._queue.submit(lambda: self._with_history(job), peer=peer)
        except QueueFull:
            raise Refused(Problem.BUSY, "too many questions about this plan wait") from None

    def _with_history(self, job: Callable[[History], T]) -> T:
        if self._history is None or self._history_trouble is not None:
            raise (self._history_trouble or _STARTING).copy()
        try:
            return job(self._history)
        except CalmstreamError as error:
            raise refusal(error) from None

    def _announce(self, event: Manifest) -> None:
        for listener in tuple(self._listeners):
            listener(event)

    def _ask_for_refresh(self) -> None:
        if not self._refreshing:
            self._refreshing = True
            self._queue.submit(self._refresh)

    def _refresh(self) -> None:
        """Read the counts that were published since."""
        self._refreshing = False
        try:
            if self._history is None:
                namespace, output_namespace = self._spaces
                self._history = History(
                    self.plan,
                    self._broker,
                    namespace=namespace,
                    output_namespace=output_namespace,
                )
            self._history.refresh()
            self.kept = self._history.windows()
            first = self._history_trouble is not None
            self._history_trouble = None
            if first or self.plan.window >= PREPARE_SECONDS:
                self._queue.submit(self._prepare)
        except RecoverableError as error:
            self._history_trouble = Refused(Problem.UNAVAILABLE, str(error))
        except MissingTopic as error:
            self._close_history()
            self._history_trouble = Refused(Problem.NOT_KEPT, str(error))
        except CalmstreamError as error:
            # What was read so far may miss the record that cannot be read: begin anew.
            self._close_history()
            self._history_trouble = Refused(Problem.UNREADABLE, str(error))
        finally:
            self._tried = self._clock.monotonic()

    def _prepare(self) -> None:
        """Fit what is mostly asked for first."""
        for windows in (TOTAL, LATEST):
            with suppress(CalmstreamError):  # whoever asks gets the reason
                if self._history is not None:
                    self._history.model(windows)

    def _close_history(self) -> None:
        if self._history is not None:
            self._history.close()
            self._history = None


class ServedPlans:
    """One service for each plan that is wanted. For one thread, but for the properties."""

    def __init__(
        self, wanted: Callable[[], Mapping[str, Plan]], make: Callable[[Plan], PlanService]
    ) -> None:
        self._wanted = wanted
        self._make = make
        self._services: dict[str, PlanService] = {}
        self._by_name: Mapping[str, PlanService] = {}

    @property
    def by_name(self) -> Mapping[str, PlanService]:
        """The services by the plan's name; replaced as a whole."""
        return self._by_name

    def turn(self) -> None:
        """Take plans up and give plans back; let services try again what has failed."""
        wanted = self._wanted()
        gone = self._services.keys() - wanted.keys()
        for digest in gone:
            # Clients may take a while to close; the other plans do not wait for that.
            stop = self._services.pop(digest).stop
            threading.Thread(target=stop, daemon=True).start()
        for digest in wanted.keys() - self._services.keys():
            service = self._services[digest] = self._make(wanted[digest])
            service.start()
            gone.add(digest)
        if gone:
            self._by_name = {one.plan.name: one for one in self._services.values()}
        for service in self._services.values():
            service.turn()

    def troubles(self) -> dict[str, Refused]:
        """Return why plans are not served as they should be, by their name."""
        found = {name: service.trouble() for name, service in self._by_name.items()}
        return {name: one for name, one in found.items() if one is not None}

    def stop(self) -> None:
        threads = [threading.Thread(target=one.stop) for one in self._services.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
