"""From tallies to any marginal table with standard errors, by the model of hidden causes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from calmstream.common.errors import InvalidInput
from calmstream.estimators.cause import Cause
from calmstream.estimators.domain import Attributes
from calmstream.estimators.marginal import MAX_QUERY_CELLS, Marginal, is_noise, uniform
from calmstream.estimators.noise_aware.causes import supported
from calmstream.estimators.noise_aware.layout import ORDERS, Floats, Layout
from calmstream.estimators.noise_aware.sampler import Effort, Sampler
from calmstream.estimators.noise_aware.statistics import Targets, collect, signs_of
from calmstream.estimators.noise_aware.tables import Tables, errors, grouped
from calmstream.estimators.numerics.contraction import contract
from calmstream.estimators.plan.pilots import CollectionPlan
from calmstream.estimators.tally import Tally

HANDFUL = 10
"""So few reports agree by chance: their intervals do not rest on the prior."""


class NoiseAwareModel:
    """A fitted model; see `Model`, `GroupedAnswers` and `HiddenCauses`."""

    processing: tuple[str, ...] = (
        "pooling by inverse variance",
        "a model of hidden causes, fitted with the known noise",
        "shrunken residuals of pairs and of larger sets",
    )

    def __init__(
        self, plan: CollectionPlan, tallies: Sequence[Tally], effort: Effort | None = None
    ) -> None:
        self._layout = layout = Layout(plan.domain.cardinalities)
        views = [view.attributes for group in plan.groups for view in group.views]
        reports = np.concatenate([tally.n for tally in tallies])
        in_view = np.array([np.isin(range(layout.count), view) for view in views])
        self._in_view, self._reports = in_view[reports > 0], reports[reports > 0]
        self._tables: Tables | None = None
        if self._reports.size:
            found = collect(plan, tallies, layout, ORDERS[layout.bits])
            margins = found.valid_margins(layout)
            signs = None if layout.bits else signs_of(plan, tallies, layout, margins)
            targets = Targets(layout, found, signs)
            draws = Sampler(plan.domain, targets, effort or Effort.of(targets)).run()
            self._tables = Tables(targets, draws)

    def marginal(self, attributes: Attributes) -> Marginal:
        cells = prod(int(self._layout.cardinalities[i]) for i in attributes)
        if cells > MAX_QUERY_CELLS:
            raise InvalidInput(f"a table of {cells:,} cells; at most {MAX_QUERY_CELLS:,} are made")
        in_view = self._in_view[:, attributes]
        reports = int(self._reports[in_view.any(axis=1)].sum())
        if self._tables is None or not reports:
            return replace(uniform(attributes, cells), flags=("uniform", "noise"))
        found, away = self._tables.answer(attributes)  # away: the draws' deviations from it
        table, stderr = found.ravel(), errors(found, away).ravel()
        flags = ["modelled"]
        if in_view.all(axis=1).any():
            flags.append("covered")
        if reports < HANDFUL:
            # At least as wide as a table that is drawn evenly from all tables.
            stderr = np.maximum(stderr, np.sqrt((1 - 1 / cells) / cells / (cells + 1)))
        if is_noise(table, stderr):
            flags.append("noise")
        return Marginal(attributes, table / table.sum(), stderr, reports, tuple(flags))

    def causes(self) -> tuple[Cause, ...]:
        return supported(self._tables.targets, self._tables.draws) if self._tables else ()

    def grouped(self, attributes: Attributes, members: Sequence[Floats]) -> tuple[Floats, Floats]:
        marginal = self.marginal(attributes)
        shape = [member.shape[1] for member in members]
        if self._tables is None or not marginal.reports:
            sums = contract(marginal.table.reshape(shape), members).ravel()
            return sums, np.diag(sums * (1.0 - sums))
        sums, covariance = grouped(*self._tables.answer(attributes), members)
        return sums / sums.sum(), covariance

    def dependence(self, pair: Attributes) -> tuple[Floats, Floats] | None:
        return self._tables.targets.dependence(pair) if self._tables else None

    def mixture(self) -> tuple[Floats, list[Floats]]:
        if self._tables is None:
            return np.ones(1), [np.full((1, r), 1.0 / r) for r in self._layout.cardinalities]
        return self._tables.draws.mixture()
