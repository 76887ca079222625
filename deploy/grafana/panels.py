"""Panels (title, unit, queries, a description) and the queries that many of them use."""  # noqa: INP001 - a script, not a package

from __future__ import annotations

from dataclasses import dataclass

P = 'plan=~"$plan"'


@dataclass(frozen=True)
class Panel:
    """One panel; ``queries`` are pairs of an expression and a legend."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    description: str
    kind: str = "timeseries"


@dataclass(frozen=True)
class Row:
    """A heading with its panels."""

    title: str
    panels: tuple[Panel, ...]


def rate(metric: str, by: str = "plan") -> str:
    """Return the sum of the rates of a counter."""
    return f"sum by ({by}) (rate(calmstream_{metric}{{{P}}}[$__rate_interval]))"


def highest(metric: str, by: str = "plan") -> str:
    """Return the largest value of a gauge over instances."""
    return f"max by ({by}) (calmstream_{metric}{{{P}}})"


def lowest(metric: str, by: str = "plan") -> str:
    """Return the expression of the lowest value of a gauge."""
    return f"min by ({by}) (calmstream_{metric}{{{P}}})"


def total(metric: str, by: str = "plan") -> str:
    """Return the sum of a gauge over instances."""
    return f"sum by ({by}) (calmstream_{metric}{{{P}}})"


def quantile(q: float, metric: str) -> str:
    """Return a quantile of a histogram."""
    buckets = f"rate(calmstream_{metric}_bucket{{{P}}}[$__rate_interval])"
    return f"histogram_quantile({q}, sum by (plan, le) ({buckets}))"


def mean_so_far(metric: str) -> str:
    """Return the mean of all observations of a histogram since the start, for rare events."""
    return (
        f"sum by (plan) (calmstream_{metric}_sum{{{P}}})"
        f" / sum by (plan) (calmstream_{metric}_count{{{P}}})"
    )


AGE = f"time() - max by (plan) (calmstream_last_snapshot_timestamp_seconds{{{P}}} > 0)"


def of_plan(record: str) -> str:
    """Return a recording rule for the chosen plans."""
    return f"calmstream:{record}{{{P}}}"
