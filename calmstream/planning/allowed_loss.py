"""How much one device may lose to a plan unless its author confirms the loss."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from estimators.errors import InvalidInput

if TYPE_CHECKING:
    from estimators.plan.loss import Loss

MOST_REPORT = Decimal(4)
"""For one report: at 4 an observer's odds about a record change by a factor of up to 55."""

MOST_YEAR = Decimal(8)
"""In any 365 days: a factor of up to 3,000 over all reports."""


def check(loss: Loss, allowed: Decimal | None) -> None:
    """Refuse a large loss, unless ``--allow-loss`` states it.

    Raises:
        InvalidInput: names the exact option to type.
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
    """What one device can lose, for people."""
    return (
        f"one device loses at most {loss.report:f} per report, {loss.year:f} in any 365 days, "
        f"{loss.plan:f} over the whole plan"
    )
