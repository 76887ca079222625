"""LoPub (Ren et al., TIFS 2018): Bloom filters, bitwise randomised response, Lasso, EM.

The Lasso streams: its sufficient statistics are integer counters (see `mechanisms.bloom_rr`). EM
needs every report again in every round; :func:`refine` offers it to tools that hold the reports,
such as evaluation, and plans say that they do without.
"""

from __future__ import annotations

from dataclasses import replace
from math import log, prod, sqrt
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from estimators.castell.design import choose_tables, record_view
from estimators.castell.family import only_mechanism
from estimators.castell.lasso import expectation_maximisation, nonnegative_lasso
from estimators.errors import InvalidInput
from estimators.marginal import Marginal, is_noise, uniform
from estimators.mechanisms.bloom_rr import BITS, HASHES, BloomRR
from estimators.mechanisms.registry import spec
from estimators.methods.base import Answers, Design
from estimators.methods.shared.options import number_parameter, only_parameters
from estimators.numerics.expected_error import by_cardinalities, mean_error
from estimators.plan import Group

if TYPE_CHECKING:
    from collections.abc import Sequence

    from estimators.domain import Attributes, Domain
    from estimators.marginal import Floats
    from estimators.mechanisms.base import Reports
    from estimators.plan import Plan
    from estimators.plan.request import Request
    from estimators.tally import Counts, Tally

MAX_QUERY_CELLS = 1 << 18
"""Largest table that the Lasso is solved for."""

PENALTY = 1.0
"""Lasso penalty, in standard deviations of a score's noise."""


class LoPub:
    """Registry name ``lopub``; parameters ``bits``, ``hashes``, ``penalty``, ``tables``."""

    name: ClassVar[str] = "lopub"
    baseline: ClassVar[bool] = False
    answers: ClassVar[Answers] = "fitted"

    def design(self, request: Request) -> Design:
        """One group; every attribute a filter; the joint or the k-way tables."""
        given = request.parameters
        only_parameters(self.name, given, "bits", "hashes", "penalty", "tables")
        bits = int(number_parameter(given, "bits", BITS, 2, 1024))
        hashes = int(number_parameter(given, "hashes", HASHES, 1, 16))
        penalty = number_parameter(given, "penalty", PENALTY, 0.0, 100.0)
        domain = request.domain
        tables = choose_tables(domain, request.k, given)
        view = record_view(domain)
        axes = domain.cardinalities
        mechanism = BloomRR(request.epsilon, domain.size(), axes, bits, hashes, tables.sets)
        group = Group(spec(mechanism), (view,), (1,))
        reason = (
            f"{len(domain)} Bloom filters of {bits} bits and {hashes} hashes",
            f"records differ in at most {mechanism.distance} bits, epsilon is split evenly on them",
            tables.reason,
            "Lasso from counters; LoPub's EM needs the reports themselves: evaluation only",
        )
        expected = _expected(mechanism, domain, request)
        return Design((group,), {"penalty": penalty}, reason, expected)

    def fit(self, plan: Plan, tallies: Sequence[Tally]) -> LoPubModel:
        """Return the Lasso's model.

        Raises:
            PlanError: the plan's group is not of that kind.
        """
        mechanism = only_mechanism(plan, BloomRR)
        penalty = float(plan.parameters.get("penalty", PENALTY))
        return LoPubModel(mechanism, tallies[0].counts[0], int(tallies[0].n[0]), penalty)


def _expected(mechanism: BloomRR, domain: Domain, request: Request) -> dict[int, float]:
    """Noise of unpenalised least squares on even data, by size; what the Lasso changes is unknown.

    Attributes of one cardinality err nearly alike: their filters differ by chance only.
    """

    def error(attributes: Attributes) -> float:
        shape = domain.shape(attributes)
        even = np.full(shape, 1.0 / prod(shape))
        return float(mechanism.noise(even, attributes, request.users).sum())

    return mean_error(domain, request.k, by_cardinalities(domain, error))


