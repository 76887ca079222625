"""All priors of the method with their scales and reasons; see noise-aware.md, section 9.

Coefficients, moments and correlations lie between -1 and 1, and log-linear weights are rarely
beyond 2. A scale of 0.1 is a usual dependence of two attributes in tables about people; 0.01 is
next to none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calmstream.estimators.numerics.grids import HalfNormal, LogGrid, LogNormal

# Smallest prior scale in a design: an order that is stated to be absent still gets some users.
LEAST_SCALE = 1e-3


@dataclass(frozen=True, slots=True)
class PriorScales:
    """Deviations of interactions that the design assumes; the defaults are mid-range."""

    # Deviation of a coefficient of order 1, 2 and so on; 0 for higher orders. For binary attributes
    # order 1 is the scale of means, and higher orders are correlations.
    scales: tuple[float, ...] = (0.6, 0.1, 0.05, 0.03)
    # Equally likely deviations of order 2; several, as they are not known before collection.
    pairs: tuple[float, ...] = (0.05, 0.1, 0.2)

    @classmethod
    def of(cls, scales: Sequence[float], pairs: Sequence[float] = ()) -> PriorScales:
        """Return the scales of order 1, 2 and so on, raised to `LEAST_SCALE`.

        ``pairs`` are the equally likely scales of order 2; empty: only that of ``scales``.
        """
        kept = tuple(max(s, LEAST_SCALE) for s in (*scales, 0.0)[: max(2, len(scales))])
        return cls(kept, tuple(max(s, LEAST_SCALE) for s in pairs) or kept[1:2])


def stated_scale(median: float) -> LogNormal:
    """Return the prior of a scale to learn: within a factor of 2 of the median in 2 of 3 cases.

    With median 0.1 the middles of its three thirds are the default scales of pairs.
    """
    return LogNormal(LEAST_SCALE, 1.0, 200, median, float(np.log(2.0)))


# Equally likely means of binary attributes in the design, at prior scale 0.6: tanh of the middles
# of the four quarters of a standard normal distribution. (A field is the atanh of a mean.)
SCENARIO_MEANS = (0.13, 0.38, 0.66, 0.9)
# Deviation of the common part of the fields of all binary attributes: means of +-tanh(1) are usual.
FIELD_CENTRE = 1.0
# Deviation of a field from the common part in the design, which needs a number: it lies between
# the median (0.5) and the mean (0.8) of `FIELD_SCALE`, which the models use.
DESIGN_FIELD = 0.7
# The same in the log-linear model; a factor of e either way covers equal and very unequal means.
FIELD_SCALE = LogNormal(0.05, 2.5, 30, median=0.5, spread=1.0)
# The same in the latent traits, on a grid that reaches further down.
TRAIT_FIELD_SCALE = LogNormal(2e-4, 2.5, 64, FIELD_SCALE.median, FIELD_SCALE.spread)
# Log-linear weights of order 2, 3 and 4. Each order has half the scale of the one below, as higher
# interactions are rarer. Order 2 is level, as pairs decide most intervals.
INTERACTION_SCALES = (
    HalfNormal(2e-3, 0.8, 40, size=0.1, level=True),
    HalfNormal(2e-3, 0.8, 40, size=0.05),
    HalfNormal(2e-3, 0.8, 40, size=0.025),
)
# What the log-linear weights of all pairs of an attribute have in common: as large as the rest.
SOCIABILITY = HalfNormal(2e-3, 0.8, 40, size=0.1, level=True)
# Distance of third moments from the prediction of a log-linear model that has only pairs.
EXCESS = HalfNormal(2e-3, 0.8, 40, size=0.03)
# The same from the latent traits' prediction; level, as traits predict third moments less well.
TRAIT_EXCESS = HalfNormal(2e-3, 0.3, 24, EXCESS.size, level=True)
# Equally likely degrees of freedom of the log-linear weights, which have Student's t distribution:
# from a few weights far larger than the rest (3) to none (24).
TAIL_FREEDOMS = np.array([3.0, 6.0, 12.0, 24.0])
# Loadings of a latent trait. The smallest value stands for "no trait", so that independent
# attributes are estimated as if there were no traits.
TRAIT_LOADING = HalfNormal(2e-4, 2.5, 64, size=0.5)
# Deviation of a trait's mean loading, in units of its loadings' deviation: one cause may move all
# attributes in one direction.
TRAIT_COMMON = 2.0
# Degrees of freedom of the fields in the latent traits: a few attributes may be far from the rest.
TRAIT_FREEDOM = 6.0
# Loadings of a factor of the low-rank model. Level: attributes of people that depend on nothing are
# rare, and where noise hides whether there is a factor, intervals should show it.
FACTOR_LOADING = HalfNormal(5e-3, 1.5, 40, size=0.5, level=True)
# Part of the variance of loadings on ordered categories that follows the order, and how a linear
# and a quadratic function of the place share it: attributes that rise together are most usual.
LINE_SHARE = 0.6
LINE_WEIGHTS = (0.7, 0.3)
# Largest prior deviation of a residual correlation of categories: the half-Cauchy distribution
# allows correlations beyond 1, and where noise is high the estimates do not exclude them.
LARGEST_RESIDUAL = 0.25
# Residual correlations of pairs. Level, as prior mass at 0 would make intervals too short where
# only a few pairs depend on each other.
RESIDUAL_SCALE = HalfNormal(2e-3, 0.6, 32, size=0.1, level=True)
# Factor of one residual: a few pairs may be twenty times as strong as the rest.
RESIDUAL_RATIO = LogGrid(0.05, 20.0, 13)
# Equally likely exponents of its half-Cauchy distribution: from a few large residuals (1) to all of
# about one size. The factor that four of five residuals do not exceed is the same for all.
RESIDUAL_SHAPES = (1.0, 0.5, 0.25, 0.12)
RESIDUAL_PIVOT = 3.08  # the 80 % quantile of a half-Cauchy variable
# Third cumulants of factors: 3 is that of a binary cause which one record in twelve has.
CUMULANT = HalfNormal(0.02, 10.0, 16, size=3.0)
# Part of third moments that no factor explains, while factors are fitted; in units of the product
# of the attributes' deviations.
REMAINDER = HalfNormal(0.003, 0.5, 10, size=0.1)
# The same after factors are fitted, if there is such a part at all (probability 1/2).
LONE_RESIDUAL = 0.03
# Both shapes of the beta distribution of binary means in the low-rank model: the grid reaches from
# U-shaped to narrow distributions.
MEAN_SHAPES = LogNormal(0.15, 20.0, 14, median=1.0, spread=1.5)
# Dirichlet concentration of margins: the median lies between Jeffreys' prior (0.5) and the uniform
# one (1). The common level has this prior, and each attribute's own has the same spread about it.
CONCENTRATION = LogNormal(0.05, 20.0, 24, median=0.7, spread=1.0)
# Strength of the dependence block of two categorical attributes, if it is not 0 (probability 1/2).
BLOCK_SIZE = LogGrid(3e-3, 1.0, 29)
# Common scale of these strengths, uniform in the logarithm: half to eight times a usual dependence.
BLOCK_SCALE = LogGrid(0.05, 0.8, 16)
# Log-linear weights of two and of three categorical attributes: the common size of all sets, and
# the deviation of the logarithm of a set's own size from it. Triples have half the scale of pairs.
SET_WEIGHTS = (
    HalfNormal(2e-3, 0.8, 40, size=0.1, level=True),
    HalfNormal(2e-3, 0.8, 40, size=0.05),
)
SET_WEIGHT_SPREAD = 1.0
# Prior weight of the log-linear model in mixed tables: 1 where it has interactions of more than two
# attributes and so misses little, 1/2 where it has pairs only.
LOGLINEAR_SHARE_SMALL, LOGLINEAR_SHARE = 1.0, 0.5
# Prior variance of that weight: that of a weight which is 0 or 1 with probability 1/2 each.
SHARE_VARIANCE = 0.25
# Prior variance of the ratio of the squared error of fitted moments to what is stated, about 1:
# errors twice as large as stated are usual where a model does not suit the data.
EXCESS_VARIANCE = 1.0
# The part of a categorical interaction of three attributes that their pair tables do not predict,
# in the design: it decides from how many reports on views of three attributes pay off.
UNPREDICTED_THIRD = 0.4
# The same where attributes depend so strongly, such as the answers of one person in several years,
# that interactions of three are as large as those of pairs usually are.
STRONG_THIRD = 2.0
# Unmodelled interactions of each order are at most half as large as those of the order below.
LARGEST_DECAY = 0.5
# Interactions of three categorical attributes, which no estimate shows, are this part of their
# pairs' (half of the largest possible), or as large as the residuals of pairs if these are larger.
# Residuals alone vanish where reports are many; such interactions do not.
THIRD_OF_PAIRS = 0.25
# Log density of the levels of an ordered attribute, by the grids of its parts' deviations. Smooth:
# the part by which distant levels differ; 0.05 is nearly even, 6 a steep peak.
LEVEL_SMOOTH = (0.05, 0.2, 0.5, 1.2, 3.0, 6.0)
# Rough: what neighbouring levels do not share, from next to nothing to more than a factor of 2.
LEVEL_ROUGH = (0.02, 0.1, 0.3, 0.8)
# Slope over the levels, in units of their standard deviation, and its largest ratio to the smooth
# part: levels that have about equally many records by design are even in every respect.
LEVEL_SLOPE, LEVEL_SLOPE_RATIO = 1.0, 2.0
# A heaped level has up to hundreds of times the probability of its neighbours.
LEVEL_SPIKE = 3.0
# Prior weight of the smooth margin against that of categories: somebody stated that there is an
# order, or labels are numbers. Its prior variance is `SHARE_VARIANCE`.
LEVEL_SHARE = 0.75
# Probability that a domain has a set of equal categories of given size. Forms with questions that
# only some are asked, and fields that are missing together, are usual; most tables have neither.
EQUAL_PRIOR = 0.1
# How far the shares of equal categories may differ, relatively: a few records are exceptions.
EQUAL_SLACK = 0.02
# Deviation of second moments of equal categories from those without exceptions, relatively.
EQUAL_EXCEPTIONS = 0.05
# Prior odds that an attribute has a member of a set that is certain: of a category with the set's
# label, and of any other, which is shared by the attribute's categories.
EQUAL_JOINS = (1.0, 0.1)
