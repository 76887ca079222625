"""One plan: its results as they are published, and its questions on the pool."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from calmstream.broker.names import TopicNames
from calmstream.broker.topic_watch import TopicWatch
from calmstream.broker.transport import Broker
from calmstream.common.clock import Clock
from calmstream.common.errors import CalmstreamError, MissingTopic, RecoverableError
from calmstream.consumer.read.history import History
from calmstream.consumer.read.ranges import LATEST, TOTAL
from calmstream.consumer.serve.problems import Problem, Refused, refusal
from calmstream.consumer.serve.results import Results
from calmstream.consumer.serve.turns import Queue
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.consumer.subscribe.snapshot_topic import SnapshotTopic
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.snapshot import Kind

T = TypeVar("T")
PREPARE_SECONDS = 60  # from this window on, newest models are fitted before anybody asks
CHECK_SECONDS = 3.0  # between two requests for the topic's end, which show that brokers answer
_POLL_SECONDS = 0.2
_STARTING = Refused(Problem.STARTING, "the plan's results are still being read")
_LOG = logging.getLogger("calmstream.serve")


class PlanService:
    """Serves one plan; for any thread. A thread of its own follows the snapshots and recovers.

    It asks for a refresh of the history before it notes a final; jobs of a plan run in order, so a
    question about this final meets its counts.
    """

    def __init__(
        self,
        plan: Plan,
        broker: Broker,
        names: TopicNames,
        queue: Queue,
        clock: Clock,
        *,
        retry_seconds: float,
    ) -> None:
        self.plan = plan
        self.names = names
        self.results = Results()
        self.kept: list[int] = []
        self._broker = broker
        self._queue = queue
        self._clock = clock
        self._retry_seconds = retry_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"calmstream-follow-{plan.name}", daemon=True
        )
        # The following belong to the thread.
        self._topic: SnapshotTopic | None = None
        self._watch: TopicWatch | None = None
        self._caught_up = False
        self._topic_trouble: Refused | None = None
        # The following belong to the jobs; one runs at a time.
        self._history: History | None = None
        self._history_trouble: Refused | None = _STARTING
        self._tried = clock.monotonic()
        self._refreshing = False

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float = 5.0) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(seconds)
        closing = self._queue.submit(self._close_history)
        with suppress(TimeoutError):  # a long computation is left alone
            closing.result(seconds)

    def turn(self) -> None:
        """Try again to read the counts if that has failed; to be called from time to time."""
        if self._history_trouble is None or self._topic_trouble is not None:
            return
        waited = self._clock.monotonic() - self._tried >= self._retry_seconds
        if self._caught_up and waited:
            self._ask_for_refresh()

    def trouble(self) -> Refused | None:
        found = self._topic_trouble or (None if self._caught_up else _STARTING)
        if found is not None:
            return found
        found = self._history_trouble
        # A plan without a counts topic is served as far as it can be.
        return None if found is not None and found.problem is Problem.NOT_KEPT else found

    def silent_seconds(self) -> float:
        watch = self._watch
        return 0.0 if watch is None else watch.silent_seconds()

    def require_results(self) -> None:
        trouble = self._topic_trouble
        if self._caught_up and (trouble is None or trouble.problem is Problem.UNAVAILABLE):
            return  # finals do not change: what is known is shown while the broker is away
        raise (trouble or _STARTING).copy()

    def submit(self, job: Callable[[History], T], peer: str) -> Future[T]:
        """Run a job of a peer with the history on the pool; the future may raise `Refused`."""
        return self._queue.submit(lambda: self._with_history(job), peer=peer)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._follow()
            except RecoverableError as error:
                self._topic_trouble = refusal(error)
            except Exception as error:  # noqa: BLE001 - the thread lives, and says why
                self._close_topic()
                self._topic_trouble = self._unreadable(error)
            self._stop.wait(self._retry_seconds)
        self._close_topic()

    def _follow(self) -> None:
        topic, watch = self._topic, self._watch
        if topic is None or watch is None:
            self._close_topic()
            self._topic = topic = SnapshotTopic(
                self.plan, self._broker, self.names, self._clock, _LOG.warning
            )
            self._watch = watch = topic.watched()
            self.results.clear()
            self._caught_up = False
        checked = self._clock.monotonic() - CHECK_SECONDS
        while not self._stop.is_set():
            watch.turn()
            found = topic.sets(_POLL_SECONDS)
            for snapshot in found or ():
                self._take(snapshot)
            due = self._clock.monotonic() - checked >= CHECK_SECONDS
            if found is None and (due or not self._caught_up):
                self._check_end(topic)
                checked = self._clock.monotonic()

    def _take(self, snapshot: Snapshot) -> None:
        if snapshot.kind is Kind.FINAL and self._caught_up:
            self._ask_for_refresh()
        self.results.take(snapshot)

    def _check_end(self, topic: SnapshotTopic) -> None:
        if topic.at_end() and not self._caught_up:
            self._ask_for_refresh()
            self._caught_up = True
        self._topic_trouble = None

    def _unreadable(self, error: Exception) -> Refused:
        topic = self.names.snapshots
        if isinstance(error, MissingTopic):
            over = self._clock.now_ms() >= self.plan.window_end(self.plan.windows - 1)
            if over or self.results.newest is not None:
                return Refused(Problem.RETIRED, f"topic {topic} was deleted: its results are gone")
            text = f"topic {topic} does not exist; create it: calmstream topics"
        elif isinstance(error, CalmstreamError):
            text = str(error)
        else:
            _LOG.exception("reading %s failed", topic)
            text = f"reading failed: {type(error).__name__}; please report it"
        return Refused(Problem.UNREADABLE, text)

    def _close_topic(self) -> None:
        if self._topic is not None:
            self._topic.close()
        self._topic = self._watch = None

    def _with_history(self, job: Callable[[History], T]) -> T:
        if self._history is None or self._history_trouble is not None:
            raise (self._history_trouble or _STARTING).copy()
        try:
            return job(self._history)
        except CalmstreamError as error:
            raise refusal(error) from None

    def _ask_for_refresh(self) -> None:
        if not self._refreshing:
            self._refreshing = True
            self._queue.submit(self._refresh)

    def _refresh(self) -> None:
        self._refreshing = False
        try:
            if self._history is None:
                self._history = History(
                    self.plan,
                    self._broker,
                    namespace=self.names.namespace,
                    output_namespace=self.names.output_namespace,
                )
            self._history.refresh()
            self.kept = self._history.windows()
            first = self._history_trouble is not None
            self._history_trouble = None
            if first or self.plan.window >= PREPARE_SECONDS:
                self._queue.submit(self._prepare)
        except RecoverableError as error:
            self._history_trouble = refusal(error)
        except CalmstreamError as error:
            # What was read so far may miss the record that cannot be read: begin anew.
            self._close_history()
            missing = isinstance(error, MissingTopic)
            problem = Problem.NOT_KEPT if missing else Problem.UNREADABLE
            self._history_trouble = Refused(problem, str(error))
        finally:
            self._tried = self._clock.monotonic()

    def _prepare(self) -> None:
        for windows in (TOTAL, LATEST):
            with suppress(CalmstreamError):  # whoever asks gets the reason
                if self._history is not None:
                    _ = self._history.counted(windows).model  # fitted, and kept

    def _close_history(self) -> None:
        if self._history is not None:
            self._history.close()
            self._history = None
