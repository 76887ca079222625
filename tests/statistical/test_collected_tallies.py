from __future__ import annotations

import numpy as np
import pytest

from calmstream.evaluation.population import collect
from tests.support.plans import draft, mixed_domain


@pytest.mark.slow
def test_both_kinds_of_tallies_have_the_same_distribution() -> None:
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
