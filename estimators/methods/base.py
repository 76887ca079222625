"""The contract of every local method: a design of what is collected, and a recovery of tables.

A view is what a device reports on, usually a few attributes. A group is a set of devices that
choose among the same views and share a mechanism. A new method is a class and an entry point, here
or in another package (`examples/one_way`); all else uses only this protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.cause import Cause
from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.marginal import Marginal
from calmstream.estimators.plan import MAX_GROUPS, Group, Plan
from calmstream.estimators.tally import Tally


@dataclass(frozen=True, slots=True)
class Request:
    """What a plan is to be for, from which a method designs it."""

    domain: Domain
    epsilon: str  # decimal string, the total privacy loss of one report
    users: int  # number of reports expected per window, at least 1
    k: int  # number of attributes of the marginals that matter most, 1 to d
    parameters: Mapping[str, Any] = field(default_factory=dict)  # of the method
    max_groups: int = MAX_GROUPS  # most groups of devices; each group has a topic


@dataclass(frozen=True, slots=True)
class Design:
    """The groups and parameters with which a method would collect."""

    groups: tuple[Group, ...]
    parameters: Mapping[str, Any]  # everything that ``fit`` needs beyond the groups
    reason: tuple[str, ...]  # the choices and the reasons for them, one line each, for people


class Model(Protocol):
    """The result of a fit to one set of tallies; answers marginals.

    A model may have ``processing``, a tuple of the steps taken from raw estimates to its answers,
    in order; snapshots carry it.
    """

    def marginal(self, attributes: Attributes) -> Marginal:
        """Return the estimate over the given ascending positions; a pure function.

        `flagged` makes it, with ``noise`` where readers must not draw conclusions from the table.
        It raises InvalidInput where the plan does not collect what this marginal needs.
        """


@runtime_checkable
class LinearAnswers(Model, Protocol):
    """A model whose answers before non-negativity are unbiased and linear in the counters.

    Error formulas and tests of association refer to these answers. `marginal` publishes the clipped
    table with the standard errors of this one. Where no view contains all of the attributes both
    raise InvalidInput, and `covariance` of a table of more than 2^12 cells.
    """

    everyone: ClassVar[bool]
    """Whether every device reports on everything. Then the covariance is conditional on the
    records; otherwise it includes that the devices of a group are a sample."""

    def unclipped(self, attributes: Attributes) -> NDArray[np.float64]:
        """Return the unbiased table: shape (cells,); cells may be negative."""

    def covariance(self, attributes: Attributes) -> NDArray[np.float64]:
        """Return the covariance of the cells of `unclipped`: shape (cells, cells)."""


@runtime_checkable
class RawTables(Model, Protocol):
    """A model whose answers are not linear in the counters, but which holds unbiased tables."""

    def raw_table(
        self, attributes: Attributes
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return an unbiased table, cell by cell, and its covariance: (cells,), (cells, cells).

        The covariance includes that the devices are a sample of a population. None if nothing is
        counted of all these attributes together.
        """


@runtime_checkable
class GroupedAnswers(Model, Protocol):
    """A model that knows the covariance of its cells from draws of its posterior."""

    def grouped(
        self, attributes: Attributes, members: Sequence[NDArray[np.float64]]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return a table over groups of labels, and the covariance of its cells, as `marginal`.

        ``members``: per attribute shape (groups, labels): 1 where a group has a label.
        """

    def dependence(
        self, pair: Attributes
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return numbers of mean 0 if a pair is independent, and their covariance.

        They are unbiased, unlike the tables, which are shrunk. None if no view contains the pair.
        """


@runtime_checkable
class HiddenCauses(Model, Protocol):
    """A model of a whole record: given a state of hidden causes, attributes are independent."""

    def mixture(self) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
        """Return weights of the states (states,), and per attribute shares (states, labels)."""

    def causes(self) -> tuple[Cause, ...]:
        """Return the causes that the data supports, those with the most evidence first.

        Noise alone shows any with a probability of at most 1 in 1,000.
        """


class Method(Protocol):
    """A way to collect marginals and to recover them; the first line of its text is for people.

    It may state ``raw = True``: its tables are published without correction, not as distributions.
    """

    name: ClassVar[str]  # in the registry
    baseline: ClassVar[bool]  # whether it is for evaluation only: no plan may collect reports

    def design(self, request: Request) -> Design:
        """Choose views, mechanisms and shares.

        It raises PlanError where the method cannot serve this domain, or where the plan would be
        too large; the message states its size.
        """

    def fit(self, plan: Plan, tallies: Sequence[Tally]) -> Model:
        """Fit the model to tallies, one per group of the plan.

        The result is deterministic. No counts that a stream can produce raise an error, also not
        those of zero reports.
        """


@runtime_checkable
class Follows(Method, Protocol):
    """A method whose plans can continue an earlier plan of their lineage with other devices."""

    teachers: ClassVar[tuple[str, ...]]
    """Registry names of the methods of earlier plans whose counts this method can use, the usual
    one first. A method that is none of them has no plan without a pilot."""

    def follow(self, plan: Plan, tallies: Sequence[Tally]) -> dict[str, Any]:
        """Return parameters for the plan that continues ``plan``, from its tallies, one per group.

        It raises PlanError where the tallies contain no reports, or are too large for a plan.
        """

    def fit_total(self, plan: Plan, tallies: Sequence[Tally]) -> Model:
        """Fit as `Method.fit` to these tallies and those that the parameters have of earlier plans.

        It raises PlanError where the plan's parameters are malformed.
        """
