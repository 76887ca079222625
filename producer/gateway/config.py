"""A producer's settings, from the environment (``CALMSTREAM_...``) or the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from calmstream.common.settings import Settings, bounded
from calmstream.producer.gateway.batcher import (
    DEFAULT_LINGER,
    DEFAULT_MIN_BATCH,
    DEFAULT_SIZE,
    Small,
)
from calmstream.producer.gateway.sender import Budget

_DEFAULT = Budget()


class ProducerSettings(Settings):
    """Settings of batching and delivery; times in seconds.

    Every field is read from ``CALMSTREAM_<FIELD>``, for example ``CALMSTREAM_BATCH_SIZE``.
    ``min_batch`` and ``small`` apply to gateways only: `calmstream produce` takes its devices in
    random order, so that the time of a report says nothing about a device.

    Attributes:
        batch_size: maximum number of reports in a batch.
        linger: maximum wait for more reports.
        min_batch: minimum number of reports that leave a batcher together.
        small: what happens to fewer when their window closes.
        max_in_flight: maximum number of unacknowledged batches.
        delivery_attempts: maximum number of sends of one batch.
        delivery_seconds: maximum time for all sends of one batch.
        attempt_seconds: maximum time for one send.
        spool: directory of unacknowledged batches; None means no spool.
    """

    batch_size: int = bounded(DEFAULT_SIZE, ge=1)
    linger: float = bounded(DEFAULT_LINGER, gt=0)
    min_batch: int = bounded(DEFAULT_MIN_BATCH, ge=1)
    small: Small = "send"
    max_in_flight: int = bounded(_DEFAULT.in_flight, ge=1)
    delivery_attempts: int = bounded(_DEFAULT.attempts, ge=1)
    delivery_seconds: float = bounded(_DEFAULT.seconds, ge=0)
    attempt_seconds: float = bounded(_DEFAULT.attempt_seconds, gt=0)
    spool: Path | None = None

    def batching(self) -> dict[str, Any]:
        """Return the settings of `Batcher`, by parameter name."""
        return {
            "size": self.batch_size,
            "linger": self.linger,
            "min_batch": self.min_batch,
            "small": self.small,
            "budget": self.budget(),
        }

    def budget(self) -> Budget:
        """Return the delivery budget that these settings state."""
        return Budget(
            in_flight=self.max_in_flight,
            attempts=self.delivery_attempts,
            seconds=self.delivery_seconds,
            attempt_seconds=self.attempt_seconds,
        )
