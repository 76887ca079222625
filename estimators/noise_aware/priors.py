"""Every prior of the method and its scale, with the reason for it (noise-aware.md, section 9).

A coefficient, moment or correlation lies between -1 and 1, a log-linear weight rarely beyond 2: a
scale of 0.1 is a usual dependence of two attributes in tables about people, 0.01 next to none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from estimators.noise_aware.arrays import Floats


@dataclass(frozen=True)
class LogGrid:
    """Points that are even in the logarithm, ``low`` and ``high`` included."""

    low: float
    high: float
    count: int

    @cached_property
    def points(self) -> Floats:
        """Shape (count,)."""
        return np.exp(np.linspace(np.log(self.low), np.log(self.high), self.count))

    def log_density(self, scale: Floats) -> Floats:
        """Return the log density of ``log scale``, up to a constant: even on the grid."""
        return np.zeros_like(scale)

    @cached_property
    def on_grid(self) -> Floats:
        """`log_density` of the grid's points: shape (count,)."""
        return self.log_density(self.points)


@dataclass(frozen=True)
class HalfNormal(LogGrid):
    """Prior of a scale, as the density of its logarithm: even up to about `size`, cut above it."""

    size: float  # Deviation of the half-normal factor
    # Whether the density of the scale, not of its logarithm, is even near 0. Even in the logarithm,
    # "no effect" is likely beforehand; level, intervals stay wide without data.
    level: bool = False

    def log_density(self, scale: Floats) -> Floats:
        """Return the log density of ``log scale``, up to a constant."""
        even = np.log(scale) if self.level else 0.0
        return np.asarray(even - 0.5 * np.square(scale / self.size))


@dataclass(frozen=True)
class LogNormal(LogGrid):
    """Prior of a scale whose logarithm is normal about ``log median``, of deviation ``spread``."""

    median: float
    spread: float

    def log_density(self, scale: Floats) -> Floats:
        """Return the log density of ``log scale``, up to a constant."""
        return np.asarray(-0.5 * np.square(np.log(scale / self.median) / self.spread))


def half_cauchy(ratio: Floats) -> Floats:
    """Density of the logarithm of a half-Cauchy variable over its scale, up to a constant."""
    return np.asarray(ratio / (1.0 + np.square(ratio)))


# Smaller prior scales count as this one, so that orders said to be absent keep the floor.
LEAST_SCALE = 1e-3


@dataclass(frozen=True, slots=True)
class PriorScales:
    """Deviations of interactions that the design assumes; the defaults are mid-range."""

    # Of a coefficient of order 1, 2 and so on; 0 beyond. For binary attributes order 1 is the scale
    # of means, and higher orders are correlations.
    scales: tuple[float, ...] = (0.6, 0.1, 0.05, 0.03)
    # Of order 2, equally likely: this scale is unknown before collection.
    pairs: tuple[float, ...] = (0.05, 0.1, 0.2)

    @classmethod
    def of(cls, scales: Sequence[float], pairs: Sequence[float] = ()) -> PriorScales:
        """Return these scales by order, and those of order 2 where several are likely."""
        kept = tuple(max(s, LEAST_SCALE) for s in (*scales, 0.0)[: max(2, len(scales))])
        return cls(kept, tuple(max(s, LEAST_SCALE) for s in pairs) or kept[1:2])


def stated_scale(median: float) -> LogNormal:
    """Prior of a scale to learn from a pilot: in two of three cases within a factor of 2.

    The middles of its three thirds about 0.1 are the default scales of pairs.
    """
    return LogNormal(LEAST_SCALE, 1.0, 200, median, float(np.log(2.0)))