class LoPubModel:
    """Marginals by Lasso; see :class:`estimators.methods.base.Model`.

    Attributes:
        processing: the steps from raw counts to answers.
    """

    processing: tuple[str, ...] = (
        "non-negative Lasso",
        "least squares on its candidates",
        "normalised",
    )

    def __init__(self, mechanism: BloomRR, counts: Counts, n: int, penalty: float) -> None:
        """Keep the counters of one window or total."""
        self._mechanism = mechanism
        self._counts = counts
        self._n = n
        self._penalty = penalty

    def marginal(self, attributes: Attributes) -> Marginal:
        """Lasso picks the candidates, non-negative least squares on them gives the frequencies.

        The table is normalised. Standard errors are those of unpenalised least squares: upper
        bounds for cells that the Lasso sets to 0.

        Raises:
            InvalidInput: no table of the plan holds the attributes, or too many cells.
        """
        mechanism, n = self._mechanism, self._n
        shape = tuple(mechanism.axes[i] for i in attributes)
        if prod(shape) > MAX_QUERY_CELLS:
            raise InvalidInput(f"a table of {prod(shape):,} cells; at most {MAX_QUERY_CELLS:,}")
        if mechanism.layout.holder(attributes) is None:
            raise InvalidInput("the plan keeps no table that holds these attributes: use `tables`")
        if n == 0:
            return uniform(attributes, prod(shape))
        scores = mechanism.scores(self._counts, n, attributes)
        grams = [mechanism.grams[i] for i in attributes]
        penalty = self._penalty * _score_deviation(mechanism, attributes, n)
        picked = nonnegative_lasso(scores, grams, penalty) > 0.0
        table = nonnegative_lasso(scores, grams, 0.0, picked)
        total = float(table.sum())
        table = table / total if total > 0.0 else np.full(shape, 1.0 / prod(shape))
        stderr = np.sqrt(mechanism.noise(table, attributes, n))
        flags = ["covered"] + ([] if picked.all() else ["clipped"])
        if is_noise(table, stderr):
            flags.append("noise")
        return Marginal(attributes, table.reshape(-1), stderr.reshape(-1), n, tuple(flags))


class LoPubEM(LoPub):
    """Registry name ``lopub-em``: LoPub with its EM, for evaluation only; parameters as LoPub's.

    EM reads every report in every round. There is no small statistic that a stream could keep for
    it, so no plan can be made with it.
    """

    name: ClassVar[str] = "lopub-em"
    baseline: ClassVar[bool] = True
    answers: ClassVar[Answers] = "fitted"

    def fit_reports(self, plan: Plan, reports: Reports) -> LoPubModel:
        """Return the Lasso's model, refined."""
        mechanism = only_mechanism(plan, BloomRR)
        counts = mechanism.tally(reports, None, 1)[0]
        penalty = float(plan.parameters.get("penalty", PENALTY))
        return _Refined(mechanism, counts, len(reports["b0"]), penalty, reports)


class _Refined(LoPubModel):
    """A Lasso model with the reports at hand."""

    processing = (*LoPubModel.processing, "expectation-maximisation on the reports")

    def __init__(
        self, mechanism: BloomRR, counts: Counts, n: int, penalty: float, reports: Reports
    ) -> None:
        super().__init__(mechanism, counts, n, penalty)
        self._reports = reports

    def marginal(self, attributes: Attributes) -> Marginal:
        """EM from the Lasso's table; standard errors are still those of least squares."""
        lasso = super().marginal(attributes)
        table = refine(self._mechanism, self._reports, attributes, lasso.table)
        return replace(lasso, table=table)


def _score_deviation(mechanism: BloomRR, attributes: Attributes, n: int) -> float:
    """Return the typical standard deviation of a candidate's score.

    A report's score is a product over attributes; the second moment of a factor is the noise of
    the value's bits plus the square of the common bits of two filters, averaged.
    """
    q = mechanism.q
    per_bit = float(q * (1 - q) / (1 - 2 * q) ** 2)
    moment = 1.0
    for i in attributes:
        gram = mechanism.grams[i]
        moment *= per_bit * float(np.diag(gram).mean()) + float(np.square(gram).mean())
    return sqrt(moment / n)


def refine(mechanism: BloomRR, reports: Reports, attributes: Attributes, start: Floats) -> Floats:
    """LoPub's EM on the reports themselves, from the Lasso's table: shape (cells,).

    Candidates that the Lasso set to 0 stay at 0, which is what makes LoPub's EM fast. For tools
    that hold the reports; a stream keeps only counters.
    """
    ones = mechanism.ones({f"b{i}": reports[f"b{i}"] for i in range(len(mechanism.axes))})
    odds = log(float((1 - mechanism.q) / mechanism.q))
    likelihoods = []
    for i in attributes:
        # Given value x the bits of its filter are 1 with odds 1 - q and the others with odds q;
        # apart from a factor per report that is exp(odds · (2 · hits - bits of x)).
        own = np.diag(mechanism.grams[i])
        logs = odds * (2.0 * ones[i][1:].T.astype(np.float64) - own)
        likelihoods.append(np.exp(logs - logs.max(axis=1, keepdims=True)))
    shape = tuple(mechanism.axes[i] for i in attributes)
    return expectation_maximisation(likelihoods, start.reshape(shape)).reshape(-1)
