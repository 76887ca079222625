"""Whether a device may report now, and if not, why."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """Whether a device may report now, and if not, why.

    Attributes:
        READY: the device may report.
        WITHDRAWN: the person has withdrawn.
        REFUSED: the device does not accept the plan at present.
        NOT_STARTED: the plan has not started.
        OVER: the plan's last window has ended.
        ALREADY_REPORTED: the plan's guarantee allows no further report yet, or ever.
        NOT_ITS_SLOT: the device reports in other windows than the present one.
        BUDGET_SPENT: a report would exceed the bound of the plan's lineage.
        SPAN_EPSILON: a report would exceed the policy's limit for any ``span_days`` days.
        EVER_EPSILON: a report would exceed the policy's limit for all time.
    """

    READY = "ready"
    WITHDRAWN = "withdrawn"
    REFUSED = "refused"
    NOT_STARTED = "not started"
    OVER = "over"
    ALREADY_REPORTED = "already reported"
    NOT_ITS_SLOT = "not its slot"
    BUDGET_SPENT = "budget spent"
    SPAN_EPSILON = "span epsilon"
    EVER_EPSILON = "ever epsilon"
