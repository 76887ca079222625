"""Views: what a device reports on, a function from a record to the input of a mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calmstream.common.errors import PlanError
from calmstream.estimators.domain import Attributes, Domain

Kind = Literal["cell", "parity", "character"]


@dataclass(frozen=True, slots=True)
class View:
    """One function of a record, of one of three kinds.

    ``cell``: the cell of the table over ``attributes`` (a marginal).
    ``parity``: the parity of some bits of the codes, which one mask per attribute selects. It is a
    Hadamard coefficient of the binary encoding; input 0 is the sign +1, input 1 the sign -1.
    ``character``: ``sum_j a_j x_j (modulus / r_j) mod modulus``, where x_j is the code of attribute
    j, r_j its number of labels, which divides the modulus, and a_j a factor.
    """

    attributes: Attributes  # strictly ascending
    kind: Kind = "cell"
    factors: tuple[int, ...] = ()  # a positive mask or factor per attribute; none for ``cell``
    modulus: int = 0  # of a character

    def __post_init__(self) -> None:
        if not self.attributes or list(self.attributes) != sorted(set(self.attributes)):
            raise PlanError(
                f"the attributes of a view must ascend without repetition, got {self.attributes}"
            )
        if self.kind == "cell":
            if self.factors or self.modulus:
                raise PlanError("a cell view has no factors and no modulus")
        elif len(self.factors) != len(self.attributes) or min(self.factors) < 1:
            raise PlanError(f"a {self.kind} view needs one positive factor per attribute")
        if (self.kind == "character") != (self.modulus >= 2):
            raise PlanError("a character view needs a modulus of at least 2, other views have none")

    def check(self, domain: Domain) -> None:
        if self.attributes[0] < 0 or self.attributes[-1] >= len(domain):
            raise PlanError(f"view {self.attributes} names an attribute the domain does not have")
        for i, factor in zip(self.attributes, self.factors, strict=False):
            r = domain.cardinalities[i]
            if self.kind == "parity" and factor >= 1 << (r - 1).bit_length():
                raise PlanError(f"parity mask {factor} selects a bit attribute {i} does not have")
            if self.kind == "character" and (self.modulus % r or factor >= r):
                raise PlanError(f"character factor {factor} does not fit attribute {i}")

    def cells(self, domain: Domain) -> int:
        if self.kind == "cell":
            return domain.size(self.attributes)
        return 2 if self.kind == "parity" else self.modulus

    def inputs(self, codes: NDArray[Any], domain: Domain) -> NDArray[np.int64]:
        """Return every record's input: shape (n,), int64."""
        if self.kind == "cell":
            return domain.cells(codes, self.attributes)
        out = np.zeros(len(codes), np.int64)
        for i, factor in zip(self.attributes, self.factors, strict=True):
            if self.kind == "parity":
                out ^= np.bitwise_count(codes[:, i] & np.uint16(factor)) & 1
            else:
                scale = factor * (self.modulus // domain.cardinalities[i])
                out += scale * codes[:, i].astype(np.int64)
        return out if self.kind == "parity" else out % self.modulus

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {"attributes": list(self.attributes)}
        if self.kind != "cell":
            document[self.kind] = list(self.factors)
        if self.modulus:
            document["modulus"] = self.modulus
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> View:
        kinds: list[Kind] = [kind for kind in ("parity", "character") if kind in document]
        if len(kinds) > 1:
            raise PlanError("a view is a parity or a character, not both")
        kind: Kind = kinds[0] if kinds else "cell"
        return cls(
            tuple(document["attributes"]),
            kind,
            tuple(document.get(kind, ())),
            document.get("modulus", 0),
        )
