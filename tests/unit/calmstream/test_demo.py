"""The demo waits as long as something goes on, and not longer."""

from __future__ import annotations

import threading

import pytest

from calmstream.common.errors import FatalError
from calmstream.demo import Watchdog


class Waiting(threading.Event):
    """An event whose waits take no time: they move a clock, and what happens meanwhile is given."""

    def __init__(self, *progress: float) -> None:
        super().__init__()
        self.now = 0.0
        self._progress = list(progress)
        self.watchdog = Watchdog(40, 60, lambda: self.now)

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        end = self.now + timeout
        while self._progress and self._progress[0] <= end:
            self.now = self._progress.pop(0)
            self.watchdog.progress()
        self.now = end
        return self.is_set()


@pytest.mark.parametrize(
    ("progress", "end"),
    [((), 100.0), ((10.0,), 100.0), ((10.0, 70.0), 130.0), ((90.0, 149.0, 208.0), 268.0)],
)
def test_it_fails_after_the_patience_without_progress(
    progress: tuple[float, ...], end: float
) -> None:
    stop = Waiting(*progress)
    with pytest.raises(FatalError, match="no progress for 60 s"):
        stop.watchdog.run(stop)
    assert stop.now == end


def test_it_ends_when_stopped() -> None:
    stop = Waiting()
    stop.set()
    stop.watchdog.run(stop)
    assert stop.now <= 100.0
