"""A file system in memory that crashes at any step, tears, fails and fills up."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from pathlib import Path
from random import Random

from calmstream.common.errors import RecoverableError
from calmstream.producer.gateway.durable.files import Files, LogFile


class Crash(BaseException): ...


@dataclass
class Content:
    """A file: what was written, and what a power failure certainly leaves of it."""

    current: bytes = b""
    durable: bytes = b""
    named: bool = False


class FaultyFiles(Files):
    """Stops after ``until_crash`` operations; ``room`` bytes; ``failing`` part of all fail."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self.until_crash: int | None = None
        self.room = 1 << 30
        self.failing = 0.0
        self.contents: dict[Path, Content] = {}
        self.directories: set[Path] = set()

    def crash(self) -> None:
        """Forget what a power failure forgets; anything not synced may be there or not."""
        for path, content in list(self.contents.items()):
            if not content.named and self.dice.random() < 0.5:
                del self.contents[path]
                continue
            content.current = content.durable = self._left(content)
            content.named = True
        self.until_crash = None

    def _left(self, content: Content) -> bytes:
        if not content.current.startswith(content.durable):
            return self.dice.choice([content.current, content.durable])
        tail = content.current[len(content.durable) :]
        tail = tail[: self.dice.randint(0, len(tail))]
        if tail and self.dice.random() < 0.3:  # a block that was not written reads as zeros
            cut = self.dice.randrange(len(tail))
            tail = tail[:cut] + bytes(len(tail) - cut)
        return content.durable + tail

    def step(self) -> None:
        if self.until_crash is not None:
            self.until_crash -= 1
            if self.until_crash < 0:
                raise Crash
        if self.dice.random() < self.failing:
            raise OSError(errno.EIO, "made up")

    def used(self) -> int:
        return sum(len(content.current) for content in self.contents.values())

    def _need(self, size: int) -> None:
        if self.used() + size > self.room:
            raise OSError(errno.ENOSPC, "full")

    def names(self, directory: Path) -> list[str]:
        below = {path.name for path in self.contents if path.parent == directory}
        return sorted(below | {path.name for path in self.directories if path.parent == directory})

    def make_directory(self, path: Path) -> None:
        self.step()
        self.directories |= {path, *path.parents}

    def open(self, path: Path) -> FaultyFile:
        self.step()
        return FaultyFile(self, self.contents.setdefault(path, Content()))

    def sync_directory(self, path: Path) -> None:
        self.step()
        for name, content in self.contents.items():
            content.named |= name.parent == path

    def remove(self, path: Path) -> None:
        self.step()
        self.contents.pop(path, None)

    def read(self, path: Path) -> bytes | None:
        content = self.contents.get(path)
        return None if content is None else content.current

    def write(self, path: Path, data: bytes) -> None:
        try:
            self.step()
            self._need(len(data))
        except OSError as error:
            raise RecoverableError(str(error)) from None
        self.contents[path] = Content(data, data, named=True)


class FaultyFile(LogFile):
    def __init__(self, files: FaultyFiles, content: Content) -> None:
        self._files, self._content = files, content

    def size(self) -> int:
        return len(self._content.current)

    def append(self, data: bytes) -> None:
        room = max(self._files.room - self._files.used(), 0)
        try:
            self._files.step()
        except BaseException:
            part = self._files.dice.randint(0, len(data))
            self._content.current += data[: min(part, room)]
            raise
        self._content.current += data[:room]
        if len(data) > room:
            raise OSError(errno.ENOSPC, "full")

    def sync(self) -> None:
        try:
            self._files.step()
        except BaseException:
            if self._content.current.startswith(self._content.durable):
                tail = len(self._content.current) - len(self._content.durable)
                kept = len(self._content.durable) + self._files.dice.randint(0, tail)
                self._content.durable = self._content.current[:kept]
            raise
        self._content.durable = self._content.current

    def truncate(self, size: int) -> None:
        self._files.step()
        self._content.current = self._content.current[:size]

    def read(self, offset: int, length: int) -> bytes:
        return self._content.current[offset : offset + length]

    def close(self) -> None:
        pass
