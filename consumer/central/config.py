"""Settings of the aggregator."""

from __future__ import annotations

from calmstream.common.settings import Settings, bounded


class AggregatorConfig(Settings):
    """Settings of an aggregator."""

    # Of one window of the plan's stated users, or it does not start; a release takes as much again.
    raw_memory_bytes: int = bounded(1 << 30, ge=1 << 16, le=1 << 44)
