"""Numerical procedures that do not depend on plans; they take arrays and sets of attributes."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Indices = NDArray[np.int64]
