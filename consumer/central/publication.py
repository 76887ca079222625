"""Releases one closed window in five steps: prepare, claim, pay, compute, send.

What can fail because of the data, for lack of memory, comes before claim and payment; noise is
drawn after the payment is durable. Then only the release depends on the data.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import numpy as np
import structlog

from calmstream.broker.transport import Sink
from calmstream.common.errors import CalmstreamError, FatalError
from calmstream.consumer.central import metrics as m
from calmstream.consumer.central.claims import Claims
from calmstream.consumer.central.config import SEND_SECONDS, AggregatorContext
from calmstream.consumer.runtime.threads import begin, on_a_thread
from calmstream.estimators.central.coding import code_records
from calmstream.estimators.central.dp_marginals import working_bytes
from calmstream.estimators.central.release_wire import encode_level, encode_manifest, released_texts
from calmstream.estimators.central.tuples import Records

T = TypeVar("T")

Prepared = tuple[Records, tuple[list[bytes], ...]]  # the coded records, and each column's labels


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

    def __init__(self, context: AggregatorContext, claims: Claims, sink: Sink) -> None:
        self._context = context
        self._plan = context.plan
        self._account = context.account
        self._claims = claims
        self._sink = sink
        self._ledger = context.account.read()
        self._prepared: Prepared | None = None
        self._unsent: deque[tuple[str, bytes]] = deque()
        self._sending: int | None = None
        self._log = structlog.get_logger("calmstream.aggregator")

    def wants(self, window: int) -> bool:
        """Return whether a window is not known to be paid or claimed."""
        return str(window) not in self._ledger.entries and not self._claims.taken(window)

    @property
    def has_unsent_release(self) -> bool:
        return self._sending is not None

    def steps(self, window: int, take: Callable[[int], list[bytes]]) -> Iterator[str]:
        """Make the release of a window if that is allowed, for :meth:`send`; yield after each step.

        After a RecoverableError, call it again with the same window: nothing is paid twice.
        """
        if self._prepared is None:
            rows = take(window)  # also for a window that is skipped, so that it is forgotten
            self._ledger = self._account.read()
            if not self.wants(window):
                self._skip(window)
                return
            self._ledger.pay(str(window))  # refused before a claim is made
            self._prepared = self._while_alive("preparing a release", lambda: self._code(rows))
        yield "prepared"
        self._claims.bind()
        self._claims.append(window)
        yield "claimed"
        nonce = self._claims.held(window)
        if nonce is None:
            self._prepared = None
            self._skip(window)
            return
        yield "won"
        self._ledger = self._account.pay(str(window))
        self._context.metrics.set(m.SPENT, self._ledger.spent_share)
        yield "paid"
        prepared, self._prepared = self._prepared, None
        make = partial(self._computed, window, nonce, prepared)
        self._unsent.extend(self._while_alive("making a release", make))
        self._sending = window
        yield "computed"

    def send(self) -> Iterator[str]:
        """Send what is not sent of a paid release; a repeated record does no harm."""
        while self._unsent:
            key, body = self._unsent[0]
            self._sink.send(self._context.names.releases, key.encode(), body, partition=0).wait(
                SEND_SECONDS
            )
            self._unsent.popleft()
            yield f"sent {key}"
        if self._sending is not None:
            self._ledger = self._account.finish(str(self._sending))
            self._context.metrics.inc(m.RELEASES)
            self._log.info("released", window=self._sending, budget=self._ledger.summary())
            self._sending = None

    def _while_alive(self, doing: str, call: Callable[[], T]) -> T:
        """Do a long call on a thread of its own; meanwhile the aggregator is alive."""
        with hide_error_texts(doing):
            future = begin(call, on_a_thread)
            while not wait([future], timeout=1.0).done:
                self._context.health.turned()
            return future.result()

    def _code(self, rows: list[bytes]) -> Prepared:
        """Code the records; allocate the release's memory once: a lack shows before the payment."""
        records, labels = code_records(rows, len(self._plan.columns))
        reserve(working_bytes(records, self._plan.levels))
        return records, labels

    def _computed(self, window: int, nonce: str, prepared: Prepared) -> list[tuple[str, bytes]]:
        """Draw the noise; return keys and values of a release's records, the manifest last."""
        plan, (records, labels), software = self._plan, prepared, self._context.software
        released = plan.method.release(records, self._context.randomness)
        texts = released_texts(released, labels)
        levels = [
            (f"{window}/{level.k}", encode_level(plan, window, nonce, level, texts))
            for level in released.levels
        ]
        manifest = encode_manifest(plan, window, nonce, released, self._ledger, software)
        return [*levels, (f"{window}", manifest)]

    def _skip(self, window: int) -> None:
        if str(window) in self._ledger.entries:
            self._log.info("window was paid for before", window=window)
            return
        self._context.metrics.inc(m.SKIPPED)
        self._log.warning(
            "window is claimed by another aggregator, or by one that died", window=window
        )


def reserve(size: int) -> None:
    """Check that memory is available: allocate it, write to every page, and free it."""
    np.ones(size, np.uint8)
