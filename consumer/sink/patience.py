"""Waits for files that another process is using, for a limited time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from calmstream.common.errors import RecoverableError
from calmstream.common.files import exclusive

T = TypeVar("T")

PATIENCE_SECONDS = 10.0
"""Maximum time to wait. Another sink needs about a second for a batch of sets."""

_PAUSE_SECONDS = 0.05


def patiently(call: Callable[[], T], busy: Callable[[Exception], bool]) -> T:
    """Repeat a call while it fails because something is in use.

    Args:
        call: the call.
        busy: returns whether an error means that waiting can help.

    Raises:
        Exception: the last error of the call.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return call()
        except Exception as error:
            if not busy(error) or time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_SECONDS)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file ``<path>.lock``, see `exclusive`.

    Raises:
        RecoverableError: it was not free for :data:`PATIENCE_SECONDS`, or cannot be made.
    """
    with ExitStack() as stack:
        patiently(lambda: stack.enter_context(exclusive(path, wait=False)), _is_held)
        yield


def _is_held(error: Exception) -> bool:
    return isinstance(error, RecoverableError) and isinstance(error.__cause__, BlockingIOError)
