from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from calmstream.estimators import methods
from calmstream.estimators.analysis.report import associate
from calmstream.evaluation.population import collect
from calmstream.tables.records import RecordTable, read_table
from tests.support.plans import draft, mixed_domain

N = 1 << 18
RUNS = 40


@pytest.fixture
def taxi(shared: Path) -> RecordTable:
    return read_table(shared / "data" / "taxi8.npz")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["inp-ht", "marg-ps", "calm"])
def test_size_at_the_five_percent_level(taxi: RecordTable, method: str) -> None:
    """28 pairs of attributes with taxi's margins, drawn independently; the paper's rule beside."""
    plan, _ = draft(taxi.domain, "1.1", N, 2, method)
    margins = taxi.codes.mean(axis=0)
    rejected, uncorrected, tests = 0, 0, 0
    for run in range(RUNS):
        generator = np.random.default_rng((71, run))
        codes = (generator.random((N, 8)) < margins).astype(np.uint16)
        tallies = collect(plan, codes, np.random.SeedSequence((72, run)), exact=True)
        model = methods.get(method).fit(plan, tallies)
        for pair in combinations(range(8), 2):
            result = associate(model, taxi.domain, pair, N).test
            assert result is not None
            tests += 1
            rejected += result.dependent
            uncorrected += result.statistic > 3.84
    assert 0.03 <= rejected / tests <= 0.07
    # Compared with 3.84, as in the paper, nearly every independent pair looks dependent.
    assert uncorrected / tests >= 0.9


@pytest.mark.slow
def test_the_default_method_calls_few_independent_pairs_dependent_and_finds_a_clear_one() -> None:
    """Five of six pairs are independent; a bit copies another one with probability 0.3."""
    n, shares = 30_000, [np.arange(1, r + 1) / (r * (r + 1) / 2) for r in (2, 3, 4, 2)]
    domain = mixed_domain(2, 3, 4, 2)
    plan, _ = draft(domain, "1", n, 2, "noise-aware")
    rejected = found = 0
    for run in range(RUNS // 2):
        random = np.random.default_rng((81, run))
        codes = np.stack([random.choice(len(p), n, p=p) for p in shares], axis=1).astype(np.uint16)
        codes[:, 3] = np.where(random.random(n) < 0.3, codes[:, 0], codes[:, 3])
        tallies = collect(plan, codes, np.random.SeedSequence((82, run)), exact=True)
        model = methods.get("noise-aware").fit(plan, tallies)
        for pair in combinations(range(4), 2):
            result = associate(model, domain, pair, n).test
            assert result is not None
            if pair == (0, 3):
                found += result.dependent
            else:
                rejected += result.dependent
    assert rejected <= 0.1 * 5 * (RUNS // 2)
    assert found >= 0.95 * (RUNS // 2)
