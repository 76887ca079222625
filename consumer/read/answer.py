"""The answer to a question about the past of a plan."""

from __future__ import annotations

from dataclasses import dataclass

from calmstream.consumer.read.ranges import Windows
from calmstream.estimators.marginal import Floats
from calmstream.estimators.wire.snapshot import Revision


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """A table, with all that its reader must know.

    Attributes:
        attributes: names, in axis order; given ones first.
        labels: per attribute its labels, or those of its groups.
        table: shape of the labels; of a difference, changes, which may be negative.
        stderr: the same shape: standard errors, before non-negativity was enforced.
        flags: as in a snapshot (`Marginal`), and: ``approximate``
            (errors take the cells as independent), ``conditional``, ``difference``, ``dependent``
            (a device may have reported in several of these windows: the errors take reports as
            independent), ``suspicious`` (the raw counts look forged).
        windows: first and last window; of a difference, those it is about and those it subtracts.
        reports: of these windows and groups of devices that speak about the attributes.
        revision: that of the final of the last window: one offset per input partition.
    """

    attributes: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    table: Floats
    stderr: Floats
    flags: tuple[str, ...]
    windows: tuple[Windows, ...]
    reports: int
    revision: Revision
