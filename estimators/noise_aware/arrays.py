"""Array types of the package."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Flags = NDArray[np.bool_]
Reals = NDArray[np.floating[Any]]
"""Numbers of single or double precision."""
