"""What every local method is: a design (views × mechanism) and a recovery (tallies → marginals).

A new method is a new file beside this one and one line in the registry; planning, the edge, the
stream, publishing and evaluation know only this protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from estimators.domain import Attributes, Domain
from estimators.marginal import Marginal
from estimators.mechanisms.base import Reports
from estimators.plan import Group, Plan
from estimators.plan.request import Request
from estimators.tally import Tally


@dataclass(frozen=True, slots=True)
class Design:
    """What a method would collect.

    Attributes:
        groups: goes into the plan.
        parameters: goes into the plan: everything that ``fit`` needs beyond the groups.
        reason: for people: the choices made and why, one line each.
        expected_sse: expected sum of squared errors of one marginal, by its size, from noise and
            sampling alone, averaged over the marginals of that size; what reconstruction adds
            depends on the data. Empty where the method cannot say.
    """

    groups: tuple[Group, ...]
    parameters: Mapping[str, Any]
    reason: tuple[str, ...]
    expected_sse: Mapping[int, float]


class Model(Protocol):
    """Everything learnt from one set of tallies; answers any marginal.

    A model may have ``processing``, a tuple of the steps taken from raw estimates to its answers,
    in order; snapshots carry it.
    """

    def marginal(self, attributes: Attributes) -> Marginal:
        """The estimate over the given ascending positions; a pure function.

        Raises:
            InvalidInput: the method never collected what this marginal needs.
        """


@runtime_checkable
class LinearAnswers(Model, Protocol):
    """A model whose answers before non-negativity are unbiased and linear in the counters.

    What error formulas and tests of association speak about; `marginal` publishes the clipped table
    with the standard errors of this one.
    """

    everyone: ClassVar[bool]
    """Whether every device reports on everything: then the covariance is given their records and
    holds nothing of how the devices were drawn from a population; otherwise it does."""

    def unclipped(self, attributes: Attributes) -> NDArray[np.float64]:
        """Unbiased table: shape (cells,), may be negative.

        Raises:
            InvalidInput: no view holds all of the attributes.
        """

    def covariance(self, attributes: Attributes) -> NDArray[np.float64]:
        """Covariance of its cells: shape (cells, cells), at most 2^12 cells.

        Raises:
            InvalidInput: as `unclipped`, or too many cells.
        """


Answers = Literal["interactions", "tables", "coefficients", "blocks", "fitted"]
"""How a method's unbiased answers follow from the views' estimates.

``interactions``: each interaction is averaged over the views that hold it, then the table is made
plausible. ``tables``: the average of the views that hold the whole table. ``coefficients``: an
inverse transform. ``blocks``: the inverse of randomised response block by block. ``fitted``: by a
fit that is not linear in any of these.
"""


class Method(Protocol):
    """A way to collect marginals, and to recover them."""

    name: ClassVar[str]
    """Registry name."""

    baseline: ClassVar[bool]
    """For comparison only: learns nothing from reports, so no plan may collect them for it."""

    answers: ClassVar[Answers]
    """How tables follow from the views, see :data:`Answers`."""

    def design(self, request: Request) -> Design:
        """Choose views, mechanisms and shares.

        Raises:
            PlanError: the method cannot serve this domain or would be absurdly large, with size.
        """

    def fit(self, plan: Plan, tallies: Sequence[Tally]) -> Model:
        """Recover from tallies, one per group of the plan.

        Deterministic; never raises on counts that can come from a stream, including none at all.
        """


@runtime_checkable
class Piloted(Protocol):
    """A method whose parameters are learnt from another method's answers first.

    In a stream the pilot is a plan of its own with the same lineage, so that its devices are not
    asked again.
    """

    pilot: ClassVar[str]
    """Registry name of the pilot's method."""

    def learn(self, domain: Domain, model: Model) -> dict[str, Any]:
        """Parameters for this method from the pilot's model."""


@runtime_checkable
class Follows(Protocol):
    """A method whose plans can continue an earlier plan of their lineage that asked other devices.

    The parameters of such a plan carry what the earlier one counted, so it needs nothing else.
    """

    teachers: ClassVar[tuple[str, ...]]
    """Registry names of the methods whose counts it understands."""

    def follow(self, plan: Plan, tallies: Sequence[Tally]) -> dict[str, Any]:
        """Parameters for the plan that continues ``plan``, from its tallies, one per group.

        Raises:
            PlanError: they hold no reports, or are too large to stand in a plan.
        """

    def fit_total(self, plan: Plan, tallies: Sequence[Tally]) -> Model:
        """As `Method.fit`, of everything that these tallies and the earlier plans' counted.

        Raises:
            PlanError: the plan's parameters are malformed.
        """


@runtime_checkable
class ReadsReports(Protocol):
    """A method without a small streaming statistic: it needs every report, so it only evaluates."""

    def fit_reports(self, plan: Plan, reports: Reports) -> Model:
        """The model of the reports of a plan with one group and one view."""
