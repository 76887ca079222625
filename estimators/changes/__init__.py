"""Tests whether the records of two sets of windows, or of two plans, have the same distribution.

All use raw counts: fitted tables are shrunk and clipped, so tests on them have neither size nor
power. docs/changes.md has the derivations.
"""

from calmstream.estimators.changes.compare import ComparedTable, Comparison, compare
from calmstream.estimators.changes.source import Source, source

__all__ = ["ComparedTable", "Comparison", "Source", "compare", "source"]
