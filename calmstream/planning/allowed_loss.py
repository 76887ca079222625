"""Limits of the privacy loss of one device, above which the author must confirm it."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from calmstream.common.errors import InvalidInput

if TYPE_CHECKING:
    from calmstream.estimators.plan.loss import Loss

MAX_REPORT = Decimal(4)
"""Maximum loss by one report without confirmation. A loss of 4 lets an observer change the odds of
any statement about a record by a factor of up to e^4, about 55."""

MAX_YEAR = Decimal(8)  # maximum loss in any 365 days without confirmation; e^8 is about 3,000


def check(loss: Loss, allowed: Decimal | None) -> None:
    above = []
    if loss.report > MAX_REPORT:
        above.append(f"{loss.report:f} with one report (more than {MAX_REPORT})")
    if loss.year > MAX_YEAR:
        above.append(f"{loss.year:f} in any 365 days (more than {MAX_YEAR})")
    largest = max(loss.report, loss.year)
    if above and (allowed is None or allowed < largest):
        raise InvalidInput(
            f"a device can lose {' and '.join(above)}: use a smaller epsilon or fewer reports per "
            f"device; or, if this is intended, add --allow-loss {largest:f}"
        )


def line(loss: Loss) -> str:
    return (
        f"one device loses at most {loss.report:f} per report, {loss.year:f} in any 365 days, "
        f"{loss.plan:f} over the whole plan"
    )
