"""From tallies to any marginal table with standard errors: the regime is chosen by one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, prod
from typing import Protocol

import numpy as np

from estimators.domain import Attributes
from estimators.errors import InvalidInput
from estimators.marginal import Marginal, is_noise, uniform
from estimators.noise_aware.arrays import Floats
from estimators.noise_aware.input.features import Features
from estimators.noise_aware.input.statistics import Statistics, collect
from estimators.noise_aware.models import joint, latent_traits, low_rank, third_moments
from estimators.noise_aware.priors import LOGLINEAR_SHARE, LOGLINEAR_SHARE_SMALL
from estimators.noise_aware.tables.intervals import INFLATION, INFLATION_TRAITS
from estimators.noise_aware.tables.mixed import MOST_SURE, MixedTables, share_of_joint
from estimators.noise_aware.tables.moments import MomentTables
from estimators.plan.pilots import CollectionPlan
from estimators.tally import Tally

MAX_CELLS = 1 << 22
"""Largest table that is made: 32 MB, and eight draws of it."""


class MomentModel(Protocol):
    """A fitted model of the moments of all attributes."""

    def answer(self, attributes: Attributes) -> tuple[Floats, Floats]:
        """Return the table of ascending attributes and standard errors of its cells.

        Shape of the attributes' cardinalities both.
        """


@dataclass(frozen=True, slots=True)
class Regime:
    """One row of the dispatch table: the domains it serves, and how they are fitted."""

    binary: bool  # Whether all attributes are binary
    orders: int  # Highest order of the estimates that are read
    most_attributes: float = inf  # Of the domain
    most_in_view: float = inf  # Attributes of the largest view with reports
    sweeps: int = 0  # Kept sweeps of latent traits; 0: the low-rank model is fitted instead
    joint_share: float | None = None  # Prior share of the log-linear model; None: not fitted
    share_decides: bool = False  # Whether errors may be as sure of one model as statistics are
    inflation: float = INFLATION  # Interval inflation of the moments' posterior

    def serves(self, features: Features, in_view: int) -> bool:
        """Return whether the row serves these attributes and views of so many."""
        return (
            self.binary == bool(features.binary.all())
            and len(features.cardinalities) <= self.most_attributes
            and in_view <= self.most_in_view
        )

    def fit(self, features: Features, statistics: Statistics, k: int) -> MomentModel:
        """Fit the posterior of moments and, where it is affordable, the log-linear model."""
        if self.sweeps:
            posterior = latent_traits.fit(statistics, self.sweeps)
        else:
            posterior = low_rank.fit(features, statistics)
        third = third_moments.fit(statistics, posterior) if statistics.higher else None
        moments = MomentTables(features, posterior, third, self.inflation)
        if self.joint_share is None:
            return moments
        found = joint.fit(statistics)
        share, known = share_of_joint(found, statistics, posterior, third, k, self.joint_share)
        most_sure = MOST_SURE + (1.0 - MOST_SURE) * (known if self.share_decides else 0.0)
        return MixedTables(found, moments, share, most_sure)


REGIMES = (
    # One attribute has no interactions: a second model would add nothing.
    Regime(binary=True, most_attributes=1, orders=1, sweeps=latent_traits.SWEEPS),
    # 2^9 cells are few: the log-linear model can have interactions of up to four attributes.
    Regime(
        binary=True,
        most_attributes=joint.SMALL,
        orders=joint.MAX_ORDER,
        sweeps=latent_traits.LONG_SWEEPS,
        joint_share=LOGLINEAR_SHARE_SMALL,
        share_decides=True,
    ),
    # 2^16 cells allow pairs alone, which would leave most of the estimates of larger views unused.
    Regime(
        binary=True,
        most_attributes=joint.MAX_ATTRIBUTES,
        most_in_view=3,
        orders=3,
        sweeps=latent_traits.LONG_SWEEPS,
        joint_share=LOGLINEAR_SHARE,
        inflation=INFLATION_TRAITS,
    ),
    # A joint table is too large. Whitening costs the cube of the attributes: seconds for 128.
    Regime(
        binary=True,
        most_attributes=128,
        orders=3,
        sweeps=latent_traits.SWEEPS,
        inflation=INFLATION_TRAITS,
    ),
    # Gibbs steps of the low-rank model cost the square of the attributes only.
    Regime(binary=True, orders=3, inflation=INFLATION_TRAITS),
    # Only the low-rank model has categories, and pairs are its highest order.
    Regime(binary=False, orders=2),
)
"""The first row that serves a domain is taken."""


class NoiseAwareModel:
    """A fitted model; see :class:`estimators.methods.base.Model`."""

    processing: tuple[str, ...] = (
        "pooling by inverse variance",
        "shrinkage as far as known noise demands",
        "maximum entropy within the pair tables",
    )  # Steps from the raw estimates to the answers

    def __init__(self, plan: CollectionPlan, tallies: Sequence[Tally]) -> None:
        """Fit; the cost is that of the regime's models."""
        self._features = Features(plan.domain.cardinalities)
        views = [view.attributes for group in plan.groups for view in group.views]
        reports = np.concatenate([tally.n for tally in tallies])
        self._in_view = np.zeros((len(views), len(plan.domain)), bool)  # views by attributes
        for row, attributes in zip(self._in_view, views, strict=True):
            row[list(attributes)] = True
        self._in_view, self._reports = self._in_view[reports > 0], reports[reports > 0]
        largest = int(self._in_view.sum(axis=1).max(initial=0))
        self.regime = next(row for row in REGIMES if row.serves(self._features, largest))
        self.fitted: MomentModel | None = None
        if self._reports.size:
            statistics = collect(plan, tallies, self._features, self.regime.orders)
            self.fitted = self.regime.fit(self._features, statistics, plan.k)

    @property
    def joint_share(self) -> float:
        """Share of the log-linear model against the posterior of moments, 0 to 1."""
        return self.fitted.share if isinstance(self.fitted, MixedTables) else 0.0

    def marginal(self, attributes: Attributes) -> Marginal:
        """Return the estimate over the given ascending positions.

        Raises:
            InvalidInput: more than 2^22 cells.
        """
        cells = prod(self._features.cardinalities[i] for i in attributes)
        if cells > MAX_CELLS:
            raise InvalidInput(f"a table of {cells:,} cells; at most {MAX_CELLS:,} are made")
        in_view = self._in_view[:, attributes]
        reports = int(self._reports[in_view.any(axis=1)].sum())
        if self.fitted is None or not reports:
            return replace(uniform(attributes, cells), flags=("uniform", "noise"))
        table, stderr = (values.ravel() for values in self.fitted.answer(attributes))
        flags = ["modelled"]
        if in_view.all(axis=1).any():
            flags.append("covered")
        if is_noise(table, stderr):
            flags.append("noise")
        stderr = np.minimum(stderr, np.maximum(table, 1.0 - table) / 1.96)  # [0, 1] is all there is
        return Marginal(attributes, table / table.sum(), stderr, reports, tuple(flags))
