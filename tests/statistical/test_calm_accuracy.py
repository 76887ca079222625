"""Check the errors of CALM on real data, and the coverage of its confidence intervals.

A tally is the counts of a collection. It can be simulated device by device (``devices``,
``exact=False``), or its counts can be drawn from their distribution (``law``, ``exact=True``). Both
must have the same distribution. All seeds were fixed before the first run.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from benchmarks.populations import ADULT
from calmstream.estimators import methods
from calmstream.estimators.papers.calm.overlapping import OverlappingTables
from calmstream.estimators.plan import Plan
from calmstream.estimators.planning import default_marginals
from calmstream.evaluation.population import collect, draw
from calmstream.tables.reading import ReadingOptions
from calmstream.tables.records import RecordTable, read_table
from tests.support.plans import draft, mixed_domain


@cache
def adult(shared: Path) -> RecordTable:
    return read_table(shared / "data" / "adult.csv.gz", ReadingOptions(columns=ADULT))


def fit(
    plan: Plan, table: RecordTable, users: int, seed: int
) -> tuple[OverlappingTables, np.ndarray]:
    codes = draw(table.codes, users, np.random.default_rng(seed))
    tallies = collect(plan, codes, np.random.SeedSequence(seed), exact=True)
    model = methods.get("calm").fit(plan, tallies)
    assert isinstance(model, OverlappingTables)
    return model, codes


@pytest.mark.slow
def test_intervals_on_adult_cover_as_they_say(shared: Path) -> None:
    """Check 95 % intervals around estimates before clipping, for all 1- and 2-way cells."""
    table = adult(shared)
    plan, _ = draft(table.domain, "1", len(table.codes), 3)
    inside = total = 0
    for seed in range(10):
        model, codes = fit(plan, table, len(table.codes), seed)
        for attributes in default_marginals(table.domain):
            truth = table.domain.histogram(codes, attributes) / len(codes)
            error = np.abs(model.unclipped(attributes) - truth)
            inside += int((error <= 1.96 * model.marginal(attributes).stderr).sum())
            total += len(truth)
    assert 0.93 <= inside / total <= 0.97


@pytest.mark.slow
def test_both_kinds_of_tallies_have_the_same_distribution() -> None:
    """Compare means and covariances of all counters over many simulations with the same records."""
    domain = mixed_domain(2, 3, 4)
    codes = np.stack(np.unravel_index(np.arange(600) % 17, (2, 3, 4)), axis=1).astype(np.uint16)
    plan, _ = draft(domain, "1", 6000, 2)
    assert {m.name for m in plan.mechanisms} == {"grr", "oue"}
    runs = 1500
    samples = {}
    for law in (False, True):
        drawn = [
            collect(plan, codes, np.random.SeedSequence((21, law, run)), exact=law)
            for run in range(runs)
        ]
        samples[law] = np.array(
            [np.concatenate([np.append(t.counts.ravel(), t.n) for t in run]) for run in drawn],
            np.float64,
        )
    mean = {law: s.mean(axis=0) for law, s in samples.items()}
    spread = np.sqrt((samples[False].var(axis=0) + samples[True].var(axis=0)) / runs)
    assert (np.abs(mean[True] - mean[False]) < 5 * spread).all()
    products = {law: np.einsum("ri,rj->rij", *[s - mean[law]] * 2) for law, s in samples.items()}
    gap = products[True].mean(axis=0) - products[False].mean(axis=0)
    noise = np.sqrt((products[True].var(axis=0) + products[False].var(axis=0)) / runs)
    assert (np.abs(gap) < 5 * noise + 1e-9).all()
