"""The output of ``calmstream analyse --causes``: the hidden causes that the data supports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.text import Text

from calmstream.estimators.marginal import Z95
from calmstream.terminal import grid

MOST_LABELS = 10
"""Labels of a cause that are shown; ``--json`` has all."""

NONE = "no hidden cause is supported: what pairs have in common may be noise"


def render(causes: Sequence[Mapping[str, Any]]) -> Group:
    """Return the causes for people: shares of labels without and with each, in percent."""
    parts: list[Any] = [Text(), Text("Hidden causes", style="bold")]
    if not causes:
        return Group(*parts, Text(NONE, style="dim"))
    for number, cause in enumerate(causes, 1):
        shown = grid("label", right=("without", "with", "95 %"))
        for one in cause["labels"][:MOST_LABELS]:
            shown.add_row(
                f"{one['attribute']}: {one['label']}",
                f"{100.0 * one['without']:.0f}",
                f"{100.0 * one['within']:.0f}",
                f"± {100.0 * Z95 * one['stderr']:.0f}",
            )
        parts += [Text(f"\n{number}. {about(cause)}"), shown]
    return Group(*parts)


def about(cause: Mapping[str, Any]) -> str:
    """Say how many people have a cause, and how sure it is."""
    low, high = (cause["share"] + side * Z95 * cause["stderr"] for side in (-1.0, 1.0))
    share = f"{100.0 * max(low, 0.0):.0f} to {100.0 * min(high, 1.0):.0f} % of all"
    return f"{share}, in {100.0 * cause['agreement']:.0f} % of the model's draws"
