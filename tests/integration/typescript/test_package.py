"""The package of the edge in TypeScript: its types, its own tests under Node, its size."""

from __future__ import annotations

import gzip
import re

import pytest

from tests.support.typescript.package import EDGE, built, npm, run

MOST_GZIPPED = 25_000


@pytest.mark.slow
def test_the_types_are_strict_and_right() -> None:
    built()
    npm("run", "check")


def test_its_tests_pass_under_node() -> None:
    tests = sorted(str(path) for path in (built() / "test").glob("*.test.mjs"))
    assert len(tests) >= 5
    run("--test", *tests)


def test_it_exports_what_its_readme_imports() -> None:
    built()
    readme = (EDGE / "README.md").read_text()
    found = re.findall(r'import \{ (.*?) \} from "(calmstream-edge[/a-z]*)"', readme)
    assert {package for _, package in found} == {"calmstream-edge", "calmstream-edge/node"}
    for names, package in [*found, ("decoded", "calmstream-edge/words")]:
        # A package may import itself by its name.
        run("--input-type=module", "--eval", f'import {{ {names} }} from "{package}"')


def test_the_bundle_is_small_and_stands_alone() -> None:
    built()
    bundle = (EDGE / "dist" / "index.js").read_bytes()
    assert len(gzip.compress(bundle, 9)) < MOST_GZIPPED
    assert b"import" not in bundle.replace(b"importKey", b"")
    assert (EDGE / "dist" / "types" / "index.d.ts").exists()
