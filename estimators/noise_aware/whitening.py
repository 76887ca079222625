"""Coordinates in which the posterior is nearly even in all directions.

A block for the loadings of each label, and one for the log odds of each attribute, is the
Gauss-Newton information, averaged over sweeps, plus the prior's. See noise-aware.md, section 6.
"""

from __future__ import annotations

import numpy as np

from calmstream.estimators.noise_aware.density import Moments, Posterior, State
from calmstream.estimators.noise_aware.layout import LEAST, WIDE, Reals, expit

NEW = 0.3
"""Weight of new information beside the old, once residuals are there."""


class Whitening:
    """The matrices, and the maps to and from momenta."""

    def __init__(self) -> None:
        self._information: Reals | None = None

    def measure(self, problem: Posterior, state: State) -> State:
        """Centre the causes and measure the information; return the state in the new centre."""
        present = expit(state.rho)
        theta = state.theta.copy()
        theta[:, 0] += ((present - problem.centre)[:, :, None] * theta[:, 1:]).sum(axis=1)
        problem.recentre(present)
        state = state._replace(theta=theta)
        moments = problem.moments(state)
        found = _information(problem, moments)
        old = self._information
        self._information = found if old is None else (1.0 - NEW) * old + NEW * found
        self._shares(problem, moments, present)
        return state

    def restart(self) -> None:
        self._information = None

    def _shares(self, problem: Posterior, found: Moments, present: Reals) -> None:
        """Information on the causes' shares."""
        spread = np.maximum(present * (1.0 - present), LEAST)
        scale = (np.maximum(spread, 0.1) / spread)[:, None]
        by = found.weights[:, :, None] * (problem.states[None] - present[:, None]) * scale
        chains, causes = present.shape
        self._rho = np.empty((chains, causes, causes))
        for c in range(chains):
            features = found.features[c]
            first = by[c].T @ features.T
            second = np.stack([(features * one) @ features.T for one in by[c].T])
            flat = second.reshape(causes, -1)
            own = (first * problem.targets.mean_precision) @ first.T
            own += 0.5 * (flat * problem.residuals.pairs[c].ravel()) @ flat.T
            self._rho[c] = _root(own + np.eye(causes) / WIDE**2)

    def prepare(self, problem: Posterior) -> None:
        """Follow the present scales of the priors."""
        assert self._information is not None
        loadings, layout, m = problem.loadings, problem.layout, problem.targets.margins
        self._layout, total = layout, self._information[:, :, 1:, 1:].copy()
        at = np.arange(total.shape[-1])
        even = np.diagonal(loadings.covariances.inverse, axis1=1, axis2=2)[:, None]
        own = even / np.square(loadings.scale)
        total[:, :, at, at] += np.maximum(own, LEAST).transpose(0, 2, 1)
        self._columns = _root(total)
        kappa = np.square(loadings.kappa.mean(axis=2))
        self._common = layout.bits / np.sqrt(1.0 / WIDE**2 + layout.size / kappa)
        # Log odds of an attribute's labels together.
        known = self._information[:, :, 0, 0] / np.square(np.maximum(m * (1.0 - m), LEAST / 10))
        m = layout.padded(m)
        slope = m[:, :, None] * np.eye(m.shape[1]) - m[:, :, None] * m[:, None]
        field = slope @ (layout.padded(known)[..., None] * slope)
        at = np.arange(m.shape[1])
        field[:, :, at, at] += np.where(layout.real, 1e-6, 1.0)
        for i, place in enumerate(layout.own):
            r = place.stop - place.start
            field[:, i, :r, :r] += problem.margins.precision[:, place, place]
        self._field = _root(field).astype(np.float32)

    def to_momenta(self, slope: State) -> State:
        """Return slopes by the white coordinates."""
        theta = slope.theta.transpose(0, 2, 1)
        field = (self._field @ self._layout.padded(theta[:, :, 0])[..., None])[..., 0]
        loads = (self._columns @ theta[:, :, 1:, None])[..., 0]
        out = np.concatenate([field[:, self._layout.real][..., None], loads], axis=2)
        return State(out, (self._rho @ slope.rho[..., None])[..., 0], self._common * slope.common)

    def velocity(self, momenta: State) -> State:
        """Return how parameters move with momenta."""
        p = momenta.theta
        field = (self._layout.padded(p[:, :, 0])[:, :, None] @ self._field)[:, :, 0]
        loads = (p[:, :, None, 1:] @ self._columns)[:, :, 0].transpose(0, 2, 1)
        theta = np.concatenate([field[:, self._layout.real][:, None], loads], axis=1)
        rho = (momenta.rho[:, None] @ self._rho)[:, 0]
        return State(theta, rho, self._common * momenta.common)


def _root(information: Reals) -> Reals:
    """Return W with W' W the inverse."""
    return np.asarray(np.linalg.inv(np.linalg.cholesky(information)))


def _information(problem: Posterior, found: Moments) -> Reals:
    """Return a block for each column: (chains, columns, 1 + causes, 1 + causes)."""
    layout = problem.layout
    first, second = layout.bend(found.share)
    if layout.bits:
        even = np.eye(layout.size, dtype=np.float32)
    else:
        even = (layout.member / layout.cardinalities).astype(np.float32) @ layout.member.T
    known2 = even @ problem.residuals.pairs
    known1 = even @ problem.targets.mean_precision
    codes, features = problem.codes[:, None], found.features.transpose(0, 2, 1)
    by = (found.weights[:, None] * first)[:, :, None] * codes
    chains, size, width, states = by.shape
    by2 = (by.reshape(chains, -1, states) @ features).reshape(chains, size, width, size)
    by1 = by.sum(axis=3)
    total = (by2 * known2[:, :, None]) @ by2.transpose(0, 1, 3, 2)
    total += known1[:, None, None] * by1[..., :, None] * by1[..., None, :]
    bent = (found.weights[:, None] * second)[:, :, None] * np.square(codes)
    bent2 = (bent.reshape(chains, -1, states) @ features).reshape(by2.shape)
    at = np.arange(width)
    more = (np.square(bent2) * known2[:, :, None]).sum(axis=3)
    total[:, :, at, at] += np.sqrt(more + known1[:, None] * np.square(bent.sum(axis=3)))
    return np.asarray(total)
