"""Text for people, as wide as the terminal."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable

from calmstream.terminal import Console

PIPED = 120
"""Columns where no terminal shows the text."""


def as_text(write: Callable[[Console], None], piped: int = PIPED) -> bytes:
    """Return what a function prints on a console."""
    width, _ = shutil.get_terminal_size((piped, 0))
    console = Console(file=io.StringIO(), width=width, highlight=False)
    with console.capture() as text:
        write(console)
    return text.get().encode()
