"""Why a question that is well formed has no answer. All are inputs that cannot be used."""

from __future__ import annotations

from calmstream.common.errors import InvalidInput


class NotFinal(InvalidInput):
    """A window is not final yet, or the plan has no such window."""


class NotKept(InvalidInput):
    """The counts of a window are not in the counts topic."""


class NoReports(InvalidInput):
    """The windows received no reports."""
