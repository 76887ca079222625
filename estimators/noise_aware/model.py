"""From tallies to any marginal table with standard errors.

`REGIMES` says which models are fitted to which domain, with the reasons.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, prod
from typing import Protocol

import numpy as np

from calmstream.common.errors import InvalidInput
from calmstream.estimators.domain import Attributes
from calmstream.estimators.marginal import Z95, Marginal, is_noise, uniform
from calmstream.estimators.noise_aware.arrays import Floats
from calmstream.estimators.noise_aware.input.features import Features
from calmstream.estimators.noise_aware.input.ordered import OrderedMargins
from calmstream.estimators.noise_aware.input.statistics import Statistics, collect
from calmstream.estimators.noise_aware.models import (
    category_joint,
    joint,
    latent_traits,
    ordered_margins,
    third_moments,
)
from calmstream.estimators.noise_aware.models.posterior import Posterior
from calmstream.estimators.noise_aware.priors import LOGLINEAR_SHARE, LOGLINEAR_SHARE_SMALL
from calmstream.estimators.noise_aware.tables.grouped import with_errors
from calmstream.estimators.noise_aware.tables.intervals import INFLATION, INFLATION_TRAITS
from calmstream.estimators.noise_aware.tables.misfit import Fitted, Misfit, measure
from calmstream.estimators.noise_aware.tables.mixed import (
    MixedTables,
    share_of_category_joint,
    share_of_joint,
)
from calmstream.estimators.noise_aware.tables.moments import MomentTables
from calmstream.estimators.numerics.contraction import contract
from calmstream.estimators.plan.pilots import CollectionPlan
from calmstream.estimators.tally import Tally

MAX_CELLS = 1 << 22
"""Maximum number of cells of a table: 32 MB for the table, eight times that for its draws."""

MOST_SURE = 0.75
"""Largest weight of one of two models in standard errors, as far as the statistics do not decide
between them: a prior share is no evidence, and a model has errors that its own draws do not show.
"""


class MomentModel(Protocol):
    """A fitted model of the moments of all attributes."""

    def answer(self, attributes: Attributes) -> tuple[Floats, Floats]:
        """Return the table of ascending attributes and standard errors of its cells.

        Shape of the attributes' cardinalities both.
        """

    def grouped(self, attributes: Attributes, members: Sequence[Floats]) -> tuple[Floats, Floats]:
        """Return the table's sums over groups of labels, and their covariance.

        Shapes (groups,) and (groups, groups). ``members`` has for each attribute an array of shape
        (groups, labels), 1 where a group has a label.
        """

    def moments(self) -> tuple[Fitted, Fitted]:
        """Return the first and the second moments of the features."""


@dataclass(frozen=True, slots=True)
class Regime:
    """One row of the dispatch table: the domains it serves, and how they are fitted."""

    binary: bool  # Whether all attributes are binary
    orders: int  # Highest order of the estimates that are read
    most_attributes: float = inf  # Largest number of attributes of the domain
    most_in_view: float = inf  # Largest number of attributes of a view with reports
    categories: bool = False  # Whether the log-linear model is that of categories
    traits: bool = False  # Whether latent traits are fitted; else the low-rank model is
    joint_share: float | None = None  # Prior share of the log-linear model; None: not fitted
    # Whether the largest weight of a model in standard errors grows beyond `MOST_SURE` as far as
    # the statistics decide between the models.
    share_decides: bool = False
    inflation: float = INFLATION  # Interval inflation of the posterior of moments

    def serves(self, features: Features, in_view: int) -> bool:
        """Return whether the row serves these attributes, with so many in the largest view."""
        return (
            self.binary == bool(features.binary.all())
            and len(features.cardinalities) <= self.most_attributes
            and in_view <= self.most_in_view
            and (not self.categories or category_joint.serves(features.cardinalities))
        )

    def fit(
        self,
        plan: CollectionPlan,
        features: Features,
        statistics: Statistics,
        ordered: OrderedMargins,
    ) -> MomentModel:
        """Fit the posterior of moments and, if the row has a share for it, the log-linear model.

        Attributes in ``ordered`` have smooth margins; binary domains have none.
        """
        if self.traits:
            posterior = latent_traits.fit(statistics)
        else:
            labels = [attribute.labels for attribute in plan.domain.attributes]
            posterior = ordered_margins.fit(features, statistics, ordered, labels)
        third = third_moments.fit(statistics, posterior) if statistics.higher else None
        moments = MomentTables(
            features, posterior, third, self.inflation, statistics.blocks, ordered.levels
        )
        # The log-linear model of categories knows nothing of smooth margins.
        if self.joint_share is None or (self.categories and ordered.stated):
            return moments
        if self.categories:
            return self._beside_categories(plan.k, features, statistics, posterior, moments)
        whole = joint.fit(statistics)
        share, decided = share_of_joint(
            whole, statistics, posterior, third, plan.k, self.joint_share
        )
        most_sure = MOST_SURE + (1.0 - MOST_SURE) * (decided if self.share_decides else 0.0)
        return MixedTables(whole, moments, share, most_sure)

    def _beside_categories(
        self,
        k: int,
        features: Features,
        statistics: Statistics,
        posterior: Posterior,
        moments: MomentTables,
    ) -> MixedTables:
        """Fit the log-linear model of categories, and mix both models' tables."""
        assert self.joint_share is not None
        whole = category_joint.fit(features, statistics)
        share, _ = share_of_category_joint(
            whole, statistics, posterior, moments, k, self.joint_share
        )
        return MixedTables(whole, moments, share, MOST_SURE)


