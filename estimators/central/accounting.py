"""Privacy accounting of DP Marginals: costs in zero-concentrated DP, converted to epsilon, delta.

Costs in zero-concentrated differential privacy (zCDP), with the parameter rho, add up over
releases. rho-zCDP gives (rho + 2 sqrt(rho ln(1/delta')), delta')-DP (Bun and Steinke 2016). With
delta' = delta / 2 for this conversion, and the other half for the thresholds on unseen values, the
whole budget is ``rho = (sqrt(eps + ln(2/delta)) - sqrt(ln(2/delta)))^2``. This corrects Theorem 1.1
of the paper, which lacks a square as printed. Neighbouring data sets differ by one user's record,
added or removed.

Every number is rounded in favour of privacy: budgets down, variances up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from math import floor, isqrt

from calmstream.common.errors import PlanError
from calmstream.estimators.randomness import parse_epsilon

_UP = Context(prec=60, rounding=ROUND_CEILING)
_DOWN = Context(prec=60, rounding=ROUND_FLOOR)
# Sixty digits make the loss by rounding negligible.

_DELTA = re.compile(r"0\.[0-9]{1,40}|[1-9](\.[0-9]{1,20})?e-[0-9]{1,2}", re.ASCII)
"""Delta as plans write it, for example "0.000001" or "1e-6"."""

QUANTILE_SHARE = Fraction(1, 10)
"""Share of rho for the contribution limits (Remark 1.2); the rest is for the counts."""

QUANTILE_BITS = 24
"""The epsilon of a quantile is rounded down to a multiple of 2^-24, so that integers suffice."""


@dataclass(frozen=True, slots=True)
class Spend:
    """A privacy cost or a privacy budget."""

    rho: Fraction
    delta: Fraction

    def __add__(self, other: Spend) -> Spend:
        return Spend(self.rho + other.rho, self.delta + other.delta)

    def fits(self, budget: Spend) -> bool:
        return self.rho <= budget.rho and self.delta <= budget.delta


def parse_delta(text: object) -> Decimal:
    """Return delta as an exact decimal."""
    if not isinstance(text, str) or not _DELTA.fullmatch(text):
        raise PlanError(f'delta must be a decimal number in a string such as "1e-6", got {text!r}')
    value = Decimal(text)
    if not Decimal("1e-30") <= value <= Decimal("0.1"):
        raise PlanError(f"delta must be from 1e-30 to 0.1, got {text}")
    return value


def whole_budget(epsilon: str, delta: str) -> Spend:
    """Return the budget of (epsilon, delta)-DP, rounded down by less than 1e-50 of its value.

    Half of delta is in ``Spend.delta``; the other half is for the conversion from zCDP.
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
    """Return ln(2 / delta), rounded up."""
    # Decimal rounds logarithms and roots to the nearest number, whatever the context says. The next
    # larger number is above the true value.
    return _UP.next_plus(_UP.ln(_UP.divide(Decimal(2), delta)))


def _root(value: Decimal) -> Decimal:
    """Return the square root, rounded up."""
    return _UP.next_plus(_UP.sqrt(value))


@dataclass(frozen=True, slots=True)
class Allocation:
    """How one release spends its budget; level k counts k-tuples.

    Attributes:
        quantile_epsilon: epsilon of the private quantile that gives each level's contribution
            limit; above 0.
        variance: variance sigma^2 of the noise of each level's counts, if the contribution limit
            is 1.
    """

    levels: int
    quantile_epsilon: Fraction
    variance: Fraction
    delta: Fraction

    @property
    def cost(self) -> Spend:
        """The cost of the release: rho = T eps_Q^2 / 2 + T / (2 sigma^2), and delta."""
        rho = self.levels * (self.quantile_epsilon**2 + 1 / self.variance) / 2
        return Spend(rho, self.delta)


def allocate(share: Spend, levels: int) -> Allocation:
    """Divide the budget of one release (Remark 1.2 of the paper).

    A tenth of rho is for the quantiles, the rest for the counts; all levels get the same.
    """
    scale = 1 << QUANTILE_BITS
    square = 2 * QUANTILE_SHARE * share.rho / levels
    quantile = Fraction(isqrt(floor(square * scale * scale)), scale)
    if quantile == 0:
        raise PlanError(
            "the budget of one release is too small: plan fewer releases or a larger epsilon"
        )
    variance = levels / (2 * (1 - QUANTILE_SHARE) * share.rho)
    return Allocation(levels, quantile, variance, share.delta)
