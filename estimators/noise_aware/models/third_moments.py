"""Interactions of three binary attributes, where views of three or more speak about them.

**Prediction.** The first and second moments of a triple, with their posterior variances, give a
table of maximum entropy (`relaxed`); its third-order moment is what the pairs foretell.

**Residual.** The estimate minus the prediction has noise variance 1 / precision plus what the
draws of the moments say about the prediction. Alone almost every residual drowns in noise. But as
pairs, triples have a few causes in common: if x = m + s (L z + own noise), with L the loadings of a
few factors z, the joint cumulant of three attributes is

    sum over q, r, t of  s_i s_j s_k L_iq L_jr L_kt cumulant_qrt,

linear in some twenty third cumulants of the factors, with L known from the pairs (principal
factors of the posterior correlations). So the residuals are regressed on these products, under
``cumulant ~ N(0, sigma^2)`` and a remainder ``N(0, (tau s_i s_j s_k)^2)``, both sizes averaged
over a grid by their evidence. In a second candidate the scale ``s_i s_j s_k`` is replaced with
``64 / sum over cells of 1/p``, how far the moment moves per unit of log-linear interaction, smaller
where cells are nearly empty; the two are averaged by evidence too. What is left of every residual
is shrunk by a horseshoe (`shrinkage.gains`) that may be nothing at all (probability 1/2). When
noise is high the evidence keeps all sizes near 0, and the tables are those of the pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, combinations_with_replacement, permutations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from estimators.noise_aware.input.walsh import sets_up_to
from estimators.noise_aware.models import relaxed
from estimators.noise_aware.models.shrinkage import gains
from estimators.numerics.hadamard import transform

if TYPE_CHECKING:
    from estimators.domain import Attributes
    from estimators.noise_aware.input.statistics import Statistics
    from estimators.noise_aware.models.posterior import Posterior

Floats = NDArray[np.float64]

RANK = 4
CUMULANT = 3.0
"""Prior size of a factor's third cumulant, half-normal: of a cause that one in twelve has."""

REMAINDER = 0.1
"""Prior size of what the factors leave, in units of its scale, while they are fitted."""

LONE = 0.03
"""Prior size of a lone residual, if there are any."""

_SIGMA = np.exp(np.linspace(np.log(0.02), np.log(10.0), 16))
_TAU = np.concatenate([[0.0], np.exp(np.linspace(np.log(0.003), np.log(0.5), 10))])
_ROUNDS = 30
_LEAST_SPREAD = 1e-4
_SEED = 20140927


@dataclass(frozen=True, slots=True, eq=False)
class Triples:
    """Every triple of attributes as the pairs foretell it.

    Attributes:
        members: shape (triples, 3), ascending.
        scale: shape (triples,): s_i s_j s_k, product of the attributes' standard deviations.
        predicted: shape (triples,): third moment of maximum entropy given the pairs.
        ease: shape (triples,): derivative of the third moment by its log-linear interaction.
        drawn: shape (draws, triples): deviations of the prediction over posterior draws.
        loadings: shape (attributes, `RANK`).
    """

    members: NDArray[np.intp]
    scale: Floats
    predicted: Floats
    ease: Floats
    drawn: Floats
    loadings: Floats


@dataclass(frozen=True)
class Third:
    """Third moments of all triples.

    Attributes:
        triples: what the pairs foretell.
        shift: shape (triples,): posterior mean of the residual from the prediction.
        variance: shape (triples,): posterior variance of the residual.
        drawn: shape (draws, triples): deviations of the moment, prediction and residual.
    """

    triples: Triples
    shift: Floats
    variance: Floats
    drawn: Floats

    @cached_property
    def known(self) -> float:
        """Share of the residuals' energy that is known, 0 to 1."""
        seen = float(np.square(self.shift).sum())
        total = seen + float(self.variance.sum())
        return seen / total if total > 0.0 else 0.0

    @cached_property
    def size(self) -> float:
        """Root mean square of a residual in units of its scale, known and unknown."""
        square = (np.square(self.shift) + self.variance) / np.square(self.triples.scale)
        return float(np.sqrt(square.mean()))

    @cached_property
    def position(self) -> dict[Attributes, int]:
        """Number of each triple."""
        return {(i, j, k): n for n, (i, j, k) in enumerate(self.triples.members.tolist())}


