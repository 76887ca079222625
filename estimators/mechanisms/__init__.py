"""Local mechanisms (frequency oracles): how one input becomes one perturbed report.

Each mechanism has one file; :mod:`.base` is their contract and :mod:`.registry` lists them by the
names that plans use. Every fact that other packages need about a mechanism is a member of the
contract. The formulas are in docs/methods/mechanisms.md.
"""

from calmstream.estimators.mechanisms.adaptive import adaptive, best_oracle
from calmstream.estimators.mechanisms.base import Column, Counts, Floats, Mechanism, Reports
from calmstream.estimators.mechanisms.registry import MECHANISMS, build, spec, standard

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
