"""What commands print for programs and scripts, and how they end; `terminal` prints for people."""

from __future__ import annotations

import signal
import sys
import threading
from typing import Any

import orjson

from calmstream.common.text import visible


def say(*lines: object, error: bool = False) -> None:
    """Print lines; what labels and names have in them acts on nobody's terminal."""
    for line in lines:
        print(visible(str(line)), file=sys.stderr if error else sys.stdout, flush=True)


def say_json(document: Any, option: int = 0) -> None:
    """Print a JSON object in one line."""
    sys.stdout.buffer.write(orjson.dumps(document, option=option) + b"\n")
    sys.stdout.flush()


def stopped_by_signals() -> threading.Event:
    """Return an event that SIGINT and SIGTERM set."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop
