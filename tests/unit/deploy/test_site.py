"""Build the site, and check what it has: every page, search, the reference made from code."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

import calmstream
from calmstream.cli import COMMANDS
from tests.support.docs import ROOT
from tests.support.runs import python

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site; a link or an anchor that leads nowhere fails the build."""
    folder = tmp_path_factory.mktemp("site")
    words = ["-m", "mkdocs", "--quiet", "build", "--site-dir", folder]
    python(*words, seconds=300, cwd=ROOT)
    return folder


def test_search_finds_every_page_and_the_reference(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text())
    places = {entry["location"] for entry in index["docs"]}
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT).with_suffix("").as_posix() + "/"
        assert name.replace("README/", "") in places, name
    named = {*COMMANDS, "keys-certify", "device-view", "central-aggregate"}
    assert {f"docs/reference/commands/#{name}" for name in named} <= places
    python = {place.rpartition("#")[2] for place in places if "reference/python" in place}
    reference = (site / "docs" / "reference" / "python" / "index.html").read_text()
    assert not re.findall(r":(?:meth|func|class|data|mod|attr):", reference)
    for name in calmstream.__all__:
        found = getattr(calmstream, name)
        assert {f"{found.__module__}.{name}", f"calmstream.{name}"} & python, name


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text()
        loaded = re.findall(r"<(?:script|img|iframe|source)[^>]+src=\"?(https?:[^\" >]+)", text)
        loaded += re.findall(r"<link[^>]+rel=\"?(?:stylesheet|preload)[^>]+href=\"?(https?:)", text)
        assert not loaded, page


def test_formulas_are_mathml(site: Path) -> None:
    text = (site / "docs" / "methods" / "calm" / "index.html").read_text()
    assert "<math" in text
    assert "\\frac" not in html.unescape(text)
