"""LoPub (Ren et al., TIFS 2018): Bloom filters, bitwise randomised response, Lasso, EM.

A stream can use the Lasso, whose sufficient statistics are integer counters (`bloom_rr`), not EM,
which needs every report again in every round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log, prod, sqrt
from typing import ClassVar

import numpy as np

from calmstream.common.errors import InvalidInput
from calmstream.estimators.arrays import Floats
from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.marginal import Marginal, flagged, uniform
from calmstream.estimators.mechanisms.base import Reports
from calmstream.estimators.methods.base import Design, Request
from calmstream.estimators.methods.packing import number_parameter, only_parameters
from calmstream.estimators.papers.castell.design import choose_tables, only_mechanism, record_view
from calmstream.estimators.papers.castell.model import RecordTables
from calmstream.estimators.papers.lopub.bloom_rr import BITS, HASHES, BloomRR
from calmstream.estimators.papers.lopub.lasso import expectation_maximisation, nonnegative_lasso
from calmstream.estimators.plan import Group, Plan
from calmstream.estimators.tally import Tally

MAX_QUERY_CELLS = 1 << 18  # maximum number of cells of a table that the Lasso estimates
PENALTY = 1.0  # default penalty of the Lasso, in standard deviations of the noise of a score


class LoPub:
    """Every attribute as a Bloom filter, its bits flipped; Lasso from counters (Ren et al., 2018).

    The parameter ``tables``: see `choose_tables`.
    """

    name: ClassVar[str] = "lopub"
    baseline: ClassVar[bool] = False

    def design(self, request: Request) -> Design:
        options = request.parameters
        only_parameters(self.name, options, "bits", "hashes", "penalty", "tables")
        bits = int(number_parameter(options, "bits", BITS, 2, 1024))
        hashes = int(number_parameter(options, "hashes", HASHES, 1, 16))
        penalty = number_parameter(options, "penalty", PENALTY, 0.0, 100.0)
        domain = request.domain
        tables, kept = choose_tables(domain, request.k, options)
        view, axes = record_view(domain), domain.cardinalities
        mechanism = BloomRR(request.epsilon, domain.size(), axes, bits, hashes, tables)
        group = Group(mechanism, (view,), (1,))
        reason = (
            f"{len(domain)} Bloom filters of {bits} bits and {hashes} hashes",
            f"two records differ in at most {mechanism.distance} bits, which share epsilon evenly",
            kept,
            "Lasso from counters; LoPub's EM needs all reports and is for evaluation only",
        )
        return Design((group,), {"penalty": penalty}, reason)

    def fit(self, plan: Plan, tallies: Sequence[Tally]) -> LoPubModel:
        mechanism = only_mechanism(plan, BloomRR)
        penalty = float(plan.parameters.get("penalty", PENALTY))
        return LoPubModel(plan.domain, mechanism, tallies[0], penalty)


class LoPubModel(RecordTables[BloomRR]):
    """A model that estimates marginals by the Lasso (`Model`)."""

    processing: tuple[str, ...] = (
        "non-negative Lasso",
        "least squares on its candidates",
        "normalised",
    )

    def __init__(self, domain: Domain, mechanism: BloomRR, tally: Tally, penalty: float) -> None:
        super().__init__(domain, mechanism, tally)
        self._penalty = penalty

    def marginal(self, attributes: Attributes) -> Marginal:
        """Return the normalised estimate: non-negative least squares on the Lasso's candidates.

        Standard errors are those of unpenalised least squares, upper bounds for cells at 0.
        """
        mechanism, n = self._mechanism, self._n
        shape = tuple(mechanism.axes[i] for i in attributes)
        if prod(shape) > MAX_QUERY_CELLS:
            raise InvalidInput(
                f"a table of {prod(shape):,} cells; lopub estimates at most {MAX_QUERY_CELLS:,}"
            )
        self._require(attributes)
        if n == 0:
            return uniform(attributes, prod(shape))
        scores = mechanism.scores(self._counts, n, attributes)
        grams = [mechanism.grams[i] for i in attributes]
        penalty = self._penalty * _score_deviation(mechanism, attributes, n)
        candidates = nonnegative_lasso(scores, grams, penalty) > 0.0
        table = nonnegative_lasso(scores, grams, 0.0, candidates)
        total = float(table.sum())
        table = table / total if total > 0.0 else np.full(shape, 1.0 / prod(shape))
        stderr = np.sqrt(mechanism.noise(table, attributes, n)).reshape(-1)
        clipped = not candidates.all()
        return flagged(attributes, table.reshape(-1), stderr, n, ("covered",), clipped=clipped)


class LoPubEM(LoPub):
    """As lopub, then EM on the reports themselves, which does not stream.

    For evaluation only: no small statistic is sufficient.
    """

    name: ClassVar[str] = "lopub-em"
    baseline: ClassVar[bool] = True

    def fit_reports(self, plan: Plan, reports: Reports) -> LoPubModel:
        mechanism = only_mechanism(plan, BloomRR)
        tally = Tally(np.array([len(reports["b0"])]), mechanism.tally(reports, None, 1))
        penalty = float(plan.parameters.get("penalty", PENALTY))
        return _Refined(plan.domain, mechanism, tally, penalty, reports)


class _Refined(LoPubModel):
    """A Lasso model that has the reports, and refines its tables, not their errors, by EM."""

    processing = (*LoPubModel.processing, "expectation-maximisation on the reports")

    def __init__(
        self, domain: Domain, mechanism: BloomRR, tally: Tally, penalty: float, reports: Reports
    ) -> None:
        super().__init__(domain, mechanism, tally, penalty)
        self._reports = reports

    def marginal(self, attributes: Attributes) -> Marginal:
        lasso = super().marginal(attributes)
        table = refine(self._mechanism, self._reports, attributes, lasso.table)
        return replace(lasso, table=table)


def _score_deviation(mechanism: BloomRR, attributes: Attributes, n: int) -> float:
    """Return the typical standard deviation of a candidate's score, a product over attributes.

    The second moment of a factor is the noise of the bits of a value's filter, plus the mean square
    of the number of bits that two filters have in common.
    """
    moment = 1.0
    for i in attributes:
        gram = mechanism.grams[i]
        moment *= mechanism.per_bit * float(np.diag(gram).mean()) + float(np.square(gram).mean())
    return sqrt(moment / n)


def refine(mechanism: BloomRR, reports: Reports, attributes: Attributes, start: Floats) -> Floats:
    """Return the table by LoPub's EM on all reports; cells that are 0 in ``start`` stay so."""
    ones = mechanism.ones({f"b{i}": reports[f"b{i}"] for i in range(len(mechanism.axes))})
    log_odds = log(float((1 - mechanism.q) / mechanism.q))
    likelihoods = []
    for i in attributes:
        # Given value x, a bit of its filter is 1 with probability 1 - q, any other one with q. But
        # for a factor per report the likelihood is exp(log_odds · (2 · ones among the bits of x -
        # number of bits of x)). Rows of ones[i] are values, after one of constants.
        filter_bits = np.diag(mechanism.grams[i])
        logs = log_odds * (2.0 * ones[i][1:].T.astype(np.float64) - filter_bits)
        likelihoods.append(np.exp(logs - logs.max(axis=1, keepdims=True)))
    shape = tuple(mechanism.axes[i] for i in attributes)
    return expectation_maximisation(likelihoods, start.reshape(shape)).reshape(-1)
