"""The version of the installed distribution."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed


@cache
def version() -> str:
    """Return the version in pyproject.toml; ``unknown`` if the distribution is not installed."""
    try:
        return installed("calmstream")
    except PackageNotFoundError:
        return "unknown"
