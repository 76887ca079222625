"""Runs estimates and tests of change on other threads, because they would delay the polls."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

Start = Callable[[Callable[[], None]], None]
"""Runs a function on another thread, now or later."""


def on_a_thread(run: Callable[[], None]) -> None:
    threading.Thread(target=run, name="estimate", daemon=True).start()


@dataclass(frozen=True, slots=True)
class EstimateRunner:
    """Where estimates, and tests of change, run; a step waits ``wait_seconds`` for an estimate."""

    start: Start = on_a_thread
    wait_seconds: float = 1.0
    start_tests: Start = on_a_thread
