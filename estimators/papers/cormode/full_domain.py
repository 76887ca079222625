"""Methods that collect the table over all attributes: FC, InpRR, InpPS, InpOLH, InpHTCMS.

A marginal sums cells and their errors: the methods are for domains with few cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast

import numpy as np

from calmstream.common.errors import PlanError
from calmstream.estimators.arrays import Counts, Floats
from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.marginal import MAX_COVARIANCE_CELLS
from calmstream.estimators.mechanisms.adaptive import adaptive
from calmstream.estimators.mechanisms.base import Covariance, Mechanism
from calmstream.estimators.mechanisms.registry import standard
from calmstream.estimators.methods.base import Design, Request
from calmstream.estimators.methods.packing import only_parameters, statistic
from calmstream.estimators.papers.cormode.linear import Estimate, LinearModel
from calmstream.estimators.papers.cormode.sketch import HadamardSketch
from calmstream.estimators.plan import Group, Plan
from calmstream.estimators.plan.counted import likely
from calmstream.estimators.plan.numbers import as_number
from calmstream.estimators.tally import Tally
from calmstream.estimators.view import View

MAX_CELLS = 1 << 20
MAX_REPORT_CELLS = 1 << 16  # of oracles whose report has a bit per cell, or is compared with each
UNARY = ("sue", "oue")
"""Randomised response of every bit with epsilon / 2, and the probabilities of Wang et al., with
which the paper ran its experiments."""


def unary(parameters: Mapping[str, Any], epsilon: str, cells: int) -> Mechanism:
    """Return an oracle with a bit per cell; the parameter ``oracle`` is one of `UNARY`."""
    name = parameters.get("oracle", UNARY[0])
    if name not in UNARY:
        raise PlanError(f"parameter oracle must be one of {', '.join(UNARY)}, got {name!r:.40}")
    return standard(name, epsilon, cells)


class FullDomain:
    """The common part of the five methods, which differ in the oracle over all values."""

    name: ClassVar[str]
    baseline: ClassVar[bool] = False
    limit: ClassVar[int] = MAX_CELLS
    parameters: ClassVar[tuple[str, ...]] = ()
    oracle: ClassVar[staticmethod[[Mapping[str, Any], str, int], Mechanism]]

    def design(self, request: Request) -> Design:
        only_parameters(self.name, request.parameters, *self.parameters)
        domain, cells = request.domain, request.domain.size()
        if cells > self.limit:
            raise PlanError(
                f"method {self.name} counts every value of a record: {cells:,} cells; at most "
                f"{self.limit:,} are collected: use fewer attributes, or a method of small views"
            )
        mechanism = self.oracle(request.parameters, request.epsilon, cells)
        groups = (Group(mechanism, (View(tuple(range(len(domain)))),), (1,)),)
        reason = (
            f"{mechanism.name.upper()} on all {cells:,} values of a record; a marginal sums cells",
            statistic(groups),
        )
        return Design(groups, {}, reason)

    def fit(self, plan: Plan, tallies: Sequence[Tally]) -> FullTable:
        tally, n = tallies[0], int(tallies[0].n[0])
        return FullTable(plan.domain, plan.mechanisms[0], tally.counts[0], n)


class FC(FullDomain):
    """The whole record as one value, by GRR or OUE: a baseline, for records of few values."""

    name: ClassVar[str] = "fc"
    limit: ClassVar[int] = MAX_REPORT_CELLS
    oracle = staticmethod(lambda _, epsilon, cells: adaptive(epsilon, cells))


class InpRR(FullDomain):
    """The whole record, a bit for each of its values, by one of the oracles `UNARY`."""

    name: ClassVar[str] = "inp-rr"
    limit: ClassVar[int] = MAX_REPORT_CELLS
    parameters = ("oracle",)
    oracle = staticmethod(unary)


class InpPS(FullDomain):
    """The whole record as one value, by GRR; records of a handful of values only."""

    name: ClassVar[str] = "inp-ps"
    oracle = staticmethod(lambda _, epsilon, cells: standard("grr", epsilon, cells))


class InpOLH(FullDomain):
    """The whole record, hashed; counting a report costs a step for every value of a record."""

    name: ClassVar[str] = "inp-olh"
    limit: ClassVar[int] = MAX_REPORT_CELLS
    oracle = staticmethod(lambda _, epsilon, cells: standard("olh", epsilon, cells))


class InpHTCMS(FullDomain):
    """The whole record, one bit of a Hadamard count-mean sketch."""

    name: ClassVar[str] = "inp-htcms"
    parameters = ("seed",)

    @staticmethod
    def oracle(parameters: Mapping[str, Any], epsilon: str, cells: int) -> Mechanism:
        seed = cast("int", as_number(parameters.get("seed", 0)))
        return replace(HadamardSketch.standard(epsilon, cells), seed=seed)


class FullTable(LinearModel):
    """A model that answers with sums of cells of one table, on which all devices report."""

    everyone: ClassVar[bool] = True

    def __init__(self, domain: Domain, mechanism: Mechanism, counts: Counts, n: int) -> None:
        super().__init__(domain)
        self._mechanism, self._n = mechanism, n
        if n == 0:
            self._table = self._likely = np.full(mechanism.cells, 1.0 / mechanism.cells)
        else:
            self._table = mechanism.estimate(counts, n)
            self._likely = likely(self._table)

    def estimate(self, attributes: Attributes) -> Estimate:
        cells = self._domain.size(attributes)
        if self._n == 0:
            return Estimate(np.full(cells, 1.0 / cells), np.zeros(cells), 0)
        whole = self._mechanism.covariance(self._n, self._likely)
        factors = self._fold(whole.factors, attributes)
        frequencies = self._project(self._likely, attributes)
        # The variance given the devices' records.
        sampling = frequencies * (1.0 - frequencies) / self._n
        noise = self._project(whole.diagonal, attributes) - np.square(factors).sum(axis=1)
        variance = np.maximum(noise - sampling, 0.0)
        return Estimate(self._project(self._table, attributes), variance, self._n)

    def covariance(self, attributes: Attributes) -> Floats:
        self._check(attributes, MAX_COVARIANCE_CELLS)
        n = max(self._n, 1)
        whole = self._mechanism.covariance(n, self._likely)
        diagonal = self._project(whole.diagonal, attributes)
        sampled = Covariance(diagonal, self._fold(whole.factors, attributes)).dense()
        f = self._project(self._likely, attributes)
        return sampled - Covariance(f, f[:, None]).dense() / n

    def _project(self, values: Floats, attributes: Attributes) -> Floats:
        return self._fold(values[:, None], attributes)[:, 0]

    def _fold(self, matrix: Floats, attributes: Attributes) -> Floats:
        """Sum rows by the cell of the marginal: shape (cells, columns)."""
        cardinalities = self._domain.cardinalities
        others = tuple(i for i in range(len(cardinalities)) if i not in attributes)
        cube = matrix.reshape(*cardinalities, matrix.shape[1]).sum(axis=others)
        return np.asarray(cube.reshape(-1, matrix.shape[1]))
