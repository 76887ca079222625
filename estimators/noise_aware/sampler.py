"""Draws of the posterior: Hamiltonian moves of what causes do, Gibbs steps for all scales.

See noise-aware.md, section 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np

from calmstream.estimators.domain import Domain
from calmstream.estimators.noise_aware.density import Moments, Posterior, State
from calmstream.estimators.noise_aware.layout import TYPICAL, WIDE, Flags, Floats, Reals
from calmstream.estimators.noise_aware.priors import START
from calmstream.estimators.noise_aware.statistics import Targets
from calmstream.estimators.noise_aware.whitening import Whitening

FREE = 0.4
"""Share of the warm-up without pairs' residuals: good causes are found before residuals explain the
pairs. Lost chains have as much of it left after they have followed the best one."""

ACCEPTED = 0.8
"""Mean chance of acceptance to which steps are tuned: the usual value for Hamiltonian moves."""

EVERY = 5
"""Sweeps between two measurements of the information."""

LOST, LOST_SHARE = 100.0, 0.05
"""A chain whose log likelihood is below the best one's by LOST and this share of the statistics was
left behind by a sharp likelihood."""

NOISE = 0.14
"""Deviation by which the starting loadings of chains differ."""

_Parts = TypeVar("_Parts", State, Moments)


@dataclass(frozen=True)
class Effort:
    """How much is computed."""

    chains: int = 6
    causes: int = 6
    warm: int = 90
    keep: int = 60
    draws: int = 90
    seed: int = 1
    leaps: int = 10  # steps of a trajectory: a usual number for Hamiltonian moves

    @staticmethod
    def of(targets: Targets) -> Effort:
        return next(effort for most, effort in EFFORTS if effort.cost(targets) <= most)

    def cost(self, targets: Targets) -> float:
        """Return about how many multiplications a fit takes."""
        size = targets.layout.size
        one = 4.0 * self.chains * 2**self.causes * size
        one *= size + len(targets.triples.first)
        return float(one * (self.leaps + 1) * (self.warm + self.keep))


EFFORTS = (
    (1e10, Effort(warm=180, keep=120, draws=120)),
    (1.2e11, Effort()),
    (np.inf, Effort(chains=3, causes=5, warm=60, keep=40)),
)
"""By the most multiplications of a fit, about 2 and 8 seconds. Twice the sweeps take 4 % of the
error of small domains; eight causes take no more."""

QUICK = Effort(chains=3, causes=5, warm=40, keep=20, draws=45)
"""For simulations of which only the error counts."""


class Draws(NamedTuple):
    """Draws of causes, and the mean variance of the pairs' residuals given causes and estimates."""

    weights: Reals  # (draws, states)
    share: list[Reals]  # of each attribute (draws, states, labels)
    residual: Reals  # (columns, columns)

    def mixture(self) -> tuple[Floats, list[Floats]]:
        """Return the states of all draws: weights of sum 1, and (states, labels) per attribute."""
        weights = np.asarray(self.weights, np.float64).ravel()
        shares = [np.asarray(s, np.float64).reshape(-1, s.shape[2]) for s in self.share]
        return weights / weights.sum(), [s / s.sum(axis=1, keepdims=True) for s in shares]


