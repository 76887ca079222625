"""RR-Independent: randomised response per attribute; larger tables are products of 1-way tables."""

from __future__ import annotations

from typing import ClassVar

from calmstream.estimators.methods.base import Note, Request
from calmstream.estimators.papers.castell.design import BlockMethod, KeptTables


class RRIndependent(BlockMethod):
    """RR-Independent (``rr-independent``), without parameters; it answers marginals of any size."""

    name: ClassVar[str] = "rr-independent"
    note: ClassVar[Note] = Note(
        "every attribute, each with a part of epsilon",
        "product of single attributes",
        "attributes known to be independent, tables of any size",
        "Domingo-Ferrer, Soria-Comas, TKDE 2022",
        raw=True,
    )
    parameters: ClassVar[tuple[str, ...]] = ()
    scheme: ClassVar[str] = "independent"
    recovery: ClassVar[str] = (
        "larger marginals are products of those, as if attributes were independent"
    )

    def tables(self, request: Request) -> KeptTables:
        cells = sum(request.domain.cardinalities)
        return self.blocks(request), f"counts the 1-way tables only, {cells:,} cells"