REGIMES = (
    # One attribute has no interactions, so a second model would add nothing.
    Regime(binary=True, most_attributes=1, orders=1, traits=True),
    # At most 2^9 cells: the log-linear model can have interactions of up to four attributes.
    Regime(
        binary=True,
        most_attributes=joint.SMALL,
        orders=joint.MAX_ORDER,
        traits=True,
        joint_share=LOGLINEAR_SHARE_SMALL,
        share_decides=True,
    ),
    # At most 2^16 cells leave time for interactions of pairs only. Views of more than three
    # attributes would be badly used: most of their estimates are of higher orders.
    Regime(
        binary=True,
        most_attributes=joint.MAX_ATTRIBUTES,
        most_in_view=3,
        orders=3,
        traits=True,
        joint_share=LOGLINEAR_SHARE,
        inflation=INFLATION_TRAITS,
    ),
    # A joint table would be too large. The cost of whitening (`numerics.hamiltonian`) grows with
    # the cube of the number of attributes: seconds for 128.
    Regime(
        binary=True,
        most_attributes=128,
        orders=3,
        traits=True,
        inflation=INFLATION_TRAITS,
    ),
    # The cost of a sweep of the low-rank model grows with the square of that number only.
    Regime(binary=True, orders=3, inflation=INFLATION_TRAITS),
    # A joint table of at most 2^14 cells leaves time for interactions of pairs, and of triples
    # where views hold them and they are not too many.
    Regime(binary=False, orders=3, categories=True, joint_share=LOGLINEAR_SHARE),
    # The low-rank model has attributes of any numbers of categories. It has no triples; tables are
    # moved towards the estimates of triples (`tables.thirds`).
    Regime(binary=False, orders=3),
)
"""The dispatch table: the first row that serves a domain is used."""


class NoiseAwareModel:
    """A fitted model; see `Model`."""

    processing: tuple[str, ...] = (
        "pooling by inverse variance",
        "shrinkage as far as known noise demands",
        "maximum entropy within the pair tables",
    )  # Steps from the raw estimates to the answers, for the reader of a result

    def __init__(self, plan: CollectionPlan, tallies: Sequence[Tally]) -> None:
        """Fit the tallies, one for each group of the plan; the cost is that of the models."""
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
        self._misfit: Misfit | None = None
        if self._reports.size:
            statistics = collect(plan, tallies, self._features, self.regime.orders)
            ordered = OrderedMargins(plan, tallies)
            self.fitted = self.regime.fit(plan, self._features, statistics, ordered)
            moments = self.fitted.moments()
            self._misfit = measure(moments, statistics, self._features, ordered.levels)
            if ordered.levels:
                self.processing = (*self.processing, "smooth margins of ordered attributes")

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
        stderr = self._factor(attributes) * stderr
        flags = ["modelled"]
        if in_view.all(axis=1).any():
            flags.append("covered")
        if is_noise(table, stderr):
            flags.append("noise")
        # An interval this wide contains all of [0, 1].
        stderr = np.minimum(stderr, np.maximum(table, 1.0 - table) / Z95)
        return Marginal(attributes, table / table.sum(), stderr, reports, tuple(flags))

    def grouped(self, attributes: Attributes, members: Sequence[Floats]) -> tuple[Floats, Floats]:
        """Return a table over groups of labels and its covariance: see `GroupedAnswers`."""
        marginal = self.marginal(attributes)
        shape = [member.shape[1] for member in members]
        if self.fitted is None or not marginal.reports:
            sums = contract(marginal.table.reshape(shape), members).ravel()
            return sums, np.diag(sums * (1.0 - sums))
        sums, spread = self.fitted.grouped(attributes, members)
        if shape == [len(member) for member in members]:
            # Groups of one label each: the very errors of the published table.
            stderr = contract(marginal.stderr.reshape(shape), members).ravel()
        else:
            stderr = self._factor(attributes) * np.sqrt(np.maximum(np.diag(spread), 0.0))
            stderr = np.minimum(stderr, np.maximum(sums, 1.0 - sums) / Z95)
        return sums / sums.sum(), with_errors(spread, stderr)

    def _factor(self, attributes: Attributes) -> float:
        return 1.0 if self._misfit is None else self._misfit.factor(attributes)
