"""The built page as it ships: every file is there and used, and nothing names another host."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from calmstream.consumer.serve.guard import POLICY
from calmstream.consumer.serve.routes import ASSETS
from tests.support.serving import filled, serving_bench

ROOT = Path(__file__).resolve().parents[4]
NAMES = sorted(path.name for path in ASSETS.iterdir())
STANDARDS = ("http://www.w3.org/",)  # names of formats, which nobody loads


def test_the_page_names_its_files_and_all_of_them_are_served() -> None:
    named = set(re.findall(r'"assets/([^"]+)"', (ASSETS / "index.html").read_text()))
    assert named
    with serving_bench(filled(windows=1)) as server:
        assert server.client.get("/").content == (ASSETS / "index.html").read_bytes()
        for name in (*named, *NAMES):
            found = server.client.get(f"/assets/{name}")
            assert found.content == (ASSETS / name).read_bytes()
            again = {"if-none-match": found.headers["etag"]}
            assert server.client.get(f"/assets/{name}", headers=again).status_code == 304
        for name in ("none.js", "..%2froutes.py", "../routes.py", ""):
            assert server.client.get(f"/assets/{name}").status_code == 404


@pytest.mark.parametrize("name", [n for n in NAMES if n.endswith((".html", ".js", ".css"))])
def test_nothing_names_another_host(name: str) -> None:
    text = (ASSETS / name).read_text()
    found = re.findall(r"(?:https?:)?//[A-Za-z0-9][A-Za-z0-9.-]*\.[a-z]{2,}[^\"'` )]*", text)
    assert [one for one in found if not one.startswith(STANDARDS)] == []


def test_the_page_fits_the_policy() -> None:
    html = (ASSETS / "index.html").read_text()
    assert "script-src 'self'" in POLICY
    assert re.search(r"<style|<script(?![^>]* src=)|style=|\son[a-z]+=", html) is None


def test_the_built_files_ship_and_their_sources_do_not() -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert setuptools["package-data"]["calmstream.consumer.serve"] == ["assets/*"]
    assert "calmstream.consumer.serve.page*" in setuptools["packages"]["find"]["exclude"]
