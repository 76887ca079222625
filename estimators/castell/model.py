"""Answers of the Castell methods: marginals from the tally of a product mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from estimators.castell import schemes
from estimators.errors import InvalidInput
from estimators.marginal import Marginal, is_noise, uniform
from estimators.numerics.block_inverse import channels

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from estimators.castell.schemes import Estimate, Floats
    from estimators.domain import Attributes, Domain
    from estimators.mechanisms.product_grr import ProductGRR
    from estimators.numerics.block_inverse import AxisChannel
    from estimators.tally import Counts

    Scheme = Callable[[Floats, Sequence[AxisChannel], int], Estimate]

MAX_QUERY_CELLS = 1 << 22
"""Largest table that is answered."""

SCHEMES: Mapping[str, Scheme] = {
    "joint": schemes.joint,
    "hybrid": schemes.hybrid,
    "truncated": schemes.truncated,
}


PROCESSING: Mapping[str, tuple[str, ...]] = {
    "joint": ("axis-wise inverse",),
    "independent": ("inverse per block", "product across blocks"),
    "hybrid": ("axis-wise inverse or product of 1-way inverses, by predicted error",),
    "truncated": ("axis-wise inverse", "negatives to 0", "capped by the (w-1)-way estimates"),
}


class ProductModel:
    """Answers marginals by one scheme; see :class:`estimators.methods.base.Model`.

    Attributes:
        processing: the steps from raw counts to answers.
    """

    def __init__(
        self, domain: Domain, mechanism: ProductGRR, counts: Counts, n: int, scheme: str
    ) -> None:
        """Keep the counters of one window or total; ``counts`` has shape (width,)."""
        self._domain = domain
        self._mechanism = mechanism
        self._counts = counts
        self._n = n
        self._scheme = scheme
        self.processing = PROCESSING[scheme]

    def marginal(self, attributes: Attributes) -> Marginal:
        """Return the scheme's estimate: flag ``raw`` always, since no scheme normalises.

        ``covered`` where the joint channel was inverted, ``maxent`` where blocks were multiplied,
        ``noise`` where the noise floor leaves nothing to say: a hopeless joint estimate.

        Raises:
            InvalidInput: the plan keeps no table that this marginal can be read from, or it has
                more than 2^22 cells.
        """
        cells = self._domain.size(attributes)
        if cells > MAX_QUERY_CELLS:
            raise InvalidInput(f"a table of {cells:,} cells; at most {MAX_QUERY_CELLS:,} are made")
        self._check(attributes)
        if self._n == 0:
            return uniform(attributes, cells)
        found = self._estimate(attributes)
        flags = ["covered" if found.joint else "maxent", "raw"]
        if found.clipped:
            flags.append("clipped")
        stderr = np.sqrt(found.variance)
        if is_noise(found.table, stderr):
            flags.append("noise")
        return Marginal(
            attributes,
            found.table.reshape(-1),
            stderr.reshape(-1),
            self._n,
            tuple(flags),
        )

    def _estimate(self, attributes: Attributes) -> Estimate:
        if self._scheme == "independent":
            return schemes.multiply(self._parts(attributes))
        factors = channels(self._mechanism, attributes)
        return SCHEMES[self._scheme](self._observed(attributes), factors, self._n)

    def _parts(self, attributes: Attributes) -> list[Estimate]:
        """Return each block's estimate, from a table that holds it, broadcast to the query."""
        shape = self._domain.shape(attributes)
        parts = []
        for block in self._mechanism.blocks:
            own = tuple(i for i in attributes if i in block)
            if own:
                found = schemes.joint(self._observed(own), channels(self._mechanism, own), self._n)
                wide = [r if i in own else 1 for i, r in zip(attributes, shape, strict=True)]
                table, variance = found.table.reshape(wide), found.variance.reshape(wide)
                parts.append(schemes.Estimate(table, variance, joint=True))
        return parts

    def _observed(self, attributes: Attributes) -> Floats:
        return self._mechanism.layout.read(self._counts, attributes) / self._n

    def _check(self, attributes: Attributes) -> None:
        needed = [attributes]
        if self._scheme == "independent":
            own = (tuple(i for i in attributes if i in b) for b in self._mechanism.blocks)
            needed = [block for block in own if block]
        for held in needed:
            if self._mechanism.layout.holder(held) is None:
                names = ", ".join(self._domain.names[i] for i in held)
                raise InvalidInput(f"the plan keeps no table that holds {names}: use `tables`")
