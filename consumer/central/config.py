"""Settings of the aggregator."""

from __future__ import annotations

from calmstream.common.settings import Settings, bounded


class AggregatorConfig(Settings):
    """Settings of an aggregator.

    Attributes:
        raw_memory_bytes: memory reserved for the raw records of one window, in bytes. An aggregator
            does not start if the records of the plan's stated number of users could need more.
            After the start nothing depends on this setting. To make a release takes up to the same
            amount again.
    """

    raw_memory_bytes: int = bounded(1 << 30, ge=1 << 16, le=1 << 44)
