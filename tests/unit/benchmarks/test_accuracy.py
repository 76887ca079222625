"""Check that the accuracy report can be stopped and resumed, and gives the same results again."""

from __future__ import annotations

from pathlib import Path

from benchmarks.accuracy.measure import Ledger, measure
from benchmarks.accuracy.pieces import Piece

SMALL = Piece("x", "p", "taxi", 3, 2, "1", 5000, "inp-ht")
WHOLE = Piece("x", "p", "kosarak", 32, 2, "1", 5000, "fc")


def test_results_are_found_again_and_refusals_are_not_repeated(tmp_path: Path) -> None:
    ledger = Ledger("x", tmp_path)
    ledger.add(SMALL.key, 0, {"sse": 0.123456789})
    ledger.add(SMALL.key, 2, {"sse": 0.5})
    ledger.add(WHOLE.key, 0, {"refused": "too large"})
    again = Ledger("x", tmp_path)
    assert again.results(SMALL.key) == [{"sse": 0.12346}, {"sse": 0.5}]
    assert [again.has(SMALL.key, r) for r in range(4)] == [True, False, True, False]
    assert again.has(WHOLE.key, 3)


def test_a_measurement_depends_only_on_point_and_repeat(shared: Path) -> None:
    assert shared.is_dir()
    first, again, other = (measure(SMALL, repeat) for repeat in (0, 0, 1))
    for result in (first, again, other):
        del result["seconds"]
    assert first == again != other
    assert 0.0 < first["sse"] <= first["sse_raw"]


def test_a_refusal_is_the_product_s_own(shared: Path) -> None:
    assert shared.is_dir()
    assert "4,294,967,296 cells" in measure(WHOLE, 0)["refused"]
