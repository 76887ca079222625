"""The page of ``calmstream serve``: built from its sources, and working in Chromium."""

from __future__ import annotations

from pathlib import Path

import pytest

from calmstream.consumer.serve.routes import ASSETS
from tests.support.typescript.package import PAGE, chromium

SHARES = 3


def _test(name: str, **variables: str) -> None:
    PAGE.run(
        "--test",
        str(PAGE.built() / "test" / f"{name}.test.mjs"),
        CALMSTREAM_PAGE_ASSETS=str(ASSETS),
        **variables,
    )


def test_the_committed_files_are_built_from_these_sources(tmp_path: Path) -> None:
    PAGE.built()
    PAGE.run("build.mjs", f"--out={tmp_path / 'assets'}")
    assert _content(tmp_path / "assets") == _content(ASSETS), "make page builds them anew"


def _content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_needs_no_browser() -> None:
    _test("text")


def test_the_page_loads_in_chromium() -> None:
    chromium()
    _test("smoke")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("share", range(1, SHARES + 1))
def test_every_view_passes_in_chromium(share: int) -> None:
    chromium()
    _test("views", CALMSTREAM_PAGE_SHARE=f"{share}/{SHARES}")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_ways_through_it_pass_in_chromium() -> None:
    chromium()
    _test("ways")


@pytest.mark.slow
def test_the_sources_have_no_type_errors() -> None:
    PAGE.built()
    PAGE.npm("run", "check")


def test_all_of_them_are_run() -> None:
    found = {path.name for path in (PAGE.built() / "test").glob("*.test.mjs")}
    assert found == {f"{name}.test.mjs" for name in ("smoke", "text", "views", "ways")}
