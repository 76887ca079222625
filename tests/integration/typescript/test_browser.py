"""The edge in TypeScript and its example page in a real browser."""

from __future__ import annotations

import pytest

from tests.support.typescript.package import built, chromium, run

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["api", "example", "store"])
def test_its_tests_pass_in_chromium(name: str) -> None:
    chromium()
    run("--test", str(built() / "browser" / f"{name}.test.mjs"))


def test_all_of_them_are_run() -> None:
    found = {path.name for path in (built() / "browser").glob("*.test.mjs")}
    assert found == {"api.test.mjs", "example.test.mjs", "store.test.mjs"}
