"""What people read about a method: its line in the list of methods."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Note:
    """A method's line in the list of methods; `Method.note`, which a method may leave out.

    Attributes:
        asks: what one device reports.
        recovers: how tables are estimated.
        take: when to choose the method.
        source: the publication, or the project that proposed it.
        raw: whether tables are published without correction; all others are distributions.
    """

    asks: str
    recovers: str
    take: str
    source: str
    raw: bool = False
