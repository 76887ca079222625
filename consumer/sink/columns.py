"""The columns that describe a set, with the same names in every target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from calmstream.consumer.sink.stored import StoredSet

OF_SET: Mapping[str, Callable[[StoredSet], Any]] = {
    "output_namespace": lambda s: s.output_namespace,
    "plan": lambda s: s.manifest.plan,
    "plan_name": lambda s: s.manifest.name,
    "window_number": lambda s: s.manifest.window,
    "kind": lambda s: s.manifest.kind.value,
    "window_start": lambda s: datetime.fromtimestamp(s.manifest.start, UTC),
    "window_end": lambda s: datetime.fromtimestamp(s.manifest.end, UTC),
    "revision": lambda s: s.revision,
    "offsets": lambda s: list(s.manifest.revision),
    "reports": lambda s: s.manifest.reports,
    "rejected": lambda s: s.rejected,
    "method": lambda s: s.manifest.method,
    "epsilon": lambda s: s.manifest.epsilon,
}
"""Columns of the table of sets and their values. The first eight are also columns of the cells."""
