"""The web server of the browser demo: files, documents, and names of the server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from calmstream.common.errors import FatalError, InvalidInput
from calmstream.web_demo.page import PageServer


@pytest.fixture
def page(tmp_path: Path) -> Iterator[PageServer]:
    (tmp_path / "index.html").write_text("<p>hello")
    (tmp_path / "app.js").write_text("1")
    (tmp_path / "secret.key").write_text("2")
    server = PageServer(tmp_path, 0)
    server.documents["/tables.json"] = lambda: {"reports": 3}
    yield server
    server.stop()


@pytest.mark.parametrize(
    ("path", "status", "media_type", "body"),
    [
        ("/", 200, "text/html; charset=utf-8", "<p>hello"),
        ("/app.js", 200, "text/javascript", "1"),
        ("/tables.json?x=1", 200, "application/json", '{"reports":3}'),
        ("/secret.key", 404, "text/plain", "there is no such page\n"),
        ("/../app.js", 200, "text/javascript", "1"),  # the client shortens it
    ],
)
def test_files_and_documents(
    page: PageServer, path: str, status: int, media_type: str, body: str
) -> None:
    found = httpx.get(page.address + path)
    assert (found.status_code, found.headers["content-type"]) == (status, media_type)
    assert found.text == body


def test_other_names_and_methods_are_refused(page: PageServer) -> None:
    assert httpx.get(page.address, headers={"host": "evil.example"}).status_code == 421
    assert httpx.post(page.address).status_code == 405


def test_a_port_in_use_and_a_folder_without_page_are_named(
    page: PageServer, tmp_path: Path
) -> None:
    with pytest.raises(FatalError, match="cannot serve the page on 127"):
        PageServer(tmp_path, int(page.address.rpartition(":")[2]))
    with pytest.raises(FatalError, match=r"cannot serve the page on 127\.0\.0\.1:99999"):
        PageServer(tmp_path, 99999)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match="make demo-web"):
        PageServer(tmp_path / "empty", 0)
