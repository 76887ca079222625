"""What the design assumes of interactions before collection, and both it and the model of levels.

Coefficients, moments and correlations lie between -1 and 1. A scale of 0.1 is a usual dependence of
two attributes in tables about people; 0.01 is next to none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calmstream.estimators.numerics.grids import LogNormal

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
# Deviation of a field from the common part.
DESIGN_FIELD = 0.7
# The part of a categorical interaction of three attributes that their pair tables do not predict,
# in the design: it decides from how many reports on views of three attributes pay off.
UNPREDICTED_THIRD = 0.4
# The same where attributes depend so strongly, such as the answers of one person in several years,
# that interactions of three are as large as those of pairs usually are.
STRONG_THIRD = 2.0
# Log density of the levels of an ordered attribute, by the grids of its parts' deviations. Smooth:
# the part by which distant levels differ; 0.05 is nearly even, 6 a steep peak.
LEVEL_SMOOTH = (0.05, 0.2, 0.5, 1.2, 3.0, 6.0)
# Rough: what neighbouring levels do not share, from next to nothing to more than a factor of 2.
LEVEL_ROUGH = (0.02, 0.1, 0.3, 0.8)
# Slope over the levels, in units of their standard deviation, and its largest ratio to the smooth
# part: levels that have about equally many records by design are even in every respect.
LEVEL_SLOPE, LEVEL_SLOPE_RATIO = 1.0, 2.0
