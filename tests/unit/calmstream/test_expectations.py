"""Check a plan's expected errors, and the warning if they exceed those of the uniform table."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from calmstream.cli import main
from calmstream.estimators import methods
from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.marginal import sse
from calmstream.estimators.methods.notes import EXACT, JOINT, TOGETHER, UPPER
from calmstream.estimators.plan.request import Request
from calmstream.evaluation.population import collect
from calmstream.evaluation.rounds import local_plan
from calmstream.planning.expectations import uniform_errors
from calmstream.planning.methods_page import note_of
from calmstream.tables.records import read_table

DOMAIN = Domain(tuple(Attribute(f"a{i}", tuple("xyz"[:r])) for i, r in enumerate((2, 3, 2))))
USERS, REPEATS = 2000, 40
COLLECTED = [name for name in methods.names() if not methods.get(name).baseline]


def skewed() -> np.ndarray[tuple[int, ...], np.dtype[np.uint16]]:
    """Return records most of which are alike, which is hard for formulas for even data."""
    codes = np.zeros((USERS, 3), np.uint16)
    codes[: USERS // 4] = np.random.default_rng(1).integers(0, (2, 3, 2), (USERS // 4, 3))
    return codes


def measured(name: str, epsilon: str, size: int) -> tuple[float, float]:
    """Return the mean squared error of tables of one size, and what the design expects."""
    method, codes = methods.get(name), skewed()
    request = Request(DOMAIN, epsilon, USERS, 2)
    plan, errors = local_plan(method, request), []
    truth = {a: DOMAIN.histogram(codes, a) / USERS for a in combinations(range(3), size)}
    for seed in range(REPEATS):
        model = method.fit(plan, collect(plan, codes, np.random.SeedSequence(seed), exact=True))
        errors += [sse(model.marginal(a).table, table) for a, table in truth.items()]
    return float(np.mean(errors)), method.design(request).expected_sse[size]


@pytest.mark.parametrize("epsilon", ["0.5", "2"])
@pytest.mark.parametrize(
    "name", [n for n in COLLECTED if note_of(n).expected in (UPPER, TOGETHER, JOINT)]
)
def test_upper_bounds_are_above_what_is_measured(name: str, epsilon: str) -> None:
    # Not every pair is in a view of calm; what that costs is said not to be in the bound.
    error, expected = measured(name, epsilon, 1 if note_of(name).expected == TOGETHER else 2)
    assert error < expected


@pytest.mark.parametrize("name", [n for n in COLLECTED if note_of(n).expected == EXACT])
def test_errors_called_exact_are_met(name: str) -> None:
    error, expected = measured(name, "2", 2)
    assert error == pytest.approx(expected, rel=0.2)


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    rows = ["xyz"[a] + "," + "xyz"[b] + "," + "xyz"[c] for a, b, c in skewed().tolist()]
    path.write_text("\n".join(["a0,a1,a2", *rows]))
    return path


def shown(
    data: Path, capsys: pytest.CaptureFixture[str], method: str, users: int, epsilon: str = "1"
) -> str:
    words = ["--epsilon", epsilon, "--users", users, "--k", 2, "--method", method, "--explain"]
    assert main(["plan", *map(str, (data, *words))]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("method", "users", "verdict"),
    [
        ("lopub", 1000, "even corrected tables will be nearly useless"),
        ("inp-ps", 100, "whether they are smaller than that of the uniform table"),
        ("rr-ind-joint", 100, "The uniform table is better"),
    ],
)
def test_a_method_that_cannot_beat_the_uniform_table_is_warned_of(
    method: str, users: int, verdict: str, people: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uniform = uniform_errors(read_table(people), (2,))[2]
    (warning,) = (
        line
        for line in shown(people, capsys, method, users).splitlines()
        if line.startswith("The expected error exceeds the error of the uniform table")
    )
    assert "2 attributes: " in warning
    assert f"against {uniform:.2g}" in warning
    assert verdict in warning
    assert "calmstream plan --method list" in warning


def test_a_good_plan_is_not_warned_of(people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for method in ("calm", "noise-aware", "rr-ind-joint"):
        text = shown(people, capsys, method, 200_000, "4")
        assert "expected squared error" in text
        assert "exceeds" not in text