def fit(statistics: Statistics, posterior: Posterior) -> Third | None:
    """Posterior of all third moments; None where no view holds three attributes.

    Args:
        statistics: of binary attributes, with third orders.
        posterior: of the first and second moments.

    Cost: O(triples · (draws + 252 + 11 regressors^2)): 30 ms for 560 triples, 150 ms for 4,960.
    """
    triples = foretell(posterior)
    order = [tuple(t) for t in triples.members.tolist()]
    seen, precision = statistics.of(order)
    known = precision > 0.0
    if not known.any():
        return None
    noise = 1.0 / precision[known] + triples.drawn.var(axis=0)[known]
    residual = (seen - triples.predicted)[known]
    random = np.random.default_rng(_SEED)
    common = _pool(
        [
            _regress(residual, noise, known, scale, triples)
            for scale in (triples.scale, triples.ease)
        ],
        random,
        len(triples.drawn),
    )
    shift, drawn = common.mean, common.drawn
    own = triples.scale[known]
    left = residual - shift[known]
    gain, doubt = gains(left / own, noise / np.square(own), LONE, nothing=0.5)
    variance = common.variance
    lone = gain * noise + doubt * np.square(own)
    shift[known] += gain * left
    variance[known] += lone
    drawn[:, known] += random.normal(size=(len(drawn), lone.size)) * np.sqrt(lone)
    return Third(triples, shift, variance, drawn + triples.drawn)


def foretell(posterior: Posterior) -> Triples:
    """Third moments by maximum entropy given the pairs."""
    d = posterior.means.size
    members = np.array(list(combinations(range(d), 3)), np.intp).reshape(-1, 3)
    sets = sets_up_to(3, 2)
    targets = moments(posterior.means, posterior.products, members)
    variances = moments(posterior.mean_variance, posterior.product_variance, members)
    found = relaxed.fit(sets, targets, variances)
    theta = transform(found.tables)
    predicted = theta[:, -1]
    # chi of all three times chi_S is chi of the complement, whose cell is 7 - index.
    with_third = theta[:, 7 - sets.index] - predicted[:, None] * theta[:, sets.index]
    slope = np.linalg.solve(found.hessian, with_third[..., None])[..., 0]
    moved = moments(
        posterior.drawn_means - posterior.drawn_means.mean(axis=0),
        posterior.drawn_products - posterior.drawn_products.mean(axis=0),
        members,
    )
    spread = np.sqrt(np.maximum(1.0 - np.square(posterior.means), _LEAST_SPREAD))
    ease = 64.0 / (1.0 / np.maximum(found.tables, 1e-7)).sum(axis=1)
    drawn = np.einsum("...ts,ts->...t", moved, slope)
    loadings = _loadings(posterior, spread)
    return Triples(members, spread[members].prod(axis=1), predicted, ease, drawn, loadings)


def moments(one: Floats, two: Floats, members: NDArray[np.intp]) -> Floats:
    """First- and second-order values of sets of attributes, in the order of `sets_up_to`.

    Args:
        one: shape (..., attributes).
        two: shape (..., attributes, attributes).
        members: shape (sets, k).

    Returns:
        Shape (..., sets, k + k (k - 1) / 2).
    """
    a, b = np.triu_indices(members.shape[1], 1)
    return np.concatenate([one[..., members], two[..., members[:, a], members[:, b]]], axis=-1)


def _loadings(posterior: Posterior, spread: Floats) -> Floats:
    """Principal factors of the correlations, communalities by iteration."""
    correlations = posterior.products - np.outer(posterior.means, posterior.means)
    correlations = correlations / np.outer(spread, spread)
    np.fill_diagonal(correlations, 0.0)
    shared = np.minimum(np.abs(correlations).max(axis=1), 1.0)
    out = np.zeros((spread.size, RANK))
    for _ in range(_ROUNDS):
        values, vectors = np.linalg.eigh(correlations + np.diag(shared))
        top = np.argsort(values)[::-1][:RANK]
        out[:, : top.size] = vectors[:, top] * np.sqrt(np.maximum(values[top], 0.0))
        shared = np.minimum(np.square(out).sum(axis=1), 1.0)
    return out


