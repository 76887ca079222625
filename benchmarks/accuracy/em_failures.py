"""Count how often InpEM answers with the uniform table (Table 3 of Cormode et al.).

The taxi data has eight columns; for a larger d they are repeated, as in the paper.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from calmstream.estimators import methods
from calmstream.estimators.domain import Domain
from calmstream.estimators.marginal import total_variation
from calmstream.estimators.methods.base import Request
from calmstream.evaluation.population import collect, draw, local_plan

ROWS = (
    (16, 8, 1, "0.2", "3/8"),
    (18, 8, 2, "0.1", "15/28"),
    (16, 8, 2, "0.2", "3/28"),
    (16, 12, 2, "0.2", "19/66"),
    (18, 16, 2, "0.1", "120/120"),
    (18, 16, 2, "0.2", "72/120"),
    (19, 24, 2, "0.2", "276/276"),
)
"""The rows of Table 3: log2 of the number of devices, d, k, epsilon, and failed marginals of all
marginals as the paper prints them."""

SAME = 1e-5  # largest difference from the uniform table in a cell of a failed marginal


def widened(codes: np.ndarray, d: int) -> np.ndarray:
    return codes[:, np.arange(d) % codes.shape[1]]


def failures(
    codes: np.ndarray, row: tuple[int, int, int, str, str], seed: int
) -> dict[str, tuple[int, int, float]]:
    """Return the failed marginals, all marginals and the mean total variation, by stop rule."""
    power, d, k, epsilon, _ = row
    users = 1 << power
    drawn = widened(draw(codes, users, np.random.default_rng((seed, power, d))), d)
    targets = list(combinations(range(d), k))
    domain = Domain.binary(d)
    by_rule = {}
    for stop in ("change", "discrepancy", "likelihood"):
        request = Request(domain, epsilon, users, k, {"stop": stop})
        plan = local_plan(methods.get("inp-em"), request)
        # Tallies of records of more than 2^16 values cannot be drawn from their distribution; then
        # every report is simulated.
        small = domain.size() <= 1 << 16
        tallies = collect(plan, drawn, np.random.SeedSequence((seed, 1)), exact=small)
        model = methods.get("inp-em").fit(plan, tallies)
        tables = [model.marginal(t).table for t in targets]
        failed = sum(float(np.abs(t - 1.0 / t.size).max()) < SAME for t in tables)
        truths = [domain.histogram(drawn, t) / users for t in targets]
        distance = np.mean([total_variation(a, b) for a, b in zip(tables, truths, strict=True)])
        by_rule[stop] = (failed, len(targets), float(distance))
    return by_rule
