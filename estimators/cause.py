"""Hidden causes of the dependence between attributes, as a model shows them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LabelShift:
    """A label that a cause raises or lowers.

    Attributes:
        attribute: its position. code: that of the label.
        without, within: share of the label among records without and with the cause.
        stderr: standard error of their difference.
    """

    attribute: int
    code: int
    without: float
    within: float
    stderr: float


@dataclass(frozen=True, slots=True)
class Cause:
    """A hidden property of records on which their attributes depend.

    Attributes:
        share: of the records that have it, at most one half. stderr: its standard error.
        agreement: share of the draws of the posterior that have it.
        shifts: the labels that it raises or lowers, the largest differences first.
    """

    share: float
    stderr: float
    agreement: float
    shifts: tuple[LabelShift, ...]
