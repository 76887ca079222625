"""Privacy accounting of DP Marginals, corrected: zero-concentrated DP composed, then converted.

Theorem 1.1 as printed lacks a square. rho-zCDP gives (rho + 2 sqrt(rho ln(1/delta')), delta')-DP
(Bun and Steinke 2016); with delta' = delta / 2 for the conversion and delta / 2 for the thresholds
on unseen values, the whole budget is ``rho = (sqrt(eps + ln(2/delta)) - sqrt(ln(2/delta)))^2``.
Neighbours differ by one user's record, added or removed.

Every number is rounded so that privacy can only gain: budgets down, variances up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from math import floor, isqrt

from estimators.errors import PlanError
from estimators.randomness import parse_epsilon

_UP = Context(prec=60, rounding=ROUND_CEILING)
_DOWN = Context(prec=60, rounding=ROUND_FLOOR)

_DELTA = re.compile(r"0\.[0-9]{1,40}|[1-9](\.[0-9]{1,20})?e-[0-9]{1,2}", re.ASCII)
"""How a plan spells delta: "0.000001" or "1e-6"."""

QUANTILE_SHARE = Fraction(1, 10)
"""Part of rho for the contribution limits (Remark 1.2); the rest is for the counts."""

QUANTILE_BITS = 24
"""The quantile's epsilon is a multiple of 2^-24, rounded down."""


@dataclass(frozen=True, slots=True)
class Spend:
    """What one release may cost, or does cost.

    Attributes:
        rho: of zCDP.
        delta: of the thresholds on unseen values, on top of the conversion's own.
    """

    rho: Fraction
    delta: Fraction

    def __add__(self, other: Spend) -> Spend:
        return Spend(self.rho + other.rho, self.delta + other.delta)

    def fits(self, budget: Spend) -> bool:
        """Return whether the cost is within a budget."""
        return self.rho <= budget.rho and self.delta <= budget.delta


def parse_delta(text: object) -> Decimal:
    """Delta as an exact decimal.

    Raises:
        PlanError: not a plain decimal string, or outside [1e-30, 0.1].
    """
    if not isinstance(text, str) or not _DELTA.fullmatch(text):
        raise PlanError(f'delta must be a decimal number in a string such as "1e-6", got {text!r}')
    value = Decimal(text)
    if not Decimal("1e-30") <= value <= Decimal("0.1"):
        raise PlanError(f"delta must lie between 1e-30 and 0.1, got {text}")
    return value


def whole_budget(epsilon: str, delta: str) -> Spend:
    """Return everything that (epsilon, delta)-DP allows, rounded down by less than 1e-50 relative.

    Half of delta is in ``Spend.delta``, the other half pays for the conversion.
    """
    loss, log = parse_epsilon(epsilon), _log_two_over(parse_delta(delta))
    # eps^2 / (sqrt(eps + log) + sqrt(log))^2 is the same number without cancellation; all
    # roundings make the denominator larger.
    roots = _UP.add(_root(_UP.add(loss, log)), _root(log))
    share = _DOWN.divide(loss, roots)
    return Spend(Fraction(_DOWN.multiply(share, share)), Fraction(parse_delta(delta)) / 2)


def epsilon_of(rho: Fraction, delta: str) -> Decimal:
    """Return the epsilon of rho at half of delta, rho + 2 sqrt(rho ln(2/delta)), rounded up."""
    exact = _UP.divide(Decimal(rho.numerator), Decimal(rho.denominator))
    root = _root(_UP.multiply(exact, _log_two_over(parse_delta(delta))))
    return _UP.add(exact, _UP.multiply(Decimal(2), root))


def _log_two_over(delta: Decimal) -> Decimal:
    # Logarithm and root are correctly rounded half-even whatever the context says: one step up is
    # above the true value.
    return _UP.next_plus(_UP.ln(_UP.divide(Decimal(2), delta)))


def _root(value: Decimal) -> Decimal:
    return _UP.next_plus(_UP.sqrt(value))


@dataclass(frozen=True, slots=True)
class Allocation:
    """How one release of T levels spends its share.

    Attributes:
        levels: T.
        quantile_epsilon: of each level's contribution limit; 0 is impossible.
        variance: sigma^2 of each level's counts, for contribution limit 1.
        delta: for the thresholds on unseen values.
    """

    levels: int
    quantile_epsilon: Fraction
    variance: Fraction
    delta: Fraction

    @property
    def cost(self) -> Spend:
        """T eps_Q^2 / 2 + T / (2 sigma^2), and delta."""
        rho = self.levels * (self.quantile_epsilon**2 + 1 / self.variance) / 2
        return Spend(rho, self.delta)


def allocate(share: Spend, levels: int) -> Allocation:
    """Remark 1.2: a tenth of rho for the quantiles, the rest evenly for the counts.

    Raises:
        PlanError: the share is so small that a quantile's epsilon would round down to nothing.
    """
    scale = 1 << QUANTILE_BITS
    square = 2 * QUANTILE_SHARE * share.rho / levels
    quantile = Fraction(isqrt(floor(square * scale * scale)), scale)
    if quantile == 0:
        raise PlanError(
            "the budget of one release is too small: fewer releases or a larger epsilon"
        )
    variance = levels / (2 * (1 - QUANTILE_SHARE) * share.rho)
    return Allocation(levels, quantile, variance, share.delta)
