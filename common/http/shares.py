"""Limits that peers share, so that one who takes much leaves room for the others."""

from __future__ import annotations

import ipaddress
from collections import Counter

_TIMES_FREE = 3


class Share:
    """A limit of which no peer holds more than three times what is still free.

    One peer alone has three quarters of the limit, n busy peers have 3 / (3n + 1) each, and
    1 / (3n + 1) stays free for others. A proxy in front is one peer.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0
        self._held: Counter[str] = Counter()

    def take(self, peer: str, amount: int = 1) -> bool:
        free, held = self.most - self.used, self._held[peer]
        if amount > free or (held and held + amount > _TIMES_FREE * free):
            return False
        self.used += amount
        self._held[peer] = held + amount
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
