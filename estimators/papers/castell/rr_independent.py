"""RR-Independent: randomised response per attribute; larger tables are products of 1-way tables."""

from __future__ import annotations

from typing import ClassVar

from calmstream.estimators.methods.base import Request
from calmstream.estimators.papers.castell.design import BlockMethod, KeptTables


class RRIndependent(BlockMethod):
    """Every attribute with a part of epsilon; products of single attributes, of any size.

    It has no parameters.
    """

    name: ClassVar[str] = "rr-independent"
    parameters: ClassVar[tuple[str, ...]] = ()
    scheme: ClassVar[str] = "independent"
    recovery: ClassVar[str] = (
        "larger marginals are products of those, as if attributes were independent"
    )

    def tables(self, request: Request) -> KeptTables:
        cells = sum(request.domain.cardinalities)
        return self.blocks(request), f"counts the 1-way tables only, {cells:,} cells"
