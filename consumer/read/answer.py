"""The answer to a question about the past of a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calmstream.consumer.read.ranges import Windows
from calmstream.consumer.subscribe.assembler import Table
from calmstream.consumer.subscribe.frame import FrameColumns
from calmstream.estimators.wire.snapshot import Revision


@dataclass(frozen=True, slots=True, eq=False)
class Answer(Table):
    """A table, with all that its reader must know.

    Attributes:
        attributes: names, in axis order; given ones first.
        labels: per attribute its labels, or those of its groups.
        table: shape of the labels; of a difference, changes, which may be negative.
        stderr: the same shape: standard errors, before non-negativity was enforced.
        flags: as in a snapshot (`Marginal`), and: ``approximate`` (errors take the cells as
            independent), ``conditional``, ``difference``, ``dependent`` (errors take reports as
            independent, but a device may have reported in several of these windows),
            ``suspicious`` (the raw counts look forged).
        reports: of these windows and groups of devices that speak about the attributes.
        windows: first and last window; of a difference, those it is about and those it subtracts.
        revision: by input partition, the offset up to which the last window's final tables count.
    """

    windows: tuple[Windows, ...]
    revision: Revision

    def more(self) -> dict[str, Any]:
        """Return the further fields of a subclass, JSON-ready."""
        return {}

    def columns(self) -> FrameColumns:
        """Return the columns of a `Table`; what HTML says about it begins with the windows."""
        found = Table.columns(self)
        return found._replace(about=(" minus ".join(map(str, self.windows)), *found.about))
