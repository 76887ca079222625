"""Text that people judge by: names, purposes, owners. What they see must be what is there.

Control characters, characters that change the direction or the form of others, and characters that
nobody sees can make two texts look equal, or one look like another. The list is fixed, so that
every version of every language agrees; `edge/typescript/src/text.ts` has the same. Labels of
categories may be any text: :func:`visible` spells them out.
"""

from __future__ import annotations

import re

_ATTACHED = "\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef"
"""Joiners and variation selectors. Persian, Indic scripts and emoji need them after a character of
their own; all these scripts begin at U+0590, after Latin, Greek and Cyrillic. Refused, as other
texts look the same: a selector before a joiner (rainbow flag) or in a keycap, tags (England)."""

_HIDDEN = (
    "\x00-\x1f\x7f-\xa0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200b"
    "\u200e\u200f\u2028-\u202f\u205f-\u206f\u2800\u3164\ud800-\uf8ff\ufeff\uffa0\ufff0-\ufffb"
    "\ufffe\uffff\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e00ff\U000e01f0-\U0010ffff"
)

# Visible characters from U+0590 on: a joiner or selector is seen only directly after one.
_CARRIER = f"[^\\x00-\u058f{_HIDDEN}{_ATTACHED}]"
_UNSEEN = re.compile(f"[{_HIDDEN}]|(?<!{_CARRIER})[{_ATTACHED}]")


def unseen(text: str) -> str | None:
    """Return why people cannot judge by a text, in a few words; None if they can."""
    found = _UNSEEN.search(text)
    if found is None:
        return None
    return f"character {found.start() + 1} is U+{ord(found[0]):04X}, which cannot be seen"


def visible(text: str) -> str:
    r"""Return a text for a terminal: what cannot be seen becomes ``\u{202e}``."""
    return _UNSEEN.sub(lambda found: f"\\u{{{ord(found[0]):x}}}", text)


def plan_name(name: str, digest: str) -> str:
    """Return a plan's name in topics, groups, folders and labels; 128 bits make it unique."""
    return f"{name}-{digest[:32]}"
