"""Simulated collection without a broker: drawing devices, giving them views, making tallies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.errors import InvalidInput
from estimators.randomness import SeededRandomness
from estimators.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from estimators.domain import Codes
    from estimators.mechanisms.base import Mechanism
    from estimators.plan import Plan


MAX_DISTINCT_CELLS = 1 << 12
"""Most values of a record for which devices with equal records are assigned together."""

MAX_DRAWN_CELLS = 1 << 24
"""Most inputs of a mechanism for which a histogram of devices is made."""


def draw(codes: Codes, users: int, generator: np.random.Generator) -> Codes:
    """Draw records of ``users`` devices: every row once if there are as many, else at random.

    Args:
        codes: shape (rows, d).
        users: devices to draw.
        generator: seeded by the caller.

    Returns:
        Shape (users, d).
    """
    return codes if users == len(codes) else codes[generator.integers(len(codes), size=users)]


def collect(plan: Plan, codes: Codes, seed: np.random.SeedSequence, *, exact: bool) -> list[Tally]:
    """Return one tally per group from devices assigned to views at random, by the plan's shares.

    Args:
        plan: the plan.
        codes: shape (n, d), one record per device.
        seed: of everything random here; the assignment depends on it and on the shares only.
        exact: draw each view's counters from their exact distribution given its devices' records,
            instead of perturbing and tallying every record through the shipped mechanism. The
            distribution is the same (`Mechanism.draw_tally`).

    Cost: O(n · attributes of a view) and, unless ``exact``, the mechanism's cost per report.
    """
    assigning, perturbing = seed.spawn(2)
    if exact and plan.domain.size() <= MAX_DISTINCT_CELLS:
        return _collect_cells(plan, codes, assigning, perturbing)
    word = np.random.default_rng(assigning).integers(plan.total_share, size=len(codes))
    view = np.searchsorted(plan.cumulative_shares, word, side="right")
    order = np.argsort(view, kind="stable")
    bounds = np.searchsorted(view[order], np.arange(plan.first_view[-1] + 1))
    members = [order[bounds[v] : bounds[v + 1]] for v in range(plan.first_view[-1])]
    tally = _from_distribution(perturbing) if exact else _by_devices(perturbing)
    return [
        tally(
            mechanism,
            [
                v.inputs(codes[own], plan.domain)
                for v, own in zip(group.views, members[first:], strict=False)
            ],
        )
        for group, mechanism, first in zip(
            plan.groups, plan.mechanisms, plan.first_view, strict=False
        )
    ]


def _collect_cells(
    plan: Plan, codes: Codes, assigning: np.random.SeedSequence, perturbing: np.random.SeedSequence
) -> list[Tally]:
    """Collect as `collect` with ``exact``, assigning all devices with equal records together."""
    every = tuple(range(len(plan.domain)))
    counts = plan.domain.histogram(codes, every)
    cells = np.flatnonzero(counts)
    kinds = np.stack(np.unravel_index(cells, plan.domain.cardinalities), axis=1).astype(np.uint16)
    shares = np.diff(plan.cumulative_shares, prepend=0) / plan.total_share
    held = np.random.default_rng(assigning).multinomial(counts[cells], shares)
    generator = np.random.default_rng(perturbing)
    tallies = []
    for group, mechanism, first in zip(plan.groups, plan.mechanisms, plan.first_view, strict=False):
        rows = []
        for offset, view in enumerate(group.views):
            histogram = np.zeros(mechanism.cells, np.int64)
            np.add.at(histogram, view.inputs(kinds, plan.domain), held[:, first + offset])
            rows.append(mechanism.draw_tally(histogram, generator))
        n = held[:, first : first + len(group.views)].sum(axis=0)
        tallies.append(Tally(n, np.stack(rows)))
    return tallies


def _by_devices(
    seed: np.random.SeedSequence,
) -> Callable[[Mechanism, Sequence[NDArray[Any]]], Tally]:
    randomness = SeededRandomness(seed)

    def tally(mechanism: Mechanism, inputs: Sequence[NDArray[Any]]) -> Tally:
        n = np.array([len(own) for own in inputs], np.int64)
        reports = mechanism.perturb(np.concatenate(inputs), randomness)
        view = np.repeat(np.arange(len(n)), n) if len(n) > 1 else None
        return Tally(n, mechanism.tally(reports, view, len(n)))

    return tally


def _from_distribution(
    seed: np.random.SeedSequence,
) -> Callable[[Mechanism, Sequence[NDArray[Any]]], Tally]:
    generator = np.random.default_rng(seed)

    def tally(mechanism: Mechanism, inputs: Sequence[NDArray[Any]]) -> Tally:
        cells = mechanism.drawn_cells
        if cells > MAX_DRAWN_CELLS:
            raise InvalidInput(
                f"a report has {cells:,} possible inputs that are counted together, too many to "
                "draw tallies from their distribution: --tallies devices"
            )
        rows = [mechanism.draw_tally_of(own, generator) for own in inputs]
        return Tally(np.array([len(own) for own in inputs], np.int64), np.stack(rows))

    return tally
