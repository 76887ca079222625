"""A producer's settings, from the environment (``CALMSTREAM_...``) or the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from producer.gateway.batcher import DEFAULT_LINGER, DEFAULT_MIN_BATCH, DEFAULT_SIZE, Small
from producer.gateway.sender import Budget

_DEFAULT = Budget()


class ProducerSettings(BaseSettings):
    """Settings of batching and delivery; times in seconds.

    Every field is read from ``CALMSTREAM_<FIELD>``, for example ``CALMSTREAM_BATCH_SIZE``.
    ``min_batch`` and ``small`` apply to gateways only: `calmstream produce` takes its devices in
    random order, so that the time of a report says nothing about a device.
    """

    model_config = SettingsConfigDict(env_prefix="CALMSTREAM_", extra="forbid", frozen=True)

    batch_size: int = Field(DEFAULT_SIZE, ge=1, description="most reports in a batch")
    linger: float = Field(DEFAULT_LINGER, gt=0, description="wait for more reports")
    min_batch: int = Field(
        DEFAULT_MIN_BATCH, ge=1, description="least reports that leave a batcher together"
    )
    small: Small = Field("send", description="what happens to fewer when their window closes")
    max_in_flight: int = Field(_DEFAULT.in_flight, ge=1, description="unacknowledged batches")
    delivery_attempts: int = Field(_DEFAULT.attempts, ge=1, description="sends of one batch")
    delivery_seconds: float = Field(_DEFAULT.seconds, ge=0, description="budget of one batch")
    attempt_seconds: float = Field(_DEFAULT.attempt_seconds, gt=0, description="wait for one send")
    spool: Path | None = Field(None, description="directory of unacknowledged batches")

    def batching(self) -> dict[str, Any]:
        """Return the settings of :class:`producer.gateway.batcher.Batcher`, by parameter name."""
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
