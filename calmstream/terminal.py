"""The console of all pages: labels and names act on nobody's terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import rich.console
from rich.segment import Segment
from rich.text import Text

from calmstream.common.text import visible


class Console(rich.console.Console):
    """A console that shows labels and names as they are: nothing in them acts on the terminal."""

    def render_str(self, text: str, **given: Any) -> Text:
        """Return a text with its markup; see the base class."""
        return super().render_str(_safe(text), **given)

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        """Render as usual; see the base class."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else _safe(text), style, control)


def _safe(text: str) -> str:
    return "\n".join(map(visible, text.split("\n")))
