"""Read one plan in a process of its own, and print what it cost."""

from __future__ import annotations

import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from calmstream import MemoryStore, read_device_plan
from calmstream.common.errors import PlanError
from tests.support.producer import unsigned_reporter


def answer(raw: bytes, connection: Connection) -> None:
    """Send ``refused`` with the message or ``reported``; seconds of CPU and peak bytes."""
    found: dict[str, Any] = {}
    start = time.process_time()
    plan = None
    try:
        plan = read_device_plan(raw)
    except PlanError as error:
        found["refused"] = str(error)
    found |= {"seconds": time.process_time() - start, "rss": _peak()}
    if plan is not None:
        begin = plan.start * 1000
        start = time.process_time()
        report = unsigned_reporter(plan, MemoryStore(), clock=lambda: begin).report({})
        found |= {"report_seconds": time.process_time() - start, "report_rss": _peak()}
        found["reported"] = report is not None
    connection.send(found)


def _peak() -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) << 10
