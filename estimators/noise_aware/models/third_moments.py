"""Third moments of binary attributes, where views of three or more attributes estimate them.

The table of maximum entropy given its pairs predicts the third moment of a triple. The residuals of
all triples are regressed on products of factor loadings, which come from the pairs. Prior scales
are averaged by their evidence. What the regression leaves of each residual is shrunk by a
horseshoe. See noise-aware.md, section 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, combinations_with_replacement, permutations

import numpy as np

from calmstream.estimators.domain import Attributes
from calmstream.estimators.noise_aware.arrays import Flags, Floats, Indices
from calmstream.estimators.noise_aware.input.statistics import Statistics
from calmstream.estimators.noise_aware.models import relaxed
from calmstream.estimators.noise_aware.models.horseshoe import gains
from calmstream.estimators.noise_aware.models.posterior import Posterior
from calmstream.estimators.noise_aware.priors import CUMULANT, LONE_RESIDUAL, REMAINDER
from calmstream.estimators.numerics.hadamard import transform
from calmstream.estimators.numerics.subsets import sets_up_to

RANK = 4
"""Number of factors: they have 20 third cumulants, few enough to estimate from 100 triples."""


# Log evidence, regressors (triples, cumulants), mean and covariance of the cumulants.
_Regression = tuple[float, Floats, Floats, Floats]


@dataclass(frozen=True, slots=True, eq=False)
class Triples:
    """Predictions of all triples of attributes from the pairs."""

    members: Indices  # (triples, 3), ascending
    scale: Floats  # (triples,): product of the attributes' standard deviations
    predicted: Floats  # (triples,): third moment of maximum entropy given the pairs
    ease: Floats  # (triples,): derivative of the third moment by its log-linear interaction
    drawn: Floats  # (draws, triples): deviations of the prediction over posterior draws
    loadings: Floats  # (attributes, `RANK`)


@dataclass(frozen=True)
class ThirdMoments:
    """Third moments of all triples."""

    triples: Triples  # Their predictions
    shift: Floats  # (triples,): posterior mean of the residual from the prediction
    variance: Floats  # (triples,): posterior variance of the residual
    drawn: Floats  # (draws, triples): deviations of the moment, prediction and residual

    @cached_property
    def known(self) -> float:
        """Share of the residuals' energy that is known, 0 to 1."""
        energy = float(np.square(self.shift).sum())
        total = energy + float(self.variance.sum())
        return energy / total if total > 0.0 else 0.0

    @cached_property
    def size(self) -> float:
        """Root mean square of a residual in units of its scale, known and unknown."""
        square = (np.square(self.shift) + self.variance) / np.square(self.triples.scale)
        return float(np.sqrt(square.mean()))

    @cached_property
    def position(self) -> dict[Attributes, int]:
        """Index of each triple."""
        return {(i, j, k): n for n, (i, j, k) in enumerate(self.triples.members.tolist())}


def fit(statistics: Statistics, posterior: Posterior) -> ThirdMoments | None:
    """Return the posterior of all third moments; None where no view holds three attributes.

    Cost: O(triples · (draws + 252 + 11 regressors^2)).
    """
    triples = predict(posterior)
    order = [tuple(t) for t in triples.members.tolist()]
    estimates, precision = statistics.of(order)
    known = precision > 0.0
    if not known.any():
        return None
    noise = 1.0 / precision[known] + triples.drawn.var(axis=0)[known]
    residual = (estimates - triples.predicted)[known]
    random = np.random.default_rng(20140927)  # fixed: equal tallies give equal answers
    scales = (triples.scale, triples.ease)
    regressions = [_regress(residual, noise, known, scale, triples) for scale in scales]
    shift, variance, drawn = _pool(regressions, random, len(triples.drawn))
    own = triples.scale[known]
    left = residual - shift[known]
    gain, doubt = gains(left / own, noise / np.square(own), LONE_RESIDUAL)
    lone = gain * noise + doubt * np.square(own)
    shift[known] += gain * left
    variance[known] += lone
    drawn[:, known] += random.normal(size=(len(drawn), lone.size)) * np.sqrt(lone)
    return ThirdMoments(triples, shift, variance, drawn + triples.drawn)


def predict(posterior: Posterior) -> Triples:
    """Predict third moments by maximum entropy given the pairs."""
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
    spread = np.sqrt(np.maximum(1.0 - np.square(posterior.means), 1e-4))
    ease = 64.0 / (1.0 / np.maximum(found.tables, 1e-7)).sum(axis=1)
    drawn = np.einsum("...ts,ts->...t", moved, slope)
    loadings = _loadings(posterior, spread)
    return Triples(members, spread[members].prod(axis=1), predicted, ease, drawn, loadings)


