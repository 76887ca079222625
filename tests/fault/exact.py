"""A mechanism without noise, for tests only: exact counts show every lost or repeated report.

It gives no privacy, so it is not in the registry, and a plan document with it is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from calmstream.estimators.mechanisms.base import Column, Covariance
from calmstream.estimators.mechanisms.covariance import one_cell_covariance, sum_out
from calmstream.estimators.plan import Plan


@dataclass(frozen=True)
class Exact:
    name: ClassVar[str] = "exact"
    largest_count: ClassVar[int] = 1
    fixed_total: ClassVar[bool] = True
    epsilon: str
    cells: int

    @property
    def width(self) -> int:
        return self.cells

    @property
    def columns(self) -> tuple[Column, ...]:
        return (Column("v", "int", self.cells),)

    def parameters(self) -> dict[str, Any]:
        return {}

    def perturb(self, values: Any, _randomness: Any) -> dict[str, Any]:
        return {"v": np.asarray(values)}

    def tally(self, reports: Any, view: Any, views: int) -> Any:
        place = np.asarray(reports["v"], np.int64)
        if view is not None:
            place = place + np.asarray(view, np.int64) * self.cells
        return np.bincount(place, minlength=views * self.cells).reshape(views, self.cells)

    def estimate(self, counts: Any, n: int) -> Any:
        return np.asarray(counts, np.float64) / max(n, 1)

    def variance(self, _n: int, _frequencies: Any = None) -> Any:
        return np.zeros(self.cells)

    def covariance(self, n: int, frequencies: Any) -> Covariance:
        return one_cell_covariance(1.0, 0.0, n, frequencies)

    def holds(self, _axes: Any) -> bool:
        return True

    def table(self, counts: Any, n: int, shape: Any, axes: Any) -> Any:
        return sum_out(self.estimate(counts, n), shape, axes)

    def table_covariance(self, n: int, expected: Any, _shape: Any, _axes: Any) -> Any:
        return (np.diag(expected) - np.outer(expected, expected)) / n

    def rarest(self, expected: Any, _shape: Any, _axes: Any) -> float:
        return float(np.minimum(expected, 1 - np.asarray(expected)).min())


def without_noise(plan: Plan) -> Plan:
    """Return the plan with mechanisms without noise; its document and digest do not change."""
    exact = tuple(Exact(m.epsilon, m.cells) for m in plan.mechanisms)
    plan.__dict__["mechanisms"] = exact
    return plan
