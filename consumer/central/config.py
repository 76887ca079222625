"""Settings of the aggregator."""

from __future__ import annotations

from pydantic import Field

from consumer.runtime.config import Settings


class AggregatorConfig(Settings):
    """Settings of an aggregator.

    Attributes:
        raw_memory_bytes: memory set aside for the raw records of one window. An aggregator does not
            start where the users that the plan states may need more, whatever their records say;
            later nothing depends on it. Making a release takes up to as much again.
    """

    raw_memory_bytes: int = Field(1 << 30, ge=1 << 16, le=1 << 44)
