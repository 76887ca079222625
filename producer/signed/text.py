"""Parts that certificates and envelopes share: keys as text, strict base64, canonical JSON."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

import orjson

KEY = re.compile(r"[0-9a-f]{64}")  # a public key


def to_base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def from_base64(text: str) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError("not base64") from None
    if base64.b64encode(raw) != text.encode():
        raise ValueError("base64 in another spelling")
    return raw


def canonical(document: Any) -> bytes:
    """Return canonical JSON: with sorted keys and without spaces, so that it can be signed."""
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
