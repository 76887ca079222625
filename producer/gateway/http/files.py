"""The file of application keys, read again when it changes."""

from __future__ import annotations

from pathlib import Path

from calmstream.common.errors import InvalidInput
from calmstream.producer.gateway.http.app_keys import AppKeys, read_app_keys


class WatchedKeys:
    """The keys of a file. Only one thread calls :meth:`refresh`.

    Args:
        path: of the file.

    Attributes:
        keys: in force; replaced as a whole, so that any thread may read it.
        stale: whether the file has changed to something that cannot be read.

    Raises:
        InvalidInput: the file cannot be read at the start.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = self._present_stamp()
        self.keys: AppKeys = read_app_keys(path)
        self.stale = False

    def refresh(self) -> str:
        """Read the file where it has changed; return why it cannot be read, or nothing."""
        stamp = self._present_stamp()
        if stamp == self._stamp:
            return ""
        self._stamp = stamp
        try:
            self.keys = read_app_keys(self._path)
        except InvalidInput as error:
            self.stale = True
            return str(error)
        self.stale = False
        return ""

    def _present_stamp(self) -> tuple[int, int, int]:
        try:
            found = self._path.stat()
        except OSError:
            return 0, 0, 0
        return found.st_mtime_ns, found.st_size, found.st_ino
