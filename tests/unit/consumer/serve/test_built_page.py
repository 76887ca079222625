"""The built page as it ships: every file is there and used, and nothing names another host."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from calmstream.consumer.serve.guard import POLICY
from calmstream.consumer.serve.page_files import ASSETS, PageFiles

ROOT = Path(__file__).resolve().parents[4]
NAMES = sorted(path.name for path in ASSETS.iterdir())
STANDARDS = ("http://www.w3.org/",)
"""Names of formats, which nobody loads."""


def test_the_page_names_its_files_and_all_of_them_are_served() -> None:
    files = PageFiles()
    assert files.index is not None
    named = set(re.findall(r'"assets/([^"]+)"', files.index.body.decode()))
    assert named
    for name in named:
        assert files.asset(name) is not None
    assert all(files.asset(name) for name in NAMES if name != "index.html")


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


def test_only_names_with_a_hash_are_cached_for_ever() -> None:
    """Another content needs another name."""
    files = PageFiles()
    stable = {name for name in NAMES if (one := files.asset(name)) is None or not one.fixed}
    assert stable == {"index.html", "licenses.txt"}
