"""What people read about a method: its line in the list of methods, and what its errors mean."""

from __future__ import annotations

from dataclasses import dataclass

# What the expected errors of a design mean, by method; `calmstream plan` prints these lines.
UPPER = (
    "These are upper bounds of the errors by noise and sampling, before negative cells are "
    "corrected. If errors are large, the correction makes them much smaller."
)
TOGETHER = (
    f"{UPPER} A table that no view contains is reconstructed from smaller tables, which adds an "
    "error that no formula states."
)
EXACT = "These are the exact errors by noise; tables are not corrected afterwards."
JOINT = (
    "These are upper bounds of the errors by noise: those of the joint inverse, from which the "
    "published tables are made."
)
PRODUCT = (
    "These are the errors by noise on uniformly distributed data, not bounds: skewed data has "
    "larger ones, and the error by dependence between the parts is not included."
)
COLLISIONS = (
    "These are the errors by noise on uniformly distributed data, before negative cells are "
    "corrected, not bounds: if few records are frequent, hash collisions add more."
)
LASSO = (
    "These are the errors by noise of least squares, before the Lasso and the correction of "
    "negative cells; the error of values that the Lasso omits is not included."
)
PRIOR = (
    "These are the errors after shrinkage if interactions are as strong as the method's prior "
    "assumes, not bounds."
)


@dataclass(frozen=True, slots=True)
class Note:
    """A method's line in the list of methods; `Method.note`, which a method may leave out.

    Attributes:
        asks: what one device reports.
        recovers: how tables are estimated.
        take: when to choose the method.
        source: the publication, or the project that proposed it.
        expected: meaning of the errors that a design of the method states; empty if it states none.
        raw: whether tables are published without correction: cells may be negative and need not
            add up to 1. All other methods publish distributions.
    """

    asks: str
    recovers: str
    take: str
    source: str
    expected: str = UPPER
    raw: bool = False
