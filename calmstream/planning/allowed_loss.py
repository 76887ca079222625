"""Limits of the privacy loss of one device, above which the author must confirm it."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from estimators.errors import InvalidInput

if TYPE_CHECKING:
    from estimators.plan.loss import Loss

MOST_REPORT = Decimal(4)
"""For one report: a loss of 4 changes an observer's odds by a factor of up to 55."""

MOST_YEAR = Decimal(8)
"""In any 365 days: a factor of up to 3,000 over all reports."""


def check(loss: Loss, allowed: Decimal | None) -> None:
    """Refuse a large loss unless ``--allow-loss`` confirms it.

    Raises:
        InvalidInput: the loss is not confirmed; the message names the exact option.
    """
    over = []
    if loss.report > MOST_REPORT:
        over.append(f"{loss.report:f} with one report (more than {MOST_REPORT})")
    if loss.year > MOST_YEAR:
        over.append(f"{loss.year:f} in any 365 days (more than {MOST_YEAR})")
    most = max(loss.report, loss.year)
    if over and (allowed is None or allowed < most):
        raise InvalidInput(
            f"a device can lose {' and '.join(over)}: lower epsilon or ask less often; or, if it "
            f"is meant, add --allow-loss {most:f}"
        )


def line(loss: Loss) -> str:
    """Return the loss of one device as a line for people."""
    return (
        f"one device loses at most {loss.report:f} per report, {loss.year:f} in any 365 days, "
        f"{loss.plan:f} over the whole plan"
    )
