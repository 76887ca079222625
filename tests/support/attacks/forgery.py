"""Tallies of honest windows, and of forged reports as of Cao, Jia and Gong (USENIX Security 2021).

Maximal gain (MGA) reports the target under GRR; under OUE it sets the target's bit and as many
others as an honest report has on average. Random values (RPA) are uniform over the outputs.
"""

from __future__ import annotations

import numpy as np

from calmstream.estimators.domain import Domain
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally


def skewed(domain: Domain, generator: np.random.Generator) -> np.ndarray:
    table = generator.dirichlet(np.full(np.prod(domain.cardinalities), 0.05))
    return table.reshape(domain.cardinalities)


def honest(
    plan: Plan, truth: np.ndarray, users: int, generator: np.random.Generator, repeats: int = 1
) -> list[Tally]:
    """Draw tallies from their exact distribution; views follow the shares.

    A device that reports several times does so in one view, on one record.
    """
    shares = np.array([s for group in plan.groups for s in group.shares], np.float64)
    sizes = iter(generator.multinomial(users, shares / shares.sum()))
    tallies = []
    for group, mechanism in zip(plan.groups, plan.mechanisms, strict=True):
        n, counts = [], []
        for view in group.views:
            others = tuple(i for i in range(len(plan.domain)) if i not in view.attributes)
            distribution = truth.sum(axis=others).ravel()
            devices = int(next(sizes))
            histogram = generator.multinomial(devices, distribution / distribution.sum())
            counts.append(sum(mechanism.draw_tally(histogram, generator) for _ in range(repeats)))
            n.append(repeats * devices)
        tallies.append(Tally(np.array(n), np.stack(counts)))
    return tallies


def with_forged(
    tallies: list[Tally], plan: Plan, group: int, forged: int, attack: str, target: int = 0
) -> list[Tally]:
    mechanism, tally = plan.mechanisms[group], tallies[group]
    counts, cells = tally.counts.copy(), mechanism.cells
    generator = np.random.Generator(np.random.PCG64(7))
    if mechanism.name == "grr":
        distribution = np.full(cells, 1 / cells) if attack == "rpa" else np.eye(cells)[target]
        counts[0] += generator.multinomial(forged, distribution)
    else:
        ones = round(0.5 + (cells - 1) / (np.exp(float(plan.epsilon)) + 1))
        rate = 0.5 if attack == "rpa" else (ones - 1) / (cells - 1)
        counts[0] += generator.binomial(forged, rate, size=cells)
        if attack == "mga":
            counts[0, target] += forged - generator.binomial(forged, rate)
    n = tally.n.copy()
    n[0] += forged
    return [*tallies[:group], Tally(n, counts), *tallies[group + 1 :]]
