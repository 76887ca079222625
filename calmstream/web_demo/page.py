"""A small web server on loopback: the page, its configuration and the newest tables."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson

from consumer.subscribe.subscribe import Snapshot
from estimators.errors import FatalError, InvalidInput

TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css"}
"""Media types of the files that are served."""

IDLE_SECONDS = 30
"""A connection without a request is closed after this time."""

Document = Callable[[], Any]
"""Returns an object that is served as JSON."""


class PageServer:
    """Serves a directory and a few JSON documents.

    Only requests that name this server's own address are answered, so that no other page in the
    browser can read the tables.

    Args:
        folder: directory with the page; its files are read at the start.
        port: 0 for any free one.

    Attributes:
        address: address of the page.
        documents: objects that are served as JSON, by path.

    Raises:
        InvalidInput: the directory has no page.
        FatalError: the port cannot be used.
    """

    def __init__(self, folder: Path, port: int) -> None:
        files = read_files(folder)
        self.documents: dict[str, Document] = {}
        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(files, self.documents))
        except (OSError, OverflowError) as error:
            raise FatalError(f"cannot serve the page on port {port}: {error}") from None
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def start(self) -> None:
        """Serve in a thread of its own."""
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


def read_files(folder: Path) -> dict[str, tuple[str, bytes]]:
    """Return media type and content of every file of the page, by path.

    Raises:
        InvalidInput: the directory has no page.
    """
    if not (folder / "index.html").is_file():
        raise InvalidInput(f"{folder}: there is no page; `make demo-web` builds it")
    files = {
        f"/{path.name}": (TYPES[path.suffix], path.read_bytes())
        for path in folder.iterdir()
        if path.suffix in TYPES
    }
    return {**files, "/": files["/index.html"]}


def tables(snapshot: Snapshot | None) -> dict[str, Any]:
    """Return the newest tables as the page reads them.

    Returns:
        ``kind``, ``window``, ``reports`` and ``tables``: a list of objects with ``attributes``,
        ``shares`` and ``stderr`` in row-major order. Without a snapshot, ``reports`` is 0.
    """
    if snapshot is None:
        return {"kind": None, "window": None, "reports": 0, "tables": []}
    return {
        "kind": snapshot.kind.value,
        "window": snapshot.window,
        "reports": snapshot.manifest.reports,
        "tables": [
            {
                "attributes": list(names),
                "shares": list(record.table),
                "stderr": list(record.stderr),
            }
            for names, record in snapshot.marginals.items()
        ],
    }


def _handler(
    files: Mapping[str, tuple[str, bytes]], documents: Mapping[str, Document]
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers GET requests from memory."""

        timeout = IDLE_SECONDS

        def do_GET(self) -> None:
            """Answer one request."""
            path = self.path.partition("?")[0]
            if self.headers.get("Host") not in self._own_names():
                self._answer(421, "text/plain", b"this server has another address\n")
            elif path in documents:
                self._answer(200, "application/json", orjson.dumps(documents[path]()))
            elif path in files:
                self._answer(200, *files[path])
            else:
                self._answer(404, "text/plain", b"there is no such page\n")

        def _own_names(self) -> set[str]:
            port = self.connection.getsockname()[1]
            return {f"127.0.0.1:{port}", f"localhost:{port}"}

        def _answer(self, status: int, media_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Write no access log."""

    return Handler
