"""The lineage of a signed plan: a function of the operator's root key and a name."""

from __future__ import annotations

import hashlib

TAG = b"calmstream/lineage/1"


def signed_lineage(root: str, name: str) -> str:
    """Return the lineage: 32 hexadecimal digits.

    The first 16 bytes of the SHA-256 of three fields, each after its length as 4 bytes, big-endian.

    Args:
        root: public root key, 64 hexadecimal digits.
        name: the plan's ``lineage_name``.
    """
    fields = (TAG, bytes.fromhex(root), name.encode())
    framed = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
    return hashlib.sha256(framed).hexdigest()[:32]
