"""InpEM (Cormode et al., SIGMOD 2018): randomised response per attribute, tables by likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from calmstream.common.errors import InvalidInput, PlanError
from calmstream.estimators.arrays import Floats
from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.marginal import CLIPPED_STDERRS, Marginal, flagged, uniform
from calmstream.estimators.methods.base import Design, Request
from calmstream.estimators.methods.packing import statistic
from calmstream.estimators.numerics.block_inverse import noise
from calmstream.estimators.numerics.likelihood import (
    barrier,
    discrepancy,
    expectation_maximisation,
)
from calmstream.estimators.papers.castell.design import BlockMethod, only_mechanism
from calmstream.estimators.papers.castell.model import RecordTables
from calmstream.estimators.papers.castell.product_grr import ProductGRR, channels
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally

MAX_CELLS = 1 << 10
"""Maximum number of cells of a table that is fitted; the time of a step is cubic in it."""

STOP = {
    "discrepancy": "until the table fits the reports as well as the true one is expected to",
    "likelihood": "until the reports' log-likelihood can grow by at most 0.01",
    "change": "by expectation-maximisation until no cell changes by 1e-5 (Cormode et al.)",
}
"""When the fit stops, by the value of the parameter ``stop``, for people who read a plan."""


class InpEM(BlockMethod):
    """Every attribute with a part of epsilon; tables by maximum likelihood, which are valid.

    ``stop`` is one of `STOP`: with the paper's ``change`` a small epsilon gives the uniform table;
    ``tables`` are of `choose_tables`. The paper's attributes are binary.
    """

    name: ClassVar[str] = "inp-em"
    raw: ClassVar[bool] = False
    parameters: ClassVar[tuple[str, ...]] = ("stop", "tables")
    recovery: ClassVar[str] = "towards maximum likelihood "

    def design(self, request: Request) -> Design:
        stop = request.parameters.get("stop", "discrepancy")
        if stop not in STOP:
            raise PlanError(f"parameter stop must be one of {', '.join(STOP)}, got {stop!r}")
        design = super().design(request)
        *reason, recovery = design.reason
        reason += [f"{recovery}{STOP[stop]}", statistic(design.groups)]
        return replace(design, parameters={"stop": stop}, reason=tuple(reason))

    def fit(  # type: ignore[override]  # other tables of the same counters
        self, plan: Plan, tallies: Sequence[Tally]
    ) -> LikelihoodModel:
        stop = plan.parameters.get("stop", "discrepancy")
        return LikelihoodModel(plan.domain, only_mechanism(plan, ProductGRR), tallies[0], stop)


class LikelihoodModel(RecordTables[ProductGRR]):
    """A model that fits each queried table by maximum likelihood: not linear in the counts."""

    processing = ("towards maximum likelihood over distributions, table by table",)

    def __init__(self, domain: Domain, mechanism: ProductGRR, tally: Tally, stop: str) -> None:
        super().__init__(domain, mechanism, tally)
        self._stop = stop

    def marginal(self, attributes: Attributes) -> Marginal:
        """Fit a table; its standard errors are those of the unconstrained inverse."""
        cells = self._domain.size(attributes)
        if cells > MAX_CELLS:
            raise InvalidInput(f"a table of {cells:,} cells; inp-em fits at most {MAX_CELLS:,}")
        observed = self._observed(attributes)
        if self._n == 0:
            return uniform(attributes, cells)
        factors = channels(self._mechanism, attributes)
        table = self.fitted(attributes).ravel()
        variance = noise(observed, factors, self._n).ravel()
        stderr = np.sqrt(variance)
        clipped = bool((table < CLIPPED_STDERRS * stderr).any())
        return flagged(attributes, table, stderr, self._n, ("covered",), clipped=clipped)

    def fitted(self, attributes: Attributes) -> Floats:
        observed, factors = self._observed(attributes), channels(self._mechanism, attributes)
        if self._stop == "change":
            return expectation_maximisation(observed, factors)
        rule = barrier if self._stop == "likelihood" else discrepancy
        return rule(observed, factors, self._n)
