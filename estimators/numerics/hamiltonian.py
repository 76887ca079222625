"""Hamiltonian Monte Carlo: draws from a density with a known gradient, for several chains at once.

Coordinates are whitened: scaled so that the expected curvature is 1 in all directions. The
curvature does not change along a trajectory, so the draws keep the density. All chains have one
step size, set by dual averaging (Hoffman and Gelman, JMLR 2014, section 3.2). See noise-aware.md,
section 10.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, sqrt
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Kept = TypeVar("Kept", bound=NDArray[np.floating[Any]])

LEAPS = 5
"""Steps of a trajectory: enough to cross the posterior at the usual step size."""


class Target(Protocol[Kept]):
    """A density to draw from."""

    state: Floats

    def density(self, state: Floats, known: Kept | None = None) -> tuple[Floats, Floats, Kept]:
        """Return log density (chains,), gradient (chains, size) and a by-product that is kept.

        All chains are along the first axis of the by-product, which is a function of the state
        alone. ``known`` is that of this state, if it has been computed before.
        """

    def curvature(self) -> Floats:
        """Return the curvature of minus the log likelihood, one for all chains: (size, size)."""

    def prior_curvature(self) -> Floats:
        """Return the diagonal of the curvature of minus the log prior: positive, (chains, size)."""

    def draw_scales(self, known: Kept) -> Kept:
        """Draw all parameters that the density takes as given, such as prior scales.

        ``known`` is the by-product of the state; return that of the state afterwards.
        """


def draw(
    target: Target[Kept], random: np.random.Generator, warm_up: int, sweeps: int
) -> Iterator[Kept]:
    """Yield the density's by-product once per kept sweep.

    The first ``warm_up`` sweeps adapt the step size and are dropped, ``sweeps`` are kept.
    Cost: (warm_up + sweeps) (LEAPS + 1) densities, and a curvature every 5 sweeps of the warm-up.
    """
    first, largest = -1.2, 0.3  # logarithms of the step size
    accepted_share = 0.8  # of trajectories, which dual averaging aims at
    likelihood = target.curvature()
    white = _Whitening(likelihood, target)
    target.state = target.state + 0.5 * white.times(random.normal(size=target.state.shape))
    step, settled, error = first, first, 0.0
    known: Kept | None = None
    for number in range(warm_up + sweeps):
        warming = number < warm_up
        if number and number <= warm_up and number % 5 == 0:
            likelihood = target.curvature()
        white = _Whitening(likelihood, target)
        length = exp(step if warming else settled)
        kept, accepted = _trajectory(target, random, white, length, known)
        if warming:
            age = number + 1
            error += (accepted_share - accepted - error) / (age + 5)
            step = min(first - 5.0 * sqrt(age) * error, largest)
            settled += age**-0.6 * (step - settled)
        else:
            yield kept
        known = target.draw_scales(kept)


def _trajectory(
    target: Target[Kept],
    random: np.random.Generator,
    white: _Whitening,
    length: float,
    known: Kept | None,
) -> tuple[Kept, float]:
    """Move each chain along a trajectory or keep it; return by-product and mean acceptance."""
    chains = len(target.state)
    step = length * random.uniform(
        0.6, 1.4, size=(chains, 1)
    )  # random: a fixed one may give periodic orbits
    momentum = random.normal(size=target.state.shape)
    before, gradient, old = target.density(target.state, known)
    before = before - 0.5 * np.square(momentum).sum(axis=1)
    state, after, new = target.state, before, old
    momentum = momentum + 0.5 * step * white.back(gradient)
    for leap in range(LEAPS):
        state = state + step * white.times(momentum)
        after, gradient, new = target.density(state)
        momentum = momentum + (step if leap < LEAPS - 1 else 0.5 * step) * white.back(gradient)
    after = after - 0.5 * np.square(momentum).sum(axis=1)
    chance = np.exp(np.minimum(np.nan_to_num(after - before, nan=-np.inf), 0.0))
    taken = random.random(chains) < chance
    target.state = np.where(taken[:, None], state, target.state)
    new[~taken] = old[~taken]  # a caller may have kept the old by-product
    return new, float(chance.mean())


class _Whitening:
    """Matrices W with W W^T about the inverse of each chain's curvature.

    One matrix serves all chains: that of the geometric mean of their priors. Each chain then scales
    the rows of it by what its own prior changes in the curvature's diagonal.
    """

    def __init__(self, likelihood: Floats, target: Target[Any]) -> None:
        prior = target.prior_curvature()
        both = likelihood.copy()
        mean = np.exp(np.log(prior).mean(axis=0))
        own = np.diagonal(likelihood)
        both[np.diag_indices_from(both)] += mean
        root = np.asarray(np.linalg.cholesky(both), np.float64)
        self._inverse = inverse_of_triangle(root[None])[0]
        self._scale = np.sqrt((own + mean) / (own + prior))

    def times(self, vectors: Floats) -> Floats:
        """Return W times the vector of each chain: shape (chains, size) both."""
        return np.asarray((vectors @ self._inverse) * self._scale)

    def back(self, vectors: Floats) -> Floats:
        """Return the transpose of W times the vector of each chain."""
        return np.asarray((vectors * self._scale) @ self._inverse.T)


def inverse_of_triangle(root: Floats) -> Floats:
    """Invert lower triangular matrices by halves, in a sixth of the work of a general inverse."""
    size = root.shape[1]
    if size <= 24:  # a general inverse is faster
        return np.asarray(np.linalg.inv(root))
    half = size // 2
    out = np.zeros_like(root)
    out[:, :half, :half] = inverse_of_triangle(root[:, :half, :half])
    out[:, half:, half:] = inverse_of_triangle(root[:, half:, half:])
    out[:, half:, :half] = -out[:, half:, half:] @ root[:, half:, :half] @ out[:, :half, :half]
    return out
