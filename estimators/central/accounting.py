"""Privacy accounting of DP Marginals: what releases cost, and what (epsilon, delta) allows.

Half of delta is for the thresholds on unseen values, the other half for the composition of noise
and quantiles, by its exact profile (:mod:`.composition`), with a margin for floating point.

The bound of zero-concentrated DP (Bun and Steinke 2016) is stated beside it, and gives the share of
the quantiles. Costs rho add up, and rho-zCDP gives (rho + 2 sqrt(rho ln(2/delta)), delta/2)-DP, so
the whole budget is ``rho = (sqrt(eps + ln(2/delta)) - sqrt(ln(2/delta)))^2``. This corrects Theorem
1.1 of the paper, which lacks a square as printed.

Neighbouring data sets differ by one user's record, added or removed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from math import floor, isqrt, log, sqrt

from calmstream.common.errors import PlanError
from calmstream.estimators.central.composition import delta_at
from calmstream.estimators.central.noise import LARGEST
from calmstream.estimators.numerics.distribution import least
from calmstream.estimators.randomness import parse_epsilon

BOUND = "numerical"  # how plans, accounts and releases name the exact profile
QUANTILE_SHARE = Fraction(1, 10)  # of rho, for the contribution limits (Remark 1.2)
QUANTILE_BITS = 24  # a quantile's epsilon is rounded down to a multiple of 2^-24: integers suffice

_DELTA = re.compile(r"0\.[0-9]{1,40}|[1-9](\.[0-9]{1,20})?e-[0-9]{1,2}", re.ASCII)
_MARGIN = 1e-7  # share of delta left to errors of floating point, which are smaller
_PRECISION_BITS = 24  # of the precision of noise, so that all machines plan the same


@dataclass(frozen=True, slots=True)
class Spend:
    """What releases spend. Each of their levels has noise and one private quantile."""

    precision: Fraction  # sum over the levels of 1 / sigma^2
    levels: int
    quantile_epsilon: Fraction  # of each quantile, at most
    delta: Fraction  # of the thresholds

    @property
    def variance(self) -> Fraction:
        """sigma^2 of each level's counts, if no user contributes more than 1."""
        return self.levels / self.precision

    def times(self, number: int) -> Spend:
        levels, delta = number * self.levels, number * self.delta
        return Spend(number * self.precision, levels, self.quantile_epsilon, delta)

    @property
    def rho(self) -> Fraction:
        """The cost of the composition in zCDP."""
        return (self.precision + self.levels * self.quantile_epsilon**2) / 2

    def zcdp_epsilon(self, delta: str) -> float:
        """Return the epsilon of the composition at half of delta by zCDP, which is larger."""
        rho = float(self.rho)
        return rho + 2 * sqrt(rho * log(2 / float(parse_delta(delta))))

    def epsilon(self, delta: str) -> float:
        """Return the epsilon of the composition at half of delta."""
        allowed = float(parse_delta(delta)) / 2
        return least(
            lambda epsilon: self._delta_at(epsilon) <= allowed, self.zcdp_epsilon(delta), _MARGIN
        )

    def _delta_at(self, epsilon: float) -> float:
        """Return the delta of the composition, rounded up."""
        numbers = float(self.precision), self.levels, float(self.quantile_epsilon)
        return delta_at(epsilon, *numbers) * (1 + _MARGIN)


def parse_delta(text: object) -> Decimal:
    if not isinstance(text, str) or not _DELTA.fullmatch(text):
        raise PlanError(f'delta must be a decimal number in a string such as "1e-6", got {text!r}')
    value = Decimal(text)
    if not Decimal("1e-30") <= value <= Decimal("0.1"):
        raise PlanError(f"delta must be from 1e-30 to 0.1, got {text}")
    return value


def rho_budget(epsilon: str, delta: str) -> Fraction:
    """Return rho of (epsilon, delta)-DP at half of delta, the same on all machines."""
    with localcontext(prec=60):
        loss, logarithm = parse_epsilon(epsilon), (2 / parse_delta(delta)).ln()
        # eps^2 / (sqrt(eps + log) + sqrt(log))^2 is the same number without cancellation.
        share = loss / ((loss + logarithm).sqrt() + logarithm.sqrt())
        return Fraction(share * share)


def allocate(epsilon: str, delta: str, levels: int, releases: int) -> Spend:
    """Return what one release spends of (epsilon, delta), evenly with all others (Remark 1.2).

    Level k counts k-tuples. A tenth of the rho of zCDP is for the quantiles; the counts have what
    they leave.
    """
    rho = rho_budget(epsilon, delta) / releases
    scale = 1 << QUANTILE_BITS
    square = 2 * QUANTILE_SHARE * rho / levels
    quantile = Fraction(isqrt(floor(square * scale * scale)), scale)
    if quantile == 0:
        raise PlanError(
            "the budget of one release is too small: plan fewer releases or a larger epsilon"
        )
    precision = _largest_precision(epsilon, delta, levels * releases, quantile) / releases
    spend = Spend(precision, levels, quantile, Fraction(parse_delta(delta)) / 2 / releases)
    if spend.variance > LARGEST:
        raise PlanError(
            f"counts of one release would need noise of variance {float(spend.variance):.3g}; "
            f"at most {LARGEST:,} is possible: plan fewer releases or a larger epsilon"
        )
    return spend


def zcdp_variance(epsilon: str, delta: str, levels: int, releases: int) -> Fraction:
    """Return the variance that `allocate` would find by the bound of zCDP."""
    rho = rho_budget(epsilon, delta) / releases
    return levels / (2 * (1 - QUANTILE_SHARE) * rho)


def _largest_precision(epsilon: str, delta: str, quantiles: int, quantile: Fraction) -> Fraction:
    """Return the largest precision of all noise together, of 24 bits, that the bound allows."""
    # A little of delta is left, so that the sum of all releases fits on machines that round
    # differently.
    allowed = float(parse_delta(delta)) / 2 * (1 - 3 * _MARGIN)
    scale = rho_budget(epsilon, delta) / (1 << _PRECISION_BITS)

    def fits(number: int) -> bool:
        precision = float(number * scale)
        return delta_at(float(epsilon), precision, quantiles, float(quantile)) <= allowed

    low = 1 << _PRECISION_BITS  # half of what zCDP allows
    high = 2 * low
    while fits(high):
        low, high = high, 2 * high
    while high - low > max(1, high >> _PRECISION_BITS):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low * scale
