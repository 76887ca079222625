"""Waits for a folder that another sink is writing to, for a limited time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from calmstream.common.errors import RecoverableError
from calmstream.common.files import exclusive

WAIT_SECONDS = 10.0
"""Maximum time to wait. Another sink needs about a second for a batch of sets."""

_PAUSE_SECONDS = 0.05


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file ``<path>.lock``, see `exclusive`."""
    deadline = time.monotonic() + WAIT_SECONDS
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(exclusive(path, wait=False))
                break
            except RecoverableError as error:
                held = isinstance(error.__cause__, BlockingIOError)
                if not held or time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE_SECONDS)
        yield
