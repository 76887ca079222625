"""Which web pages may send reports: cross-origin resource sharing by a list of origins."""

from __future__ import annotations

import re

from calmstream.common.errors import InvalidInput
from calmstream.common.http.answer import Headers, HttpReply

PREFLIGHT_SECONDS = 86_400
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+")
_VARY: Headers = ((b"vary", b"origin"),)


class Origins:
    """The origins whose pages may send."""

    def __init__(self, text: str) -> None:
        names = text.split()
        for name in names:
            if name != "*" and _ORIGIN.fullmatch(name) is None:
                raise InvalidInput(
                    f"CALMSTREAM_ORIGINS: expected origins such as https://example.org, got {name}"
                )
        self._all = "*" in names
        self._known = frozenset(name.encode() for name in names)

    def headers(self, origin: bytes | None) -> Headers:
        """Return what allows a page to read the answer; nothing for other origins."""
        if not self._known:
            return ()
        exposed = (b"access-control-expose-headers", b"retry-after, etag")
        if self._all:
            return ((b"access-control-allow-origin", b"*"), exposed)
        if origin is None or origin not in self._known:
            return _VARY
        return ((b"access-control-allow-origin", origin), exposed, *_VARY)

    def refuses(self, origin: bytes | None) -> str:
        text = (origin or b"").decode("ascii", "replace")[:100]
        known = self._all or origin is None or origin in self._known
        return "" if known or _ORIGIN.fullmatch(text) is None else text

    def preflight(self, origin: bytes | None, method: str) -> HttpReply:
        """Return the answer to ``OPTIONS``; browsers then send nothing from other origins."""
        common = ((b"allow", f"{method}, OPTIONS".encode()),)
        if not self._all and origin not in self._known:
            return HttpReply(204, b"", common)
        return HttpReply(
            204,
            b"",
            (
                *common,
                (b"access-control-allow-methods", method.encode()),
                (b"access-control-allow-headers", b"content-type, authorization"),
                (b"access-control-max-age", str(PREFLIGHT_SECONDS).encode()),
            ),
        )
