"""The contract of every local method: a design (views and mechanisms) and a recovery of tables.

A new method is a new file beside this one and one line in the registry; planning, devices, the
stream, publishing and evaluation use only this protocol.
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
    """The groups and parameters with which a method would collect.

    Attributes:
        groups: goes into the plan.
        parameters: goes into the plan: everything that ``fit`` needs beyond the groups.
        reason: for people: the choices made and why, one line each.
        expected_sse: expected sum of squared errors of one marginal, by its size, from noise and
            sampling alone, averaged over the marginals of that size; what reconstruction adds
            depends on the data. Empty where the method states none.
    """

    groups: tuple[Group, ...]
    parameters: Mapping[str, Any]
    reason: tuple[str, ...]
    expected_sse: Mapping[int, float]


class Model(Protocol):
    """The result of a fit to one set of tallies; answers marginals.

    A model may have ``processing``, a tuple of the steps taken from raw estimates to its answers,
    in order; snapshots carry it.
    """

    def marginal(self, attributes: Attributes) -> Marginal:
        """Return the estimate over the given ascending positions; a pure function.

        Raises:
            InvalidInput: the plan does not collect what this marginal needs.
        """


@runtime_checkable
class LinearAnswers(Model, Protocol):
    """A model whose answers before non-negativity are unbiased and linear in the counters.

    Error formulas and tests of association refer to these answers. `marginal` publishes the clipped
    table with the standard errors of this one.
    """

    everyone: ClassVar[bool]
    """Whether every device reports on everything. Then the covariance is conditional on the
    records; otherwise it includes that the devices of a group are a sample."""

    def unclipped(self, attributes: Attributes) -> NDArray[np.float64]:
        """Return unbiased table: shape (cells,), may be negative.

        Raises:
            InvalidInput: no view holds all of the attributes.
        """

    def covariance(self, attributes: Attributes) -> NDArray[np.float64]:
        """Return the covariance of its cells: shape (cells, cells), at most 2^12 cells.

        Raises:
            InvalidInput: as `unclipped`, or too many cells.
        """


Answers = Literal["interactions", "tables", "coefficients", "blocks", "fitted"]
"""How a method's unbiased answers follow from the views' estimates.

``interactions``: each interaction is averaged over the views that hold it, then the table is made
non-negative. ``tables``: the average of the views that hold the whole table. ``coefficients``: an
inverse transform. ``blocks``: the inverse of randomised response block by block. ``fitted``: by a
fit that is not linear in any of these.
"""


class Method(Protocol):
    """A way to collect marginals and to recover them."""

    name: ClassVar[str]
    """Registry name."""

    baseline: ClassVar[bool]
    """Whether the method is for evaluation only, so that no plan may collect reports for it."""

    answers: ClassVar[Answers]
    """How tables follow from the views, see :data:`Answers`."""

    def design(self, request: Request) -> Design:
        """Choose views, mechanisms and shares.

        Raises:
            PlanError: the method cannot serve this domain or would be absurdly large, with size.
        """

    def fit(self, plan: Plan, tallies: Sequence[Tally]) -> Model:
        """Fit the model to tallies, one per group of the plan.

        Deterministic; never raises on counts that can come from a stream, including none at all.
        """


@runtime_checkable
class Piloted(Protocol):
    """A method whose parameters come from another method's answers (the pilot).

    In a stream the pilot is a plan of its own with the same lineage, so that each of its devices
    reports only once.
    """

    pilot: ClassVar[str]
    """Registry name of the pilot's method."""

    def learn(self, domain: Domain, model: Model) -> dict[str, Any]:
        """Return parameters for this method from the pilot's model."""


@runtime_checkable
class Follows(Protocol):
    """A method whose plans can continue an earlier plan of their lineage with other devices.

    The parameters of such a plan contain the counts of the earlier one.
    """

    teachers: ClassVar[tuple[str, ...]]
    """Registry names of the methods whose counts it understands."""

    def follow(self, plan: Plan, tallies: Sequence[Tally]) -> dict[str, Any]:
        """Return parameters for the plan that continues ``plan``, from its tallies, one per group.

        Raises:
            PlanError: they hold no reports, or are too large for a plan.
        """

    def fit_total(self, plan: Plan, tallies: Sequence[Tally]) -> Model:
        """Fit as `Method.fit`, to these tallies and those of the earlier plans together.

        Raises:
            PlanError: the plan's parameters are malformed.
        """


@runtime_checkable
class ReadsReports(Protocol):
    """A method without a small streaming statistic: it needs every report, so it only evaluates."""

    def fit_reports(self, plan: Plan, reports: Reports) -> Model:
        """Fit the model to the reports of a plan with one group and one view."""
