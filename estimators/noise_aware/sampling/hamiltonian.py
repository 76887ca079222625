"""Hamiltonian Monte Carlo: draws from a density with a known gradient, chains side by side.

Leapfrog steps in coordinates whitened by an expected curvature: the likelihood's, which is fixed
once the chains have warmed up, and the prior's, which knows nothing of the state but its sizes. So
neither changes along a trajectory nor by it, and the draws keep the density. The step size is set
by dual averaging (Hoffman and Gelman, JMLR 2014, section 3.2), one for all chains.
"""

from __future__ import annotations

from math import exp, sqrt
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterator

Floats = NDArray[np.float64]
Kept = TypeVar("Kept", bound=NDArray[np.floating[Any]])
Kept_co = TypeVar("Kept_co", bound=NDArray[np.floating[Any]], covariant=True)

LEAPS = 8
ACCEPTED = 0.8
"""Share of trajectories that the step size is set to have accepted."""

_FIRST = -1.2
_LARGEST = 0.3
_EVERY = 5
_JITTER = 0.4
_START = 0.5
_SMALL = 24
"""Size of a matrix that is not worth halving."""


class Target(Protocol[Kept_co]):
    """What is drawn from."""

    state: Floats

    def density(self, state: Floats) -> tuple[Floats, Floats, Kept_co]:
        """Log density (chains,), gradient (chains, size) and something worth keeping."""

    def curvature(self) -> Floats:
        """Of minus the log likelihood, the same for all chains: shape (size, size)."""

    def prior_curvature(self) -> Floats:
        """Diagonal, of minus the log prior given the sizes, positive: shape (chains, size)."""

    def draw_sizes(self) -> None:
        """Draw everything that the density takes as given."""


def draw(
    target: Target[Kept], random: np.random.Generator, warm_up: int, sweeps: int
) -> Iterator[Kept]:
    """What the density returns third, once per kept sweep.

    Args:
        target: at a good start; its state is moved.
        random: what draws come from.
        warm_up: sweeps that adapt and are dropped.
        sweeps: that are kept.

    Cost: (warm_up + sweeps) (LEAPS + 1) densities, and a curvature every 5 sweeps of the warm-up.
    """
    likelihood = target.curvature()
    white = _whitening(likelihood, target)
    target.state = target.state + _START * _times(white, random.normal(size=target.state.shape))
    step, settled, error = _FIRST, _FIRST, 0.0
    for number in range(warm_up + sweeps):
        warming = number < warm_up
        if number and number <= warm_up and number % _EVERY == 0:
            likelihood = target.curvature()
        white = _whitening(likelihood, target)
        length = exp(step if warming else settled)
        kept, accepted = _trajectory(target, random, white, length)
        if warming:
            age = number + 1
            error += (ACCEPTED - accepted - error) / (age + 5)
            step = min(_FIRST - 5.0 * sqrt(age) * error, _LARGEST)
            settled += age**-0.6 * (step - settled)
        else:
            yield kept
        target.draw_sizes()


def _trajectory(
    target: Target[Kept], random: np.random.Generator, white: Floats, length: float
) -> tuple[Kept, float]:
    """Move every chain along one trajectory, or leave it; what is kept, and acceptance."""
    chains = len(target.state)
    step = length * random.uniform(1.0 - _JITTER, 1.0 + _JITTER, size=(chains, 1))
    back = white.transpose(0, 2, 1)
    momentum = random.normal(size=target.state.shape)
    before, gradient, old = target.density(target.state)
    before = before - 0.5 * np.square(momentum).sum(axis=1)
    state, after, new = target.state, before, old
    momentum = momentum + 0.5 * step * _times(back, gradient)
    for leap in range(LEAPS):
        state = state + step * _times(white, momentum)
        after, gradient, new = target.density(state)
        momentum = momentum + (step if leap < LEAPS - 1 else 0.5 * step) * _times(back, gradient)
    after = after - 0.5 * np.square(momentum).sum(axis=1)
    chance = np.exp(np.minimum(np.nan_to_num(after - before, nan=-np.inf), 0.0))
    taken = random.random(chains) < chance
    target.state = np.where(taken[:, None], state, target.state)
    old[taken] = new[taken]
    return old, float(chance.mean())


def _whitening(likelihood: Floats, target: Target[Any]) -> Floats:
    """W with W W^T the inverse curvature: shape (chains, size, size)."""
    prior = target.prior_curvature()
    both = np.repeat(likelihood[None], len(prior), axis=0)
    along = np.arange(len(likelihood))
    both[:, along, along] += prior
    root = np.asarray(np.linalg.cholesky(both), np.float64)
    return inverse_of_triangle(root).transpose(0, 2, 1)


def inverse_of_triangle(root: Floats) -> Floats:
    """Of lower triangular matrices, by halves: a sixth of the work of any matrix' inverse."""
    size = root.shape[1]
    if size <= _SMALL:
        return np.asarray(np.linalg.inv(root))
    half = size // 2
    out = np.zeros_like(root)
    out[:, :half, :half] = inverse_of_triangle(root[:, :half, :half])
    out[:, half:, half:] = inverse_of_triangle(root[:, half:, half:])
    out[:, half:, :half] = -out[:, half:, half:] @ root[:, half:, :half] @ out[:, :half, :half]
    return out


def _times(matrices: Floats, vectors: Floats) -> Floats:
    return np.asarray((matrices @ vectors[:, :, None])[:, :, 0])
