"""Limits that peers share, so that one who takes much leaves room for the others."""

from __future__ import annotations

import ipaddress
from collections import Counter

_TIMES_FREE = 3


class Share:
    """A limit of which a peer may take until it holds three times what it leaves free.

    So one peer has three quarters, n busy ones have 3 / (3n + 1) each, and 1 / (3n + 1) stays free.
    Where nobody holds anything, a peer may take all; where it has nothing itself, the last unit. A
    proxy in front is one peer.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0
        self._held: Counter[str] = Counter()

    def take(self, peer: str, amount: int = 1) -> bool:
        left, holds = self.most - self.used - amount, self._held[peer] + amount
        if left < 0 or (self.used and holds > max(_TIMES_FREE * left, 1)):
            return False
        self.used += amount
        self._held[peer] = holds
        return True

    def give_back(self, peer: str, amount: int = 1) -> None:
        self.used -= amount
        self._held[peer] -= amount
        if not self._held[peer]:
            del self._held[peer]  # strangers choose their addresses


def peer_of(client: tuple[str, int] | None) -> str:
    """Return whom an address belongs to: an IPv4 address, or a network of 64 bits of IPv6."""
    if client is None:
        return ""
    try:
        address = ipaddress.ip_address(client[0].partition("%")[0])
    except ValueError:
        return client[0]
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
