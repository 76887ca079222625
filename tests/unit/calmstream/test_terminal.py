from __future__ import annotations

import io

from rich.table import Table
from rich.text import Text

from calmstream.terminal import Console

HOSTILE = "a\x1b[2J\u202eb\u200bc\x9bd"


def shown(renderable: object) -> str:
    console = Console(file=io.StringIO(), width=100, force_terminal=True, color_system="standard")
    console.print(renderable, style="red")
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def test_what_cannot_be_seen_is_spelled_out() -> None:
    table = Table(HOSTILE)
    table.add_row(HOSTILE)
    for renderable in (HOSTILE, Text(HOSTILE), table):
        text = shown(renderable)
        assert not {"\u202e", "\u200b", "\x9b"} & {*text}
        assert "\x1b[2J" not in text
        assert "u{1b}" in Text.from_ansi(text).plain.replace("\n", "")


def test_lines_and_colours_stay() -> None:
    assert shown("a\nb") == "\x1b[31ma\x1b[0m\n\x1b[31mb\x1b[0m\n"
