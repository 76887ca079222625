"""The largest change of a published table that forged reports can cause (its leverage).

A forger chooses a view (what a device reports on) and a report. If a share b of all reports is
forged, and all of them are in a view whose planned share of the reports is f, then the share
``b' = (b / f) / (1 - b + b / f)`` of that view's reports is forged. An estimate is a mean over the
reports of a view, so a cell changes by ``b'`` times the difference between its estimate from the
forged report and that from honest ones. The leverage of a table is the maximum of this change over
its cells, the views that contribute to it, all possible reports and all honest populations, in
either direction; it is at most 1.

The result is exact for answers that are linear in the views' estimates. For answers that are fitted
or corrected, it is that of the unbiased estimate from which they start, and is marked approximate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators import methods
from calmstream.estimators.domain import Attributes
from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.methods.shared.coefficient_model import CoefficientMethod, precision
from calmstream.estimators.methods.shared.coefficients import Recovery, Structure, ViewEvidence
from calmstream.estimators.methods.shared.pooled_variance import (
    agreement_weights,
    interaction_mass,
    subsets,
)
from calmstream.estimators.numerics.block_inverse import BlockResponse, channels
from calmstream.estimators.plan import Plan
from calmstream.estimators.view import View

Floats = NDArray[np.float64]

FORGED_SHARE = 0.01
"""Default of the share of all reports that are forged."""

REFERENCE_REPORTS = 1 << 20
"""Number of reports for which weights of views are computed; only their ratios matter."""


@dataclass(frozen=True, slots=True)
class Leverage:
    """The largest change of one table by forged reports.

    Attributes:
        reach: maximum change of a cell, 0 to 1.
        approximate: whether the published table is corrected or fitted, so that ``reach`` is only
            that of the linear estimate before.
    """

    reach: float
    approximate: bool


def leverages(plan: Plan, forged: float = FORGED_SHARE) -> tuple[Leverage, ...]:
    """Return the leverage of every published table, in the plan's order, by the plan alone.

    Cost: for each table O(views that share attributes with it · 2^(number of shared attributes)).
    """
    key = f"leverages of {forged!r}"
    if key not in plan.derived:
        plan.derived[key] = _leverages(plan, forged)
    result: tuple[Leverage, ...] = plan.derived[key]
    return result


def _leverages(plan: Plan, forged: float) -> tuple[Leverage, ...]:
    """Compute `leverages`."""
    kind = methods.get(plan.method).answers
    if kind == "fitted":
        return (Leverage(1.0, approximate=True),) * len(plan.marginals)
    if kind == "blocks":
        return tuple(Leverage(_of_blocks(plan, a, forged), False) for a in plan.marginals)
    views = _Views.of(plan, forged)
    frame = _FRAMES[kind](plan, views)
    results = []
    for attributes in plan.marginals:
        reach = max((views.reach(part) for part in frame.parts(attributes)), default=0.0)
        results.append(Leverage(min(1.0, reach), approximate=kind == "interactions"))
    return tuple(results)


@dataclass(frozen=True, slots=True, eq=False)
class _Views:
    """All views of all groups of a plan, in one list.

    Attributes:
        share: shape (views,), planned share of all reports.
        forged: shape (views,), share of a view's reports that is forged if all forged reports are
            in that view.
    """

    views: tuple[View, ...]
    mechanisms: tuple[Mechanism, ...]
    share: Floats
    forged: Floats
    known: dict[tuple[Mechanism, float, bytes, bytes], float]
    noises: dict[Mechanism, float]

    @classmethod
    def of(cls, plan: Plan, forged: float) -> _Views:
        share = np.array([s for g in plan.groups for s in g.shares], np.float64)
        share /= share.sum()
        inside = forged / share
        return cls(
            tuple(view for group in plan.groups for view in group.views),
            tuple(
                mechanism
                for group, mechanism in zip(plan.groups, plan.mechanisms, strict=True)
                for _ in group.views
            ),
            share,
            inside / (1.0 - forged + inside),
            {},
            {},
        )

    def reach(self, part: _Part) -> float:
        """Return the change of a cell if all forged reports are in the view of this part."""
        mechanism, forged = self.mechanisms[part.view], float(self.forged[part.view])
        key = (mechanism, forged, part.weights.tobytes(), part.times.tobytes())
        if key not in self.known:
            low, high = float(part.weights.min()), float(part.weights.max())
            up = mechanism.influence(part.weights, part.times) - low
            down = mechanism.influence(-part.weights, part.times) + high
            self.known[key] = forged * max(up, down)
        return self.known[key]

    def noise(self, view: int) -> float:
        """Return the variance of a cell of a view, divided by the view's share of the reports.

        It is without the part that the total of the table determines.
        """
        mechanism = self.mechanisms[view]
        if mechanism not in self.noises:
            even = np.full(mechanism.cells, 1.0 / mechanism.cells)
            self.noises[mechanism] = mechanism.covariance(1, even).interaction
        return self.noises[mechanism] / float(self.share[view])


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The contribution of one view to a cell of a table.

    Attributes:
        weights: shape (m,), the different weights of the view's inputs in the cell.
        times: shape (m,), number of inputs that have each weight.
    """

    view: int
    weights: Floats
    times: Floats


