"""Hidden causes of the dependence between attributes, as a model shows them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LabelShift:
    """A label, by attribute and code, that a cause raises or lowers.

    ``without``, ``within``: its share among records without and with the cause; ``stderr``: the
    standard error of their difference.
    """

    attribute: int
    code: int
    without: float
    within: float
    stderr: float


@dataclass(frozen=True, slots=True)
class Cause:
    """A hidden property of records on which their attributes depend.

    ``share`` of the records that have it, at most one half; ``agreement``: share of the posterior's
    draws that have it; ``shifts``: the largest differences first.
    """

    share: float
    stderr: float
    agreement: float
    shifts: tuple[LabelShift, ...]
