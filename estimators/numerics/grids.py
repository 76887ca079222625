"""Distributions of positive numbers on grids that are evenly spaced in the logarithm.

The prior scales of a design are learnt on such grids.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LogGrid:
    """A grid of ``count`` points from ``low`` to ``high``, evenly spaced in the logarithm."""

    low: float
    high: float
    count: int

    @cached_property
    def points(self) -> Floats:
        """Shape (count,)."""
        return np.exp(np.linspace(np.log(self.low), np.log(self.high), self.count))

    def log_density(self, scale: Floats) -> Floats:
        """Return the log density of ``log scale``, up to a constant: here it is uniform."""
        return np.zeros_like(scale)

    @cached_property
    def on_grid(self) -> Floats:
        """`log_density` of the grid's points: shape (count,)."""
        return self.log_density(self.points)


@dataclass(frozen=True)
class LogNormal(LogGrid):
    """Prior of a scale whose logarithm is normal about ``log median``, of deviation ``spread``."""

    median: float
    spread: float

    def log_density(self, scale: Floats) -> Floats:
        """Return the log density of ``log scale``, up to a constant."""
        return np.asarray(-0.5 * np.square(np.log(scale / self.median) / self.spread))
