"""The release of one closed window, step by step: prepare, claim, pay, compute, publish.

The order is what protects people. Whatever may fail because of the data (memory for the coded table
and for the release itself) is done first, while nothing is claimed or paid. Then the claim decides
which aggregator may go on, then the account pays, durably, and only then noise is drawn. After that
nothing depends on the data any more but the release itself: what is computed is sent until the
broker takes it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import structlog

from estimators.central.coding import code_records
from estimators.central.dp_marginals import release, working_bytes
from estimators.central.ledger import BudgetSpent, Ledger
from estimators.central.release_wire import encode_level, encode_manifest
from estimators.errors import CalmstreamError, FatalError

if TYPE_CHECKING:
    from broker.names import CentralNames
    from broker.transport import Sink
    from consumer.central.budget_account import BudgetAccount
    from consumer.central.claims import Claims
    from consumer.central.metrics import CentralMetrics
    from estimators.central.plan import CentralPlan
    from estimators.central.tuples import Records
    from estimators.randomness import Randomness

SEND_SECONDS = 30.0

Prepared = tuple[int, "Records", tuple[list[bytes], ...]]


@contextmanager
def unspoken(doing: str) -> Iterator[None]:
    """Let no error out of a block that works on raw records but those with texts of our own.

    Texts and numbers in other errors may come from records, and errors are logged.

    Raises:
        FatalError: in place of any other error, with its type alone.
    """
    try:
        yield
    except CalmstreamError:
        raise
    except MemoryError:
        raise FatalError(
            f"{doing}: out of memory; give the aggregator more, or plan with a smaller sample"
        ) from None
    except Exception as error:  # noqa: BLE001 - whatever it is, its text must not leave
        raise FatalError(f"{doing}: internal error, {type(error).__name__}") from None


class Publication:
    """Releases the windows of a plan, one at a time.

    Args:
        plan: what is collected.
        names: topics.
        account: the budget.
        claims: of this process.
        sink: for the releases topic.
        randomness: the operating system's CSPRNG but in tests.
        metrics: nothing in them depends on records.
        software: version for the manifests.
        alive: called every few seconds or more often, also while computing.
    """

    def __init__(
        self,
        plan: CentralPlan,
        names: CentralNames,
        *,
        account: BudgetAccount,
        claims: Claims,
        sink: Sink,
        randomness: Randomness,
        metrics: CentralMetrics,
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
        """Whether the window may still be released: as far as known neither paid nor claimed."""
        return str(window) not in self._paid and not self._claims.taken(window)

    @property
    def owes(self) -> bool:
        """Whether a release is paid for and has not left yet."""
        return self._sending is not None

    def steps(self, window: int, take: Callable[[int], list[bytes]]) -> Iterator[str]:
        """Make the release of a window, if it may be made; :meth:`send` sends it.

        Yields after every step. After a RecoverableError call it again: nothing is paid twice.

        Args:
            window: closed.
            take: gives the window's packed records, and forgets them.

        Raises:
            BudgetSpent: the budget does not cover it; nothing was computed.
            RecoverableError: the broker did not answer.
            FatalError: memory, account or topic are unusable.
        """
        if self._prepared is None:
            if self.wants(window):
                self._check_budget(window)
            rows = take(window)
            if not self.wants(window):
                self._skip(window)
                return
            self._prepared = (window, *self._code(rows))
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
        """Send what is paid for and has not left. The same bytes again are the same release."""
        while self._unsent:
            key, body = self._unsent[0]
            self._sink.send(self._names.releases, key.encode(), body, partition=0).wait(
                SEND_SECONDS
            )
            self._unsent.popleft()
            yield f"sent {key}"
        if self._sending is not None:
            ledger = self._account.finish(str(self._sending))
            self._metrics.released()
            self._log.info("released", window=self._sending, budget=ledger.summary())
            self._sending = None

    def _code(self, rows: list[bytes]) -> tuple[Records, tuple[list[bytes], ...]]:
        """The coded table. Memory for the release is asked for now, not after the payment."""
        with unspoken("preparing a release"):
            records, labels = code_records(rows, len(self._plan.columns), self._alive)
            reserve(working_bytes(records, self._plan.levels))
            return records, labels

    def _check_budget(self, window: int) -> None:
        """Refuse here what the account would refuse, before a claim takes it from others.

        Raises:
            BudgetSpent: the budget does not cover another release.
        """
        ledger = self._account.read()
        self._paid |= {entry.release for entry in ledger.entries}
        if self.wants(window):
            with self._counted():
                ledger.pay(str(window), self._plan.allocation.cost)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        try:
            yield
        except BudgetSpent:
            self._metrics.refused()
            raise

    def _pay(self, window: int) -> Ledger:
        with self._counted():
            ledger = self._account.pay(str(window), self._plan.allocation.cost)
        self._paid.add(str(window))
        self._metrics.spent(ledger)
        return ledger

    def _compute(self, window: int, nonce: str, ledger: Ledger) -> None:
        """Draw the noise, and note what is to be sent, the manifest last."""
        assert self._prepared is not None
        _, records, labels = self._prepared
        self._prepared = None
        plan = self._plan
        with unspoken("making a release"):
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
        self._metrics.skipped()
        self._log.warning(
            "window is claimed by another aggregator, or by one that died", window=window
        )


def reserve(size: int) -> None:
    """Take so many bytes of memory, use every page of them, and give them back.

    Raises:
        MemoryError: there are not so many; the system may also end the process.
    """
    np.ones(size, np.uint8)
