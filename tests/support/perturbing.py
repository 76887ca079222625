"""The draws and hashes of `docs/perturbing.md`, one at a time, with integers only."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from math import gcd

OTHER = 1 << 32
MASK = OTHER - 1


class Stream:
    """Random bytes that are given beforehand, read from the front."""

    def __init__(self, data: bytes) -> None:
        self.data, self.read = data, 0

    def bytes(self, count: int) -> bytes:
        if self.read + count > len(self.data):
            raise ValueError("the stream is too short")
        self.read += count
        return self.data[self.read - count : self.read]

    def word(self, count: int) -> int:
        return int.from_bytes(self.bytes(count), "little")


def choice(total: int, outcome: Callable[[int], int], number: int, width: int, s: Stream) -> int:
    """Return the choice that the digits determine, beginning with the first digit."""
    bits = width
    while True:
        first = outcome(number * total >> bits)
        if first == outcome(-(-(number + 1) * total >> bits) - 1):
            return first
        number = number << width | s.word(width // 8)
        bits += width


def respond(x: int, cells: int, own: int, stream: Stream) -> int:
    total = own + (cells - 1) * OTHER

    def outcome(place: int) -> int:
        return 0 if place < own else 1 + (place - own) // OTHER

    chosen = choice(total, outcome, stream.word(4), 32, stream)
    return x if chosen == 0 else chosen - 1 + (chosen - 1 >= x)


def coin_bytes(size: int, one: int, zero: int, stream: Stream) -> list[int]:
    common = gcd(one, zero)
    one, zero = one // common, zero // common
    ends = list(accumulate(one ** v.bit_count() * zero ** (8 - v.bit_count()) for v in range(256)))
    found = []
    for start in range(0, size, 1 << 16):
        digits = [stream.word(2) for _ in range(min(1 << 16, size - start))]
        found += [
            choice(ends[-1], lambda place: bisect_right(ends, place), digit, 16, stream)
            for digit in digits
        ]
    return found


def mix(x: int) -> int:
    x ^= x >> 16
    x = x * 0x85EBCA6B & MASK
    x ^= x >> 13
    x = x * 0xC2B2AE35 & MASK
    return x ^ x >> 16


def bucket(seed: int, cell: int, count: int) -> int:
    return mix(seed & MASK ^ mix((cell + 0x9E3779B9) & MASK)) * count >> 32
