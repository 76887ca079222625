"""Local mechanisms (frequency oracles), one file each; :mod:`.base` is their contract."""

from estimators.mechanisms.adaptive import adaptive
from estimators.mechanisms.base import Column, Counts, Floats, Mechanism, Reports
from estimators.mechanisms.registry import build, spec

__all__ = ["Column", "Counts", "Floats", "Mechanism", "Reports", "adaptive", "build", "spec"]
