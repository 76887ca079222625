"""Plans for the tests of the noise-aware method, and tallies drawn from their distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally
from calmstream.evaluation.population import collect
from tests.support.plans import draft


def domain_of(*cardinalities: int) -> Domain:
    """Attributes whose labels have no order, and no label in common."""
    return Domain(
        tuple(
            Attribute(f"a{i}", tuple(f"a{i}.{c}" for c in range(r)))
            for i, r in enumerate(cardinalities)
        )
    )


def plan_for(domain: Domain, epsilon: str, users: int, k: int) -> Plan:
    return draft(domain, epsilon, users, k, "noise-aware")[0]


def tallies_of(plan: Plan, codes: NDArray[Any], seed: int) -> list[Tally]:
    return collect(plan, codes, np.random.SeedSequence(seed), exact=True)


def chain(n: int, d: int, seed: int, *, keep: float = 0.7) -> NDArray[np.uint16]:
    """Draw binary records; each attribute repeats the one before it with a given probability."""
    random = np.random.default_rng(seed)
    out = np.zeros((n, d), np.uint16)
    out[:, 0] = random.random(n) < 0.3
    for j in range(1, d):
        fresh = random.random(n) < 0.2 + 0.05 * j
        out[:, j] = np.where(random.random(n) < keep, out[:, j - 1], fresh)
    return out


def truth(domain: Domain, codes: NDArray[Any], attributes: tuple[int, ...]) -> NDArray[np.float64]:
    return np.asarray(domain.histogram(codes, attributes) / len(codes), np.float64)