# Equally likely means of binary attributes at prior scale 0.6: tanh of the middles of the four
# quarters of a standard normal distribution, which is the fields' prior of the models.
SCENARIO_MEANS = (0.13, 0.38, 0.66, 0.9)
# Deviation of what the fields of all binary attributes share: means tanh(1) either way.
FIELD_CENTRE = 1.0
# Deviation of one field about the common part in the design, which needs one number: between the
# median (0.5) and the mean (0.8) of `FIELD_SCALE`, which the models draw.
DESIGN_FIELD = 0.7
# The same deviation in the log-linear model; e times either way covers equal and mixed means.
FIELD_SCALE = LogNormal(0.05, 2.5, 30, median=0.5, spread=1.0)
# The same in the latent traits, on their grid.
TRAIT_FIELD_SCALE = LogNormal(2e-4, 2.5, 64, FIELD_SCALE.median, FIELD_SCALE.spread)
# Log-linear weights of order 2, 3 and 4. Half as large an order: higher interactions are rarer.
# Level in order 2, as pairs decide most intervals; above it absence is likely.
INTERACTION_SCALES = (
    HalfNormal(2e-3, 0.8, 40, size=0.1, level=True),
    HalfNormal(2e-3, 0.8, 40, size=0.05),
    HalfNormal(2e-3, 0.8, 40, size=0.025),
)
# Log-linear weights that all pairs of one attribute share; as a pair's own.
SOCIABILITY = HalfNormal(2e-3, 0.8, 40, size=0.1, level=True)
# Third moments that are read but not modelled, about the log-linear model's prediction.
EXCESS = HalfNormal(2e-3, 0.8, 40, size=0.03)
# Third moments about the latent traits' prediction; level, as traits predict them less well.
TRAIT_EXCESS = HalfNormal(2e-3, 0.3, 24, EXCESS.size, level=True)
# Degrees of freedom of Student's t, equally likely: from few large weights among many to none.
TAIL_FREEDOMS = np.array([3.0, 6.0, 12.0, 24.0])
# Loadings of a trait. Its least value stands for "no trait": independent data cost nothing.
TRAIT_LOADING = HalfNormal(2e-4, 2.5, 64, size=0.5)
# Deviation of a trait's mean loading, in units of its loadings: one cause may move everything.
TRAIT_COMMON = 2.0
# Degrees of freedom of the fields of latent traits: a few attributes may be far from the rest.
TRAIT_FREEDOM = 6.0
# Loadings of the low-rank model; a correlation of 0.005^2 stands for "no factor".
FACTOR_LOADING = HalfNormal(5e-3, 1.5, 40, size=0.5)
# Largest prior deviation of a residual correlation of categories: the half-Cauchy tail reaches
# beyond 1, and where noise is high nothing else excludes that.
LARGEST_RESIDUAL = 0.25
# Residual correlations. Level: prior mass at 0 makes intervals too short where few pairs depend on
# each other.
RESIDUAL_SCALE = HalfNormal(2e-3, 0.6, 32, size=0.1, level=True)
# Half-Cauchy factor of one residual: a few pairs may be twenty times as large as the rest.
RESIDUAL_RATIO = LogGrid(0.05, 20.0, 13)
# Third cumulants of factors: 3 is that of a cause which one record in twelve has.
CUMULANT = HalfNormal(0.02, 10.0, 16, size=3.0)
# What factors leave of third moments while they are fitted, in units of its scale.
REMAINDER = HalfNormal(0.003, 0.5, 10, size=0.1)
# Third moments that no factor explains, if there are any (probability 1/2).
LONE_RESIDUAL = 0.03
# Both shapes of the beta distribution of binary means, low-rank model: U-shaped to narrow.
MEAN_SHAPES = LogNormal(0.15, 20.0, 14, median=1.0, spread=1.5)
# Dirichlet concentration of margins: the median lies between Jeffreys' prior and the uniform one.
# The common level has this prior, and each attribute's own lies about it as widely.
CONCENTRATION = LogNormal(0.05, 20.0, 24, median=0.7, spread=1.0)
# Size of a block of two categorical attributes, if it is not 0 (probability 1/2).
BLOCK_SIZE = LogGrid(3e-3, 1.0, 29)
# Scale of these sizes, even in the logarithm.
BLOCK_SCALE = LogGrid(3e-3, 0.5, 16)
# Weight of the log-linear model where statistics cannot decide: all where it has interactions of
# more than two attributes and so misses little, half where it has pairs alone.
LOGLINEAR_SHARE_SMALL, LOGLINEAR_SHARE = 1.0, 0.5
# Prior variance of that weight: as wide as a share of 0 or 1 at even odds.
SHARE_VARIANCE = 0.25
# Unmodelled interactions of each order are at most half as large as those of the one before.
LARGEST_DECAY = 0.5
