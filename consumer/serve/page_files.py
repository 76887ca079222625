"""The built files of the page, read once and served from memory."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

ASSETS = Path(__file__).parent / "assets"
"""Where the built page ships: ``index.html``, and files with a hash in their names."""

MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}
"""Only files of these types are served."""

_HASHED = re.compile(r"-[0-9A-Za-z]{8,}\.[a-z0-9]+$")


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file of the page.

    Attributes:
        body: its content.
        media_type: of HTTP.
        etag: of its content.
        fixed: whether its name has a hash of its content, so that it never changes.
    """

    body: bytes
    media_type: str
    etag: str
    fixed: bool


class PageFiles:
    """The files of a folder; none if it does not exist."""

    def __init__(self, folder: Path = ASSETS) -> None:
        self._files: dict[str, PageFile] = {}
        for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
            if path.is_file() and path.suffix in MEDIA_TYPES:
                body = path.read_bytes()
                etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
                name = path.relative_to(folder).as_posix()
                fixed = _HASHED.search(name) is not None
                self._files[name] = PageFile(body, MEDIA_TYPES[path.suffix], etag, fixed)

    @property
    def index(self) -> PageFile | None:
        """The page itself; None if it was not built."""
        return self._files.get("index.html")

    def asset(self, name: str) -> PageFile | None:
        """Return a file beside the page."""
        return None if name == "index.html" else self._files.get(name)
