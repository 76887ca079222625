"""Definitions of metrics: the code registers them, the documentation lists them.

Names start with ``calmstream_``; units are base units (seconds, records, reports). Label values:
``plan`` is the plan's name, a hyphen and the first 8 digits of its digest, as in topic names;
``group`` is the group's number; ``reason`` is a rejection reason or the reason why reports were
given up; ``topic`` and ``partition`` name an input partition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PREFIX = "calmstream_"
LABELS = frozenset({"plan", "group", "reason", "topic", "partition"})

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """One metric.

    Attributes:
        name: full name; counters end in ``_total``.
        kind: counter, gauge or histogram.
        unit: what the metric counts or measures, for a table.
        labels: label names.
        help: the meaning, in one sentence.
        action: what to do about an unusual value.
        buckets: upper bounds of a histogram, ascending.
    """

    name: str
    kind: Kind
    unit: str
    labels: tuple[str, ...]
    help: str
    action: str
    buckets: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not self.name.startswith(PREFIX):
            raise ValueError(f"metric {self.name}: the prefix is {PREFIX}")
        if (self.kind == "counter") != self.name.endswith("_total"):
            raise ValueError(f"metric {self.name}: counters, and only they, end in _total")
        if not LABELS.issuperset(self.labels):
            raise ValueError(f"metric {self.name}: labels come from {sorted(LABELS)}")
        if (self.kind == "histogram") != bool(self.buckets):
            raise ValueError(f"metric {self.name}: buckets go with a histogram, and only there")
