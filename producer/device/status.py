"""Whether a device may report now, and if not, why."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """Whether a device may report now, and if not, why."""

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
