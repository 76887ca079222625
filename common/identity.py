"""How a plan is named in topics, groups, folders and labels."""

DIGITS = 32
"""Hexadecimal digits of a digest in a name: 128 bits, so that a name belongs to one plan."""


def plan_name(name: str, digest: str) -> str:
    """Return the name of a plan together with enough of its digest to be its identity."""
    return f"{name}-{digest[:DIGITS]}"
