"""Releases one closed window in five steps: prepare, claim, pay, compute, send.

What can fail because of the data, for lack of memory, comes before claim and payment; noise is
drawn after the payment is durable. Then only the release depends on the data.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import structlog

from calmstream.broker.names import CentralNames
from calmstream.broker.transport import Sink
from calmstream.common.errors import CalmstreamError, FatalError
from calmstream.consumer.central import metrics as m
from calmstream.consumer.central.budget_account import BudgetAccount
from calmstream.consumer.central.claims import SEND_SECONDS, Claims
from calmstream.consumer.metrics.registry import Metrics
from calmstream.estimators.central.coding import code_records
from calmstream.estimators.central.dp_marginals import release, working_bytes
from calmstream.estimators.central.ledger import BudgetSpent, Ledger
from calmstream.estimators.central.plan import CentralPlan
from calmstream.estimators.central.release_wire import encode_level, encode_manifest
from calmstream.estimators.central.tuples import Records
from calmstream.estimators.randomness import Randomness

Prepared = tuple[Records, tuple[list[bytes], ...]]
"""A prepared window: the coded records, and the labels of each column."""


@contextmanager
def hide_error_texts(doing: str) -> Iterator[None]:
    """Hide texts of other libraries' errors, which are logged and may contain parts of records."""
    try:
        yield
    except CalmstreamError:
        raise
    except MemoryError:
        raise FatalError(
            f"{doing}: out of memory; give the aggregator more, or plan with a smaller sample"
        ) from None
    except Exception as error:  # noqa: BLE001 - no text of any error may leave the block
        raise FatalError(f"{doing}: internal error, {type(error).__name__}") from None


class Publication:
    """Releases the windows of a plan, one at a time."""

    def __init__(
        self,
        plan: CentralPlan,
        names: CentralNames,
        *,
        account: BudgetAccount,
        claims: Claims,
        sink: Sink,
        randomness: Randomness,
        metrics: Metrics,
        software: str,
        alive: Callable[[], None],
    ) -> None:
        self._plan = plan
        self._names = names
        self._account = account
        self._claims = claims
        self._sink = sink
        self._randomness = randomness
        self._metrics = metrics
        self._software = software
        self._alive = alive
        self._paid = {entry.release for entry in account.read().entries}
        self._prepared: Prepared | None = None
        self._unsent: deque[tuple[str, bytes]] = deque()
        self._sending: int | None = None
        self._log = structlog.get_logger("calmstream.aggregator")

    def wants(self, window: int) -> bool:
        """Return whether a window is not known to be paid or claimed."""
        return str(window) not in self._paid and not self._claims.taken(window)

    @property
    def has_unsent_release(self) -> bool:
        return self._sending is not None

    def steps(self, window: int, take: Callable[[int], list[bytes]]) -> Iterator[str]:
        """Make the release of a window if that is allowed, for :meth:`send`; yield after each step.

        After a RecoverableError, call it again with the same window: nothing is paid twice.
        """
        if self._prepared is None:
            if self.wants(window):
                self._check_budget(window)
            rows = take(window)  # also for a window that is skipped, so that it is forgotten
            if not self.wants(window):
                self._skip(window)
                return
            self._prepared = self._code(rows)
        yield "prepared"
        self._account.bind(self._claims.topic_id())
        self._claims.append(window)
        yield "claimed"
        nonce = self._claims.held(window)
        if nonce is None:
            self._prepared = None
            self._skip(window)
            return
        yield "won"
        ledger = self._pay(window)
        yield "paid"
        self._compute(window, nonce, ledger)
        yield "computed"

    def send(self) -> Iterator[str]:
        """Send what is not sent of a paid release; a repeated record does no harm."""
        while self._unsent:
            key, body = self._unsent[0]
            self._sink.send(self._names.releases, key.encode(), body, partition=0).wait(
                SEND_SECONDS
            )
            self._unsent.popleft()
            yield f"sent {key}"
        if self._sending is not None:
            ledger = self._account.finish(str(self._sending))
            self._metrics.inc(m.RELEASES)
            self._log.info("released", window=self._sending, budget=ledger.summary())
            self._sending = None

    def _code(self, rows: list[bytes]) -> Prepared:
        """Code the records; allocate the release's memory once: a lack shows before the payment."""
        with hide_error_texts("preparing a release"):
            records, labels = code_records(rows, len(self._plan.columns), self._alive)
            reserve(working_bytes(records, self._plan.levels))
            return records, labels

    def _check_budget(self, window: int) -> None:
        """Check that the account will accept the payment, before a claim excludes others."""
        ledger = self._account.read()
        self._paid |= {entry.release for entry in ledger.entries}
        if self.wants(window):
            with self._count_refusals():
                ledger.pay(str(window), self._plan.allocation.cost)

    @contextmanager
    def _count_refusals(self) -> Iterator[None]:
        try:
            yield
        except BudgetSpent:
            self._metrics.inc(m.REFUSED)
            raise

    def _pay(self, window: int) -> Ledger:
        with self._count_refusals():
            ledger = self._account.pay(str(window), self._plan.allocation.cost)
        self._paid.add(str(window))
        self._metrics.set(m.SPENT, ledger.spent_share)
        return ledger

    def _compute(self, window: int, nonce: str, ledger: Ledger) -> None:
        """Draw the noise, and queue the records of the release; the manifest is the last one."""
        assert self._prepared is not None
        records, labels = self._prepared
        self._prepared = None
        plan = self._plan
        with hide_error_texts("making a release"):
            released = release(
                records, plan.allocation, plan.settings, self._randomness, self._alive
            )
            for level in released.levels:
                body = encode_level(plan, window, nonce, level, released, labels)
                self._unsent.append((f"{window}/{level.k}", body))
                self._alive()
        manifest = encode_manifest(plan, window, nonce, released, ledger, self._software)
        self._unsent.append((f"{window}", manifest))
        self._sending = window

    def _skip(self, window: int) -> None:
        if str(window) in self._paid:
            self._log.info("window was paid for before", window=window)
            return
        self._metrics.inc(m.SKIPPED)
        self._log.warning(
            "window is claimed by another aggregator, or by one that died", window=window
        )


def reserve(size: int) -> None:
    """Check that memory is available: allocate it, write to every page, and free it."""
    np.ones(size, np.uint8)
