"""InpEM: attributes randomised one by one, marginals by maximum likelihood."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from estimators.castell.design import choose_tables, expected_errors, loss_reason, product_group
from estimators.castell.family import only_mechanism
from estimators.errors import InvalidInput, PlanError
from estimators.linear import MOVED
from estimators.marginal import Marginal, is_noise, uniform
from estimators.mechanisms.product_grr import ProductGRR
from estimators.methods.base import Answers, Design
from estimators.methods.shared.options import only_parameters
from estimators.methods.shared.packing import statistic
from estimators.numerics.block_inverse import channels, noise
from estimators.numerics.likelihood import barrier, discrepancy, expectation_maximisation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from estimators.domain import Attributes, Domain
    from estimators.linear import Floats
    from estimators.numerics.likelihood import Fit
    from estimators.plan import Plan
    from estimators.plan.request import Request
    from estimators.tally import Tally

MAX_CELLS = 1 << 10
"""Largest table that is fitted: a step costs the cube of its cells."""

STOP = {
    "discrepancy": "until the table explains the reports as well as the truth would",
    "likelihood": "until at most 0.01 of the reports' log-likelihood is left to gain",
    "change": "by expectation-maximisation until no cell changes by 1e-5 (Cormode et al.)",
}


class InpEM:
    """Registry name ``inp-em``; every attribute by randomised response with epsilon / d.

    Parameters: ``stop``, one of ``discrepancy`` (default), ``likelihood`` (the most likely table,
    which fits the noise too) and ``change`` (the paper's rule, which for small epsilon returns the
    uniform table); ``tables``: see `choose_tables`. The paper's attributes are binary; others take
    generalised randomised response, which changes nothing else.
    """

    name: ClassVar[str] = "inp-em"
    baseline: ClassVar[bool] = False
    answers: ClassVar[Answers] = "fitted"

    def design(self, request: Request) -> Design:
        """One group; the joint or the k-way tables, whichever are smaller."""
        only_parameters(self.name, request.parameters, "stop", "tables")
        stop = request.parameters.get("stop", "discrepancy")
        if stop not in STOP:
            raise PlanError(f"parameter stop must be one of {', '.join(STOP)}, got {stop!r}")
        tables = choose_tables(request.domain, request.k, request.parameters)
        single = tuple((i,) for i in range(len(request.domain)))
        group, mechanism = product_group(request, single, tables.sets)
        reason = (
            loss_reason(mechanism),
            tables.reason,
            f"towards maximum likelihood {STOP[stop]}",
            statistic((group,), request.epsilon),
        )
        expected = expected_errors(mechanism, request, joint=True)
        return Design((group,), {"stop": stop}, reason, expected)

    def fit(self, plan: Plan, tallies: Sequence[Tally]) -> LikelihoodModel:
        """Keep the counts; a table is fitted when it is asked for."""
        return LikelihoodModel(plan, only_mechanism(plan, ProductGRR), tallies[0])


class LikelihoodModel:
    """See :class:`estimators.methods.base.Model`. Not linear: it has no unclipped answer."""

    processing = ("towards maximum likelihood over distributions, table by table",)

    def __init__(self, plan: Plan, mechanism: ProductGRR, tally: Tally) -> None:
        self._domain: Domain = plan.domain
        self._mechanism = mechanism
        self._counts = tally.counts[0]
        self._n = int(tally.n[0])
        self._stop = plan.parameters.get("stop", "discrepancy")

    def marginal(self, attributes: Attributes) -> Marginal:
        """Fit a table; its standard errors are those of the unconstrained inverse.

        Raises:
            InvalidInput: the plan keeps no table that holds the attributes, or more than 1,024
                cells.
        """
        cells = self._domain.size(attributes)
        if cells > MAX_CELLS:
            raise InvalidInput(f"a table of {cells:,} cells; inp-em fits at most {MAX_CELLS:,}")
        observed = self._observed(attributes)
        if self._n == 0:
            return uniform(attributes, cells)
        factors = channels(self._mechanism, attributes)
        table = self.fitted(attributes).table.ravel()
        variance = noise(observed, factors, self._n).ravel()
        flags = ["covered"]
        if (table < MOVED * np.sqrt(variance)).any():
            flags.append("clipped")
        stderr = np.sqrt(variance)
        if is_noise(table, stderr):
            flags.append("noise")
        return Marginal(attributes, table, stderr, self._n, tuple(flags))

    def fitted(self, attributes: Attributes) -> Fit:
        """Return the fit by the plan's stop rule, with the number of its steps."""
        observed, factors = self._observed(attributes), channels(self._mechanism, attributes)
        if self._stop == "change":
            return expectation_maximisation(observed, factors)
        rule = barrier if self._stop == "likelihood" else discrepancy
        return rule(observed, factors, self._n)

    def _observed(self, attributes: Attributes) -> Floats:
        layout = self._mechanism.layout
        if layout.holder(attributes) is None:
            names = ", ".join(self._domain.names[i] for i in attributes)
            raise InvalidInput(f"the plan keeps no table that holds {names}: plan with `tables`")
        frequencies: Floats = layout.read(self._counts, attributes) / max(self._n, 1)
        return frequencies
