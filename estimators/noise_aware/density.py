"""The joint density of causes and statistics, with its gradient; all chains as one array.

State n of 2^Q has the causes z_n. With c_q the centre of cause q, frozen after the warm-up::

    w_n = prod_q rho_q^z (1 - rho_q)^(1 - z)        L_n = g + sum_q (z_nq - c_q) B_q
    M1 = sum_n w_n F_n     M2 = sum_n w_n F_n F_n'      M3 alike
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from calmstream.estimators.domain import Domain
from calmstream.estimators.noise_aware.layout import WIDE, Reals, expit
from calmstream.estimators.noise_aware.ordered import levels_of
from calmstream.estimators.noise_aware.priors import BitMargins, LabelMargins, Loadings
from calmstream.estimators.noise_aware.residuals import Residuals
from calmstream.estimators.noise_aware.statistics import Targets


class State(NamedTuple):
    """What the sampler moves; the first axis is that of chains."""

    theta: Reals  # (chains, 1 + causes, columns): log odds g of the margins, then loadings B
    rho: Reals  # (chains, causes): log odds of the causes
    common: Reals  # (chains, causes): the mean effect on bits, in sizes


class Moments(NamedTuple):
    """What causes alone give."""

    weights: Reals  # (chains, states)
    features: Reals  # (chains, columns, states)
    share: Reals  # the same: probabilities of labels; of bits the features
    first: Reals  # (chains, columns)
    second: Reals  # (chains, columns, columns)
    third: Reals  # (chains, columns, pairs)
    products: Reals  # (chains, pairs, states): of the features of pairs


class DensityValue(NamedTuple):
    """Log densities (chains,), and what the likelihood is of."""

    density: Reals
    slope: State
    moments: Moments


def states_of(causes: int) -> Reals:
    """Return all states: (2^causes, causes)."""
    return np.indices((2,) * causes).reshape(causes, -1).T.astype(np.float32, order="C")


def weights_of(states: Reals, rho: Reals) -> Reals:
    """Return the states' probabilities: (chains, states)."""
    logs = np.logaddexp(0.0, -rho) @ states.T + np.logaddexp(0.0, rho) @ (1.0 - states).T
    return np.asarray(np.exp(-logs), np.float32)


class Posterior:
    """The statistics, the priors, and what states are."""

    def __init__(self, domain: Domain, targets: Targets, chains: int, causes: int) -> None:
        self.layout = layout = targets.layout
        self.targets, self.states = targets, states_of(causes)
        found = [levels_of(attribute) for attribute in domain.attributes]
        orders = {i: levels for i, levels in enumerate(found) if levels is not None}
        self.margins: BitMargins | LabelMargins
        if layout.bits:
            self.margins = BitMargins(chains, layout.count)
        else:
            self.margins = LabelMargins(layout, orders, chains)
        self.loadings = Loadings(layout, orders, chains, causes)
        self.residuals = Residuals(targets, chains)
        self.recentre(np.full((chains, causes), 0.5))

    def recentre(self, centre: Reals) -> None:
        """Centre the causes. ``codes`` (chains, 1 + causes, states) are 1, then z - c."""
        chains, causes = centre.shape
        self.centre = centre
        self.codes = np.ones((chains, 1 + causes, len(self.states)), np.float32)
        self.codes[:, 1:] = (self.states[None] - centre[:, None]).transpose(0, 2, 1)

    def moments(self, state: State) -> Moments:
        weights = weights_of(self.states, state.rho)
        theta = state.theta.copy()
        theta[:, 0] += self.margins.offset
        features, share = self.layout.features(theta.transpose(0, 2, 1) @ self.codes)
        weighted = features * weights[:, None]
        second = weighted @ features.transpose(0, 2, 1)
        products = self.targets.triples.products(features)
        third = weighted @ products.transpose(0, 2, 1)
        return Moments(weights, features, share, weighted.sum(axis=2), second, third, products)

    def value(self, state: State) -> DensityValue:
        found = self.moments(state)
        like, pull = self.likelihood(found)
        fields, slope_fields = self.margins.density(state.theta[:, 0])
        own, slope_loadings, slope_common = self.loadings.density(state.theta[:, 1:], state.common)
        prior = fields + own - 0.5 * np.square(state.rho / WIDE).sum(axis=1)
        slope, by_weight = self._slopes(found, *pull)
        slope[:, 0] += slope_fields
        slope[:, 1:] += slope_loadings
        weighted = found.weights * by_weight
        present = expit(state.rho)
        slope_rho = weighted @ self.states - weighted.sum(axis=1)[:, None] * present
        slope_rho = slope_rho - state.rho / WIDE**2
        return DensityValue(like + prior, State(slope, slope_rho, slope_common), found)

    def redraw(
        self, state: State, found: Moments, random: np.random.Generator, *, scales: bool
    ) -> State:
        """Draw the scales, those of pairs' residuals and causes if ``scales``; return the state."""
        self.residuals.redraw(found.second, found.third, random, pairs=scales)
        theta = state.theta.copy()
        theta[:, 1:] = self.loadings.redraw(theta[:, 1:], state.common, random, sizes=scales)
        self.margins.redraw(theta[:, 0], random)
        return state._replace(theta=theta)

    def likelihood(self, found: Moments) -> tuple[Reals, tuple[Reals, Reals, Reals]]:
        """Return log likelihoods, and their slopes by the moments."""
        targets, signs = self.targets, self.targets.signs
        gap1, gap2 = targets.means - found.first, targets.products - found.second
        gap3 = targets.triples.values - found.third
        gap = signs.values - found.first @ signs.rows.T
        pull1, pull2 = targets.mean_precision * gap1, self.residuals.pairs * gap2
        pull3, pull = self.residuals.triples * gap3, signs.precision * gap
        like = -0.5 * (pull1 * gap1).sum(axis=1) - 0.25 * np.einsum("cxy,cxy->c", pull2, gap2)
        like = like - 0.5 * (pull * gap).sum(axis=1) - 0.5 * np.einsum("cxp,cxp->c", pull3, gap3)
        return like, (pull1 + pull @ signs.rows, pull2, pull3)

    def _slopes(
        self, found: Moments, pull1: Reals, pull2: Reals, pull3: Reals
    ) -> tuple[Reals, Reals]:
        """Return the likelihood's slopes by theta and by the states' weights."""
        features = found.features
        by_feature = pull2 @ features
        by_weight = (pull1[:, None] @ features)[:, 0]
        by_weight += 0.5 * np.einsum("cxn,cxn->cn", by_feature, features)
        by_feature += pull1[:, :, None]
        if pull3.size:
            third = pull3 @ found.products
            by_weight += np.einsum("cxn,cxn->cn", third, features)
            by_feature += third
            by_feature += self.targets.triples.back(features, pull3.transpose(0, 2, 1) @ features)
        by_feature *= found.weights[:, None]
        by_logit = self.layout.back(found.share, by_feature)
        return self.codes @ by_logit.transpose(0, 2, 1), by_weight