class _Frame(Protocol):
    """The way in which tables follow from views."""

    def parts(self, attributes: Attributes) -> Iterator[_Part]:
        """Yield the contributions of views to the cells of a table, once for equal ones."""


class _Interactions:
    """Tables of methods that average each interaction over the views that contain it."""

    def __init__(self, plan: Plan, views: _Views) -> None:
        self._domain = plan.domain
        self._holds = np.zeros((len(views.views), len(plan.domain)), np.bool_)
        for number, view in enumerate(views.views):
            self._holds[number, list(view.attributes)] = view.kind == "cell"
        tables = [number for number, view in enumerate(views.views) if view.kind == "cell"]
        self._signs = [(n, view) for n, view in enumerate(views.views) if view.kind != "cell"]
        cells = [mechanism.cells for mechanism in views.mechanisms]
        noise = [views.noise(v) for v in range(len(cells))]
        self._kappa = 1.0 / (np.array(noise) * cells)
        self._cells = cells
        attributes = [views.views[number].attributes for number in tables]
        self._mass = interaction_mass(attributes, self._kappa[tables])
        alike = [(m, k) for m, k in zip(views.mechanisms, self._kappa.tolist(), strict=True)]
        first = {kind: number for number, kind in enumerate(dict.fromkeys(alike))}
        self._kind = np.array([first[kind] for kind in alike])

    def parts(self, attributes: Attributes) -> Iterator[_Part]:
        """Yield the contributions of views to a cell; they are the same for all cells.

        The weight of an input depends on the attributes in which it equals the cell. Views with the
        same mechanism and share that contain the same part of the attributes contribute equally.
        """
        size = self._domain.size(attributes)
        held = self._holds[:, attributes]
        place = held @ (1 << np.arange(len(attributes)))
        _, chosen = np.unique(place + (self._kind << len(attributes)), return_index=True)
        for number in chosen[place[chosen] > 0].tolist():
            common = tuple(i for i, has in zip(attributes, held[number], strict=True) if has)
            shape = self._domain.shape(common)
            mass = [self._mass[a] for a in subsets(common)]
            weights = agreement_weights(shape, mass) * self._kappa[number] / size
            yield _Part(number, weights, _agreements(shape) * self._cells[number] / prod(shape))
        for number, view in self._signs:
            if set(view.attributes) <= set(attributes):
                # A sign and the tables that hold its attributes estimate one coefficient.
                own = float(self._kappa[number])
                weight = own / (size * (own + self._mass.get(view.attributes, 0.0)))
                yield _Part(number, np.array([weight, -weight]), np.ones(2))


@lru_cache(maxsize=1 << 12)
def _agreements(shape: tuple[int, ...]) -> Floats:
    """Return, for each subset of axes, the number of cells that equal a given one just there.

    Subsets are in the order of `subsets`.
    """
    times = np.ones(1)
    for r in shape:
        times = np.kron(times, np.array([r - 1.0, 1.0]))
    return times


class _Tables:
    """Tables of methods that average the views which contain the whole table."""

    def __init__(self, plan: Plan, views: _Views) -> None:
        self._domain = plan.domain
        self._views = views
        self._members = [frozenset(view.attributes) for view in views.views]

    def parts(self, attributes: Attributes) -> Iterator[_Part]:
        wanted, size = frozenset(attributes), self._domain.size(attributes)
        holding = [v for v, members in enumerate(self._members) if wanted <= members]
        mechanisms = self._views.mechanisms
        weight = {
            v: float(self._views.share[v] * size * precision([mechanisms[v]])[0]) for v in holding
        }
        for v in holding:
            cells = mechanisms[v].cells
            share = weight[v] / sum(weight.values())
            times = np.array([cells / size, cells - cells / size])
            yield _Part(v, np.array([share, 0.0]), times)


class _Coefficients:
    """Tables of methods that use an inverse transform of the views' distributions."""

    def __init__(self, plan: Plan, views: _Views) -> None:
        method = methods.get(plan.method)
        assert isinstance(method, CoefficientMethod)
        family = method.family(plan.domain, plan.k, views.views)
        reports = np.rint(views.share * REFERENCE_REPORTS).astype(np.int64)
        structure = Structure(plan.domain, family.views, family.owners)
        self._recovery = Recovery(structure, reports, precision(views.mechanisms), _no_evidence)

    def parts(self, attributes: Attributes) -> Iterator[_Part]:
        for view, operator in self._recovery.operators(attributes):
            for row in np.unique(operator.round(12), axis=0):
                yield _Part(view, row, np.ones(len(row)))


def _no_evidence(_view: int) -> ViewEvidence:
    """Stand in for the estimates of views, which are not needed for weights."""
    raise AssertionError("weights do not depend on what was reported")


_FRAMES: Mapping[str, Callable[[Plan, _Views], _Frame]] = {
    "interactions": _Interactions,
    "tables": _Tables,
    "coefficients": _Coefficients,
}


def _of_blocks(plan: Plan, attributes: Attributes, forged: float) -> float:
    """Return the reach for randomised response on blocks.

    The weight of a report in a cell is the product of entries of the blocks' inverses.
    """
    low = high = 1.0
    for channel in channels(cast("BlockResponse", plan.mechanisms[0]), attributes):
        ends = [a * b for a in (low, high) for b in (channel.off, channel.diagonal)]
        low, high = min(ends), max(ends)
    return min(1.0, forged * max(high, 1.0 - low))
