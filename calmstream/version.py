"""The version of the installed distribution."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed


def version() -> str:
    """As in pyproject.toml; ``unknown`` when run from a tree that was never installed."""
    try:
        return installed("calmstream")
    except PackageNotFoundError:
        return "unknown"
