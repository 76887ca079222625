"""A coding of categories in which noise is isotropic and a table splits into its interactions.

A binary attribute has one feature, +1 for code 0 and -1 for code 1. One with r > 2 categories has
r, ``sqrt(r) (1[x = c] - 1/r)``: one redundant, but all alike. With ``t`` a table over A and
``theta_S`` the mean of the product of the features of S, ``t = sum over S in A of theta_S
features_S / cells`` and ``sum t^2 = sum over S of |theta_S|^2 / cells`` (Efron and Stein's
decomposition under the uniform measure; for binary attributes the Hadamard transform).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from estimators.domain import Attributes

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Features:
    """The features of all attributes, one after another.

    Attributes:
        cardinalities: number of categories of each attribute, at least 2.
    """

    cardinalities: tuple[int, ...]

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Features per attribute."""
        return tuple(1 if r == 2 else r for r in self.cardinalities)

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """Positions of each attribute's features."""
        ends = np.cumsum(self.widths).tolist()
        return tuple(slice(e - w, e) for e, w in zip(ends, self.widths, strict=True))

    @cached_property
    def size(self) -> int:
        """Number of features in all."""
        return sum(self.widths)

    @cached_property
    def owner(self) -> NDArray[np.int64]:
        """Attribute of each feature: shape (size,)."""
        return np.repeat(np.arange(len(self.cardinalities)), self.widths)

    @cached_property
    def crossed(self) -> NDArray[np.bool_]:
        """Whether two features belong to different attributes: shape (size, size)."""
        mask: NDArray[np.bool_] = self.owner[:, None] != self.owner[None]
        return mask

    @cached_property
    def categories(self) -> Floats:
        """Number of categories of each feature's attribute: shape (size,)."""
        return np.array(self.cardinalities, np.float64)[self.owner]

    @cached_property
    def binary(self) -> NDArray[np.bool_]:
        """Which features belong to binary attributes: shape (size,)."""
        mask: NDArray[np.bool_] = self.categories == 2
        return mask

    @cached_property
    def unit(self) -> Floats:
        """What a category's correlations are counted in, (categories - 1)^-1/4: shape (size,).

        Pearson's phi^2 of two attributes is the sum over cells of ``(1 - p)(1 - q)`` times squared
        correlation, weights that sum to ``(r - 1)(r' - 1)``. So the mean square in these units is
        ``phi^2 / sqrt((r - 1)(r' - 1))``, Tschuprow's T^2, which is at most 1 whatever r and r'.
        """
        return np.asarray((self.categories - 1.0) ** -0.25, np.float64)

    @cached_property
    def codes(self) -> tuple[Floats, ...]:
        """Feature values of each attribute's categories: shape (categories, width) each."""
        return tuple(
            np.array([[1.0], [-1.0]]) if r == 2 else sqrt(r) * (np.eye(r) - 1.0 / r)
            for r in self.cardinalities
        )

    def interactions(self, attributes: Attributes, table: Floats) -> Floats:
        """All interactions of a table at once.

        Args:
            attributes: of the table, ascending.
            table: shape (cells,), row-major.

        Returns:
            Shape (1 + width of each attribute): index 0 along an axis sums the attribute out, the
            others are its features.
        """
        out = table.reshape([self.cardinalities[i] for i in attributes])
        for axis, i in enumerate(attributes):
            basis = np.hstack([np.ones((self.cardinalities[i], 1)), self.codes[i]])
            out = np.moveaxis(np.tensordot(out, basis, (axis, 0)), -1, axis)
        return out

    def variance(self, means: Floats) -> Floats:
        """Variance of each feature, given the feature means: shape (..., size) both."""
        share = 1.0 / self.categories + means / np.sqrt(self.categories)
        spread = np.where(
            self.binary, 1.0 - np.square(means), self.categories * share * (1.0 - share)
        )
        return np.asarray(spread, np.float64)

    def margin(self, i: int, means: Floats) -> Floats:
        """The attribute's table from the feature means: shape (..., categories), sums to 1."""
        own = means[..., self.slices[i]]
        table: Floats = (1.0 + own @ self.codes[i].T) / self.cardinalities[i]
        if self.cardinalities[i] > 2:
            table = 1.0 / self.cardinalities[i] + own / sqrt(self.cardinalities[i])
        return table

    def pair(
        self, i: int, j: int, margins: tuple[Floats, Floats], means: Floats, products: Floats
    ) -> Floats:
        """The table over attributes i < j from means and mean products of features.

        Args:
            i: first attribute.
            j: second attribute.
            margins: theirs, as `margin` makes them of these means.
            means: shape (..., size).
            products: shape (..., size, size).

        Returns:
            Shape (..., categories of i, categories of j); sums to 1, may be negative.
        """
        a, b = margins
        si, sj = self.slices[i], self.slices[j]
        own = products[..., si, sj] - means[..., si, None] * means[..., None, sj]
        left = self.codes[i] / self.cardinalities[i]
        right = self.codes[j] / self.cardinalities[j]
        table: Floats = a[..., :, None] * b[..., None, :] + left @ own @ right.T
        return table


def cells_of(cardinalities: Sequence[int], attributes: Attributes) -> int:
    """Number of cells of the table over ``attributes``."""
    return int(np.prod([cardinalities[i] for i in attributes]))