def moments(one: Floats, two: Floats, members: Indices) -> Floats:
    """Return values of order one and two of sets of attributes, in the order of `sets_up_to`.

    Shapes (..., attributes), (..., attributes, attributes) and (sets, k) give
    (..., sets, k + k (k - 1) / 2).
    """
    a, b = np.triu_indices(members.shape[1], 1)
    return np.concatenate([one[..., members], two[..., members[:, a], members[:, b]]], axis=-1)


def _loadings(posterior: Posterior, spread: Floats) -> Floats:
    """Return principal factors of the correlations: shape (attributes, `RANK`).

    The diagonal holds communalities, the variances that factors explain, found by iteration.
    """
    correlations = posterior.products - np.outer(posterior.means, posterior.means)
    correlations = correlations / np.outer(spread, spread)
    np.fill_diagonal(correlations, 0.0)
    communality = np.minimum(np.abs(correlations).max(axis=1), 1.0)
    out = np.zeros((spread.size, RANK))
    for _ in range(30):
        values, vectors = np.linalg.eigh(correlations + np.diag(communality))
        top = np.argsort(values)[::-1][:RANK]
        out[:, : top.size] = vectors[:, top] * np.sqrt(np.maximum(values[top], 0.0))
        communality = np.minimum(np.square(out).sum(axis=1), 1.0)
    return out


def _regressors(triples: Triples, scale: Floats) -> Floats:
    """Return the products of loadings for every third cumulant: shape (triples, cumulants)."""
    i, j, k = triples.loadings[triples.members].transpose(1, 2, 0)
    columns = [
        sum(i[q] * j[r] * k[t] for q, r, t in set(permutations(which)))
        for which in combinations_with_replacement(range(RANK), 3)
    ]
    return np.asarray(np.array(columns).T * scale[:, None], np.float64)


def _regress(
    residual: Floats, noise: Floats, known: Flags, scale: Floats, triples: Triples
) -> _Regression:
    """Regress the residuals linearly, averaged over the scales of cumulants and remainder.

    One eigendecomposition of X' D^-1 X, where D is noise plus remainder, serves all scales of
    cumulants.
    """
    regressors = _regressors(triples, scale)
    x, own, sigma2 = regressors[known], scale[known], np.square(CUMULANT.points)
    by_tau: list[tuple[Floats, Floats, Floats]] = []  # scores, means and covariances by sigma
    for tau in np.concatenate([[0.0], REMAINDER.points]):
        d = noise + np.square(tau * own)
        weighted = x.T / d
        values, vectors = np.linalg.eigh(weighted @ x)
        values = np.maximum(values, 0.0)
        along = vectors.T @ (weighted @ residual)
        penalty = (tau / REMAINDER.size) ** 2
        base = -0.5 * float((np.square(residual) / d + np.log(d)).sum() + penalty)
        shrunk = 1.0 / (values + 1.0 / sigma2[:, None])
        gain = 0.5 * (shrunk * np.square(along)).sum(axis=1)
        loss = 0.5 * np.log1p(sigma2[:, None] * values).sum(axis=1)
        covariance = np.einsum("iq,sq,jq->sij", vectors, shrunk, vectors)
        score = base + gain - loss + CUMULANT.on_grid
        by_tau.append((score, (shrunk * along) @ vectors.T, covariance))
    score, mean, covariances = map(np.concatenate, zip(*by_tau, strict=True))
    weight = np.exp(score - score.max())
    evidence = float(score.max() + np.log(weight.sum()))
    weight /= weight.sum()
    centre = weight @ mean
    apart = mean - centre
    covariance = np.einsum("s,sij->ij", weight, covariances)
    covariance += (apart * weight[:, None]).T @ apart
    return evidence, regressors, centre, covariance


def _pool(
    found: list[_Regression], random: np.random.Generator, draws: int
) -> tuple[Floats, Floats, Floats]:
    """Average what factors explain by evidence: its mean, variance and deviations of draws."""
    evidence = np.array([each[0] for each in found])
    weight = np.exp(evidence - evidence.max())
    weight /= weight.sum()
    means = np.array([x @ centre for _, x, centre, _ in found])
    mean = np.asarray(weight @ means, np.float64)
    variance, drawn = np.zeros(mean.size), np.zeros((draws, mean.size))
    chosen = random.choice(len(found), size=draws, p=weight)
    for number, (_, x, _, covariance) in enumerate(found):
        spread = np.einsum("ti,ij,tj->t", x, covariance, x, optimize=True)
        variance += weight[number] * (spread + np.square(means[number] - mean))
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        own = random.normal(size=(draws, values.size)) @ root.T @ x.T + (means[number] - mean)
        drawn[chosen == number] = own[chosen == number]
    return mean, variance, drawn
