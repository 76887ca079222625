"""Features: a coding of categories in which noise is isotropic and interactions are separate.

A binary attribute has one feature, its sign: +1 for code 0 and -1 for code 1. Other attributes have
one feature for each category. The interaction of a set of attributes is the mean product of their
features. For binary attributes that is a moment, and a Walsh-Hadamard transform of the table gives
all of them. See noise-aware.md, section 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np

from calmstream.estimators.domain import Attributes
from calmstream.estimators.noise_aware.arrays import Flags, Floats


@dataclass(frozen=True)
class Features:
    """The features of all attributes, one after another."""

    cardinalities: tuple[int, ...]  # Number of categories of each attribute, at least 2

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Number of features of each attribute."""
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
    def categories(self) -> Floats:
        """Number of categories of each feature's attribute: shape (size,)."""
        return np.repeat(np.array(self.cardinalities, np.float64), self.widths)

    @cached_property
    def binary(self) -> Flags:
        """Whether each feature belongs to a binary attribute: shape (size,)."""
        return np.asarray(self.categories == 2)

    @cached_property
    def unit(self) -> Floats:
        """Unit of the correlations of each feature, (categories - 1)^-1/4: shape (size,).

        In these units the mean square correlation of two attributes is Tschuprow's T^2, which is at
        most 1 for any numbers of categories.
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
        """Return all interactions of a table over ascending attributes.

        The table is given row-major. The result has one axis for each attribute, of length 1 + its
        width: index 0 sums the attribute out, the others are its features.
        """
        out = table.reshape([self.cardinalities[i] for i in attributes])
        for axis, i in enumerate(attributes):
            basis = np.hstack([np.ones((self.cardinalities[i], 1)), self.codes[i]])
            out = np.moveaxis(np.tensordot(out, basis, (axis, 0)), -1, axis)
        return out

    def variance(self, means: Floats) -> Floats:
        """Return the variance of each feature, given the feature means: shape (..., size) both."""
        r = self.categories
        share = 1.0 / r + means / np.sqrt(r)
        spread = np.where(self.binary, 1.0 - np.square(means), r * share * (1.0 - share))
        return np.asarray(spread, np.float64)

    def margin(self, i: int, means: Floats) -> Floats:
        """Return the table of attribute i: shape (..., categories), of sum 1."""
        r, own = self.cardinalities[i], means[..., self.slices[i]]
        table: Floats = (1.0 + own @ self.codes[i].T) / r if r == 2 else 1.0 / r + own / sqrt(r)
        return table

    def pair(
        self, i: int, j: int, margins: tuple[Floats, Floats], means: Floats, products: Floats
    ) -> Floats:
        """Return the table over attributes i < j: shape (..., r_i, r_j), of sum 1.

        Cells may be negative. ``margins`` are those of `margin`; shapes of the moments are
        (..., size) and (..., size, size).
        """
        (a, b), si, sj = margins, self.slices[i], self.slices[j]
        own = products[..., si, sj] - means[..., si, None] * means[..., None, sj]
        left = self.codes[i] / self.cardinalities[i]
        right = self.codes[j] / self.cardinalities[j]
        table: Floats = a[..., :, None] * b[..., None, :] + left @ own @ right.T
        return table
