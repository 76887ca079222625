"""Tests whether the records of two sets of windows, or of two plans, have the same distribution.

All tests use raw counts: fitted tables are shrunk and clipped, so tests on them have neither size
nor power. docs/changes.md has the derivations.

``basis``: the interactions of a table. ``source``: counts of one side, view by view. ``evidence``:
what a view says about the interactions. ``fit``: generalised least squares over all views.
``homogeneity`` and ``dependence``: the two tests.
``compare``: all tables of two sources. ``power``: the smallest shift that a test finds.
"""

from calmstream.estimators.changes.compare import ComparedTable, Comparison, compare
from calmstream.estimators.changes.source import Source, source

__all__ = ["ComparedTable", "Comparison", "Source", "compare", "source"]
