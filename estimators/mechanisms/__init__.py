"""Local mechanisms (frequency oracles), one file each; :mod:`.base` is their contract."""

from estimators.mechanisms.adaptive import adaptive, best_oracle
from estimators.mechanisms.base import Column, Counts, Floats, Mechanism, Reports
from estimators.mechanisms.registry import MECHANISMS, build, spec, standard

__all__ = [
    "MECHANISMS",
    "Column",
    "Counts",
    "Floats",
    "Mechanism",
    "Reports",
    "adaptive",
    "best_oracle",
    "build",
    "spec",
    "standard",
]