class Sampler:
    """One run; `run` returns its draws."""

    def __init__(self, domain: Domain, targets: Targets, effort: Effort) -> None:
        self._effort, self._random = effort, np.random.default_rng(effort.seed)
        self.problem = Posterior(domain, targets, effort.chains, effort.causes)
        self.state = self._start()
        self._white = Whitening()

    def _start(self) -> State:
        """Margins as estimated, and loadings of the leading correlations, rotated at random."""
        effort, random, problem = self._effort, self._random, self.problem
        layout, share = problem.layout, problem.targets.margins
        shape = effort.chains, effort.causes
        theta = np.zeros((effort.chains, 1 + effort.causes, layout.size), np.float32)
        if layout.bits:
            theta[:, 0] = np.arctanh(np.clip(2.0 * share - 1.0, -0.97, 0.97))
        else:
            theta[:, 0] = layout.centred(np.log(share) - problem.margins.offset)
        theta[:, 1:] = NOISE * random.normal(size=(*shape, layout.size))
        found = leading(problem.targets, effort.causes)
        for chain in theta:
            turn = np.linalg.qr(random.normal(size=(effort.causes,) * 2))[0]
            chain[1:] += np.clip(turn @ found.T, -2.0 * WIDE, 2.0 * WIDE)  # within two deviations
        common = 0.3 * random.normal(size=shape) * layout.bits
        return State(theta, START * random.normal(size=shape), common)

    @np.errstate(over="ignore", invalid="ignore")  # a trajectory that leaves is refused
    def run(self) -> Draws:
        effort, problem, layout = self._effort, self.problem, self.problem.layout
        step = settled = -1.0
        error, residuals = 0.0, False
        kept: list[tuple[Reals, Reals]] = []
        remaining: list[Reals] = []
        marks = np.linspace(0, effort.keep, 1 + max(1, effort.draws // effort.chains)).astype(int)
        chosen = {effort.warm + b - 1 for a, b in pairwise(marks.tolist()) if b > a}
        for sweep in range(effort.warm + effort.keep):
            warming = sweep < effort.warm
            if sweep == int((1.0 - FREE) * effort.warm):
                self._leave_lost()
            if sweep <= 0.75 * effort.warm and sweep % EVERY == 0:
                if not residuals:
                    self._white.restart()
                self.state = self._white.measure(problem, self.state)
            moments, chance = self._move(float(np.exp(step if warming else settled)))
            if warming:  # dual averaging
                error += (ACCEPTED - chance - error) / (sweep + 6)
                step = min(-1.0 - 5.0 * np.sqrt(sweep + 1) * error, 0.3)
                settled += (sweep + 1) ** -0.6 * (step - settled)
                problem.residuals.follow(moments.first)
            else:
                remaining.append(problem.residuals.remaining())
            if sweep in chosen:
                kept.append((moments.weights, moments.share))
            residuals = sweep >= FREE * effort.warm
            self.state = problem.redraw(self.state, moments, self._random, scales=residuals)
        weights, shares = (np.concatenate(part) for part in zip(*kept, strict=True))
        return Draws(weights, layout.tables(shares), np.mean(remaining, axis=0))

    def _leave_lost(self) -> None:
        problem, state = self.problem, self.state
        like = problem.likelihood(problem.moments(state))[0]
        lost = like < like.max() - LOST - LOST_SHARE * problem.targets.known.sum()
        if lost.any():
            chosen = np.where(lost, like.argmax(), np.arange(len(lost)))
            problem.recentre(problem.centre[chosen])
            self._white.restart()
            self.state = self._white.measure(problem, State(*(part[chosen] for part in state)))

    def _move(self, step: float) -> tuple[Moments, float]:
        """Make one Hamiltonian move; return the moments and the mean chance of acceptance."""
        random, problem, state = self._random, self.problem, self.state
        self._white.prepare(problem)
        by = step * random.uniform(0.6, 1.4, size=(len(state.theta), 1))
        p = State(
            random.normal(size=state.theta.swapaxes(1, 2).shape).astype(np.float32),
            random.normal(size=state.rho.shape),
            random.normal(size=state.common.shape),
        )
        first = now = problem.value(state)
        start = now.density - _kinetic(p)
        p = _added(p, 0.5 * by, self._white.to_momenta(now.slope))
        for leap in range(self._effort.leaps):
            state = _added(state, by, self._white.velocity(p))
            now = problem.value(state)
            half = 0.5 if leap == self._effort.leaps - 1 else 1.0
            p = _added(p, half * by, self._white.to_momenta(now.slope))
        gain = np.nan_to_num(now.density - _kinetic(p) - start, nan=-np.inf)
        chance = np.exp(np.minimum(gain, 0.0))
        taken = random.random(len(chance)) < chance
        self.state = _either(taken, state, self.state)
        return _either(taken, now.moments, first.moments), float(chance.mean())


def leading(targets: Targets, causes: int) -> Reals:
    """Return loadings that span the leading estimated correlations: (columns, causes)."""
    layout, m = targets.layout, targets.margins
    deviation = np.sqrt(layout.variance(m))
    means = 2.0 * m - 1.0 if layout.bits else layout.root * m - 1.0 / layout.root
    units, known = np.outer(deviation, deviation), targets.known
    found = np.where(known, targets.products - np.outer(means, means), 0.0) / units
    noise = np.where(known, targets.variances, 0.0) / np.square(units)
    trust = np.where(known, 1.0 / (1.0 + noise / TYPICAL[1] ** 2), 0.0)
    matrix = found * trust
    for _ in range(3):  # what is unknown follows the leading directions
        value, vector = np.linalg.eigh(matrix)
        value = np.maximum(value[::-1][:causes], 0.0)
        vector = vector[:, ::-1][:, :causes]
        low = (vector * value) @ vector.T
        matrix = np.where(known, found * trust + low * (1.0 - trust), low)
    out = np.zeros((layout.size, causes))
    out[:, : len(value)] = vector * np.sqrt(value)
    spread = deviation if layout.bits else np.sqrt(m * (1.0 - m))
    return np.asarray(2.0 * out / spread[:, None])


def _kinetic(p: State) -> Reals:
    squares = [np.square(a.astype(float)).reshape(len(a), -1).sum(axis=1) for a in p]
    return np.asarray(0.5 * sum(squares))


def _added(state: State, by: Reals, change: State) -> State:
    """Return state + by change; ``by`` has the shape (chains, 1)."""
    theta = state.theta + by[:, :, None].astype(np.float32) * change.theta
    return State(theta, state.rho + by * change.rho, state.common + by * change.common)


def _either(taken: Flags, new: _Parts, old: _Parts) -> _Parts:
    """Return the new parts of chains that move, the old ones of the others."""
    return type(new)(
        *(
            np.where(taken.reshape(-1, *[1] * (a.ndim - 1)), a, b)
            for a, b in zip(new, old, strict=True)
        )
    )
