"""RR-Joint: randomised response on the record as a whole (Domingo-Ferrer and Soria-Comas)."""

from __future__ import annotations

from typing import ClassVar

from calmstream.estimators.domain import Attributes
from calmstream.estimators.methods.base import Request
from calmstream.estimators.papers.castell.design import BlockMethod


class RRJoint(BlockMethod):
    """The whole record by randomised response; for records of a handful of values only.

    All values of a record are one block, with the whole epsilon.
    """

    name: ClassVar[str] = "rr-joint"
    scheme: ClassVar[str] = "joint"
    recovery: ClassVar[str] = "tables by the inverse of the randomised response"

    def blocks(self, request: Request) -> tuple[Attributes, ...]:
        return (tuple(range(len(request.domain))),)
