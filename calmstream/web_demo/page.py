"""The page of the demo, its configuration and the newest tables, on loopback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from calmstream.common.errors import InvalidInput
from calmstream.common.http.answer import HttpReply
from calmstream.common.http.server import ServerRequest, ThreadServer
from calmstream.consumer.subscribe.subscribe import Snapshot

TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css"}
"""Media types of the files that are served."""

HOST = "127.0.0.1"

Document = Callable[[], Any]
"""Returns an object that is served as JSON."""


class PageServer:
    """Serves a directory and a few JSON documents.

    Only requests that name this server's own address are answered, so that no other page in the
    browser can read the tables.

    Attributes:
        address: address of the page.
        documents: objects that are served as JSON, by path.
    """

    def __init__(self, folder: Path, port: int) -> None:
        self._files = read_files(folder)
        self.documents: dict[str, Document] = {}
        self._server = ThreadServer(self._respond, HOST, port, "the page")
        self.address = f"http://{HOST}:{self._server.port}"

    def stop(self) -> None:
        """Stop serving."""
        self._server.close()

    def _respond(self, request: ServerRequest) -> HttpReply:
        status, media_type, body = self._content(request)
        headers = (
            (b"content-type", media_type.encode()),
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
        )
        return HttpReply(status, body, headers)

    def _content(self, request: ServerRequest) -> tuple[int, str, bytes]:
        path, port = request.path, self._server.port
        if request.header("host") not in {f"{HOST}:{port}", f"localhost:{port}"}:
            return 421, "text/plain", b"this server has another address\n"
        if request.method != "GET":
            return 405, "text/plain", b"only GET is answered\n"
        if path in self.documents:
            return 200, "application/json", orjson.dumps(self.documents[path]())
        if path in self._files:
            return 200, *self._files[path]
        return 404, "text/plain", b"there is no such page\n"


def read_files(folder: Path) -> dict[str, tuple[str, bytes]]:
    """Return media type and content of every file of the page, by path."""
    if not (folder / "index.html").is_file():
        raise InvalidInput(f"{folder}: there is no page; `make demo-web` builds it")
    files = {
        f"/{path.name}": (TYPES[path.suffix], path.read_bytes())
        for path in folder.iterdir()
        if path.suffix in TYPES
    }
    return {**files, "/": files["/index.html"]}


def tables(snapshot: Snapshot | None) -> dict[str, Any]:
    """Return the newest tables as the page reads them."""
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
