"""RR-Joint: randomised response on the record as a whole (Domingo-Ferrer and Soria-Comas)."""

from __future__ import annotations

from typing import ClassVar

from calmstream.estimators.domain import Attributes
from calmstream.estimators.methods.base import Note, Request
from calmstream.estimators.papers.castell.design import BlockMethod


class RRJoint(BlockMethod):
    """RR-Joint (``rr-joint``): all values of a record are one block, with the whole epsilon."""

    name: ClassVar[str] = "rr-joint"
    note: ClassVar[Note] = Note(
        "the whole record as one value, by randomised response",
        "inverse of the channel",
        "to reproduce the papers; records of a handful of values only",
        "Domingo-Ferrer, Soria-Comas, TKDE 2022",
        raw=True,
    )
    scheme: ClassVar[str] = "joint"
    recovery: ClassVar[str] = "tables by the inverse of the randomised response"

    def blocks(self, request: Request) -> tuple[Attributes, ...]:
        return (tuple(range(len(request.domain))),)
