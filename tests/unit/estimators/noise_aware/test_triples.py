"""Check what views of three categorical attributes say."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from calmstream.estimators.marginal import sse
from calmstream.estimators.noise_aware.layout import Layout
from calmstream.estimators.noise_aware.model import NoiseAwareModel
from calmstream.estimators.noise_aware.statistics import collect
from calmstream.estimators.papers.calm.method import Calm
from calmstream.estimators.plan.request import Request
from tests.support.noise_aware import domain_of, plan_for, tallies_of, truth


def test_blocks_are_pooled_by_precision_and_unbiased() -> None:
    domain, n = domain_of(2, 3, 3), 1 << 14
    plan = plan_for(domain, "4", 1 << 22, 3)
    assert any(len(view.attributes) == 3 for group in plan.groups for view in group.views)
    codes = np.random.default_rng(5).integers(0, (2, 3, 3), size=(n, 3)).astype(np.uint16)
    codes[:, 2] = (codes[:, 0] + codes[:, 1]) % 3
    layout = Layout((2, 3, 3))
    exact = layout.interactions(truth(domain, codes, (0, 1, 2)).reshape(2, 3, 3), (0, 1, 2))
    found = [
        collect(plan, tallies_of(plan, codes, seed), layout, 3).higher[0, 1, 2]
        for seed in range(40)
    ]
    energy = [np.square(block - exact).sum() * precision / 4 for block, precision in found]
    assert np.mean(energy) < 1.0 + 4 * np.sqrt(2 / (4 * 40))
    mean = np.mean([block for block, _ in found], axis=0)
    assert np.abs(mean - exact).max() < 5 * np.sqrt(1 / (40 * found[0][1]))


def _sums(n: int, d: int, seed: int) -> np.ndarray:
    """Draw records of three labels in which pairs are independent and two triples are not."""
    codes = np.random.default_rng(seed).integers(3, size=(n, d)).astype(np.uint16)
    for last in range(2, d, 3):
        codes[:, last] = (codes[:, last - 2] + codes[:, last - 1]) % 3
    return codes


def test_where_pairs_show_nothing_the_answer_is_no_worse_than_calms() -> None:
    domain, users, d = domain_of(*(3,) * 6), 1 << 18, 6
    codes = _sums(users, d, 6)
    plan = plan_for(domain, "4", users, 3)
    model = NoiseAwareModel(plan, tallies_of(plan, codes, 7))
    other = Calm().design(Request(domain, "4", users, 3))
    calm_plan = plan.__class__(
        **{f: getattr(plan, f) for f in plan.__dataclass_fields__}
        | {"method": "calm", "groups": other.groups, "parameters": other.parameters}
    )
    calm = Calm().fit(calm_plan, tallies_of(calm_plan, codes, 8))
    errors = np.zeros(2)
    for own in combinations(range(d), 3):
        table = truth(domain, codes, own)
        errors += [sse(m.marginal(own).table, table) for m in (model, calm)]
    assert errors[0] < 1.02 * errors[1]
    strong = truth(domain, codes, (0, 1, 2))
    without = np.full(27, 1 / 27)
    assert sse(model.marginal((0, 1, 2)).table, strong) < 0.01 * sse(without, strong)
