"""Runs estimates and tests of change on other threads, because they would delay the polls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from calmstream.consumer.runtime.threads import on_a_thread

Start = Callable[[Callable[[], None]], None]
"""Runs a function on another thread, now or later."""


@dataclass(frozen=True, slots=True)
class EstimateRunner:
    """Where estimates, and tests of change, run; a step waits ``wait_seconds`` for an estimate."""

    start: Start = on_a_thread
    wait_seconds: float = 1.0
    start_tests: Start = on_a_thread
