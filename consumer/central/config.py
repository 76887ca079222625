"""Settings of the aggregator."""

from __future__ import annotations

from pydantic import Field

from consumer.config import Settings


class AggregatorConfig(Settings):
    """What an aggregator may use.

    Attributes:
        raw_memory_bytes: most memory for the raw records of windows that are not released yet; at
            the limit the aggregator stops. Making a release of them takes up to as much again.
    """

    raw_memory_bytes: int = Field(1 << 30, ge=1 << 16, le=1 << 44)
