"""The package of the edge in TypeScript: its types, its own tests under Node, its size."""

from __future__ import annotations

import gzip

from tests.support.edge_typescript import EDGE, built, npm, run

MOST_GZIPPED = 20_000


def test_the_types_are_strict_and_right() -> None:
    built()
    npm("run", "check")


def test_its_tests_pass_under_node() -> None:
    tests = sorted(str(path) for path in (built() / "test").glob("*.test.mjs"))
    assert len(tests) >= 5
    run("--test", *tests)


def test_the_bundle_is_small_and_stands_alone() -> None:
    built()
    bundle = (EDGE / "dist" / "index.js").read_bytes()
    assert len(gzip.compress(bundle, 9)) < MOST_GZIPPED
    assert b"import" not in bundle.replace(b"importKey", b"")
    assert (EDGE / "dist" / "types" / "index.d.ts").exists()
