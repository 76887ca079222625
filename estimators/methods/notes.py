"""What people read about a method: its line in the list of methods."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Note:
    """A method's line in the list of methods; `Method.note`, which a method may leave out."""

    asks: str  # what one device reports
    recovers: str  # how tables are estimated
    take: str  # when to choose the method
    source: str  # the publication, or the project that proposed it
    raw: bool = False  # whether tables are published without correction, not as distributions