def _regressors(triples: Triples, scale: Floats) -> Floats:
    """Products of loadings for every third cumulant: shape (triples, cumulants)."""
    i, j, k = triples.loadings[triples.members].transpose(1, 2, 0)
    columns = [
        sum(i[q] * j[r] * k[t] for q, r, t in set(permutations(which)))
        for which in combinations_with_replacement(range(RANK), 3)
    ]
    return np.asarray(np.array(columns).T * scale[:, None], np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class _Regression:
    """What one choice of scale says: log evidence, regressors, mean and covariance of cumulants."""

    evidence: float
    regressors: Floats
    mean: Floats
    covariance: Floats


def _regress(
    residual: Floats, noise: Floats, known: NDArray[np.bool_], scale: Floats, triples: Triples
) -> _Regression:
    """Bayesian linear regression, averaged over the sizes of cumulants and remainder.

    With A = X' D^-1 X, D the noise and remainder, one eigendecomposition per tau serves all sigma.
    """
    regressors = _regressors(triples, scale)
    x, own = regressors[known], scale[known]
    scores: list[Floats] = []
    means: list[Floats] = []
    covariances: list[Floats] = []
    for tau in _TAU:
        d = noise + np.square(tau * own)
        weighted = x.T / d
        values, vectors = np.linalg.eigh(weighted @ x)
        values = np.maximum(values, 0.0)
        along = vectors.T @ (weighted @ residual)
        base = -0.5 * float((np.square(residual) / d + np.log(d)).sum() + (tau / REMAINDER) ** 2)
        shrunk = 1.0 / (values + 1.0 / np.square(_SIGMA)[:, None])
        gain = 0.5 * (shrunk * np.square(along)).sum(axis=1)
        loss = 0.5 * np.log1p(np.square(_SIGMA)[:, None] * values).sum(axis=1)
        scores.append(base + gain - loss - 0.5 * np.square(_SIGMA / CUMULANT))
        means.append((shrunk * along) @ vectors.T)
        covariances.append(np.einsum("iq,sq,jq->sij", vectors, shrunk, vectors))
    score, mean = np.concatenate(scores), np.concatenate(means)
    weight = np.exp(score - score.max())
    evidence = float(score.max() + np.log(weight.sum()))
    weight /= weight.sum()
    centre = weight @ mean
    apart = mean - centre
    covariance = np.einsum("s,sij->ij", weight, np.concatenate(covariances))
    covariance += (apart * weight[:, None]).T @ apart
    return _Regression(evidence, regressors, centre, covariance)


@dataclass(frozen=True, slots=True, eq=False)
class _Common:
    """Residuals that factors explain: mean, variance and draws of their deviations."""

    mean: Floats
    variance: Floats
    drawn: Floats


def _pool(found: list[_Regression], random: np.random.Generator, draws: int) -> _Common:
    """Average regressions by their evidence."""
    evidence = np.array([one.evidence for one in found])
    weight = np.exp(evidence - evidence.max())
    weight /= weight.sum()
    means = np.array([one.regressors @ one.mean for one in found])
    mean = np.asarray(weight @ means, np.float64)
    variance, drawn = np.zeros(mean.size), np.zeros((draws, mean.size))
    chosen = random.choice(len(found), size=draws, p=weight)
    for number, one in enumerate(found):
        x = one.regressors
        spread = np.einsum("ti,ij,tj->t", x, one.covariance, x, optimize=True)
        variance += weight[number] * (spread + np.square(means[number] - mean))
        values, vectors = np.linalg.eigh(one.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        own = random.normal(size=(draws, values.size)) @ root.T @ x.T + (means[number] - mean)
        drawn[chosen == number] = own[chosen == number]
    return _Common(mean, variance, drawn)
