"""The console of all pages; control characters in labels and names are made visible."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import rich.console
from rich.segment import Segment
from rich.table import Table

from calmstream.common.text import visible


class Console(rich.console.Console):
    """A console that shows labels and names as they are: nothing in them acts on the terminal."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**{"highlight": False, "markup": False, "emoji": False} | given)

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        if isinstance(renderable, str):
            renderable = _safe(renderable)
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else _safe(text), style, control)

    def render_str(self, text: str, **given: Any) -> Any:
        return super().render_str(_safe(text), **given)


def grid(*left: str, right: Iterable[str] = ()) -> Table:
    """Return an empty table without lines: columns of texts, then columns of numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold cyan")
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _safe(text: str) -> str:
    return "\n".join(map(visible, text.split("\n")))
