"""The lineage of a signed plan, computed from the operator's root key and a name.

A lineage is a series of plans that share the memory of devices. Because it depends on the root key,
no other operator can issue plans of the same lineage.
"""

from __future__ import annotations

import hashlib

TAG = b"calmstream/lineage/1"
"""First hashed field, so that the hash cannot equal a hash that has another purpose."""


def signed_lineage(root: str, name: str) -> str:
    """Return the lineage: 32 hexadecimal digits.

    It is the first 16 bytes of the SHA-256 of three fields: the tag, the root key and the name.
    Each field follows its length, which has 4 bytes in big-endian order.

    Args:
        root: public root key, 64 hexadecimal digits.
        name: the plan's ``lineage_name``.
    """
    fields = (TAG, bytes.fromhex(root), name.encode())
    framed = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
    return hashlib.sha256(framed).hexdigest()[:32]
