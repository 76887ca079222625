"""The processes of one plan, which a test kills, freezes, terminates and starts again."""

from __future__ import annotations

import contextlib
import signal
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from tests.support.service.processes import Process

STOP_SECONDS = 40.0


class Crew:
    """``calmstream consume`` processes, one in each place; all start at once.

    Attributes:
        processes: the present process of each place.
        frozen: ports of the halted processes.
        left: number of processes that ended by themselves after a freeze, as documented.
    """

    def __init__(
        self,
        directory: Path,
        where: Sequence[object],
        roles: Sequence[str],
        settings: dict[str, str],
    ) -> None:
        self.frozen: set[int] = set()
        self.left = 0
        self._directory = directory
        self._where = where
        self._roles = roles
        self._settings = settings
        self._thawed: set[int] = set()
        self._started = 0
        self.processes = [self._start(place) for place in range(len(roles))]

    def of(self, role: str) -> list[Process]:
        return [p for p, own in zip(self.processes, self._roles, strict=True) if own == role]

    def kill(self, place: int) -> None:
        self.processes[place].kill()
        self.frozen.discard(self.processes[place].port)
        self.processes[place] = self._start(place)

    def terminate(self, place: int) -> None:
        self.stop(self.processes[place])
        self.processes[place] = self._start(place)

    def stop(self, *processes: Process) -> None:
        for process in processes:
            process.signal(signal.SIGTERM)
        for process in processes:
            assert process.wait(STOP_SECONDS) == 0, process.tail()

    def freeze(self, place: int) -> Process:
        process = self.processes[place]
        self.frozen.add(process.port)
        process.signal(signal.SIGSTOP)
        return process

    def thaw(self, process: Process) -> None:
        if process.alive():
            process.signal(signal.SIGCONT)
        self.frozen.discard(process.port)
        self._thawed.add(process.port)

    def restart_dead(self) -> None:
        """Restart ended processes; assert that each was frozen before and gives that as reason."""
        for place, process in enumerate(self.processes):
            if not process.alive():
                assert process.port in self._thawed, f"ended by itself: {process.tail()}"
                assert "no poll for" in process.tail(), process.tail()
                self.left += 1
                self.processes[place] = self._start(place)

    def pages(self) -> list[dict[str, float]]:
        return [metrics(p) for p in self.processes if p.port not in self.frozen]

    def close(self) -> None:
        for process in self.processes:
            with contextlib.suppress(Exception):
                process.signal(signal.SIGCONT)
            process.kill()

    def _start(self, place: int) -> Process:
        self._started += 1
        role = self._roles[place]
        log = self._directory / f"{role}-{self._started}.log"
        words = ["consume", *self._where, "--role", role]
        return Process(log, *words, settings=self._settings)


def page(process: Process) -> list[tuple[str, float]]:
    """Return the product's series and their values; none while the process does not answer."""
    text = process.page("/metrics", 1.0)[1]
    lines = (line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("calmstream_"))
    return [(series, float(value)) for series, value in lines]


def metrics(process: Process) -> dict[str, float]:
    """Return the sum of each metric over its labels; empty while the process does not answer."""
    values: dict[str, float] = defaultdict(float)
    for series, value in page(process):
        values[series.split("{")[0]] += value
    return values
