"""Perturb as a device does, by `docs/perturbing.md`, with integers only and without numpy.

It handles one report and one bit at a time, so it is slow but easy to check. It shares no code with
the product.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from decimal import ROUND_FLOOR, Context, Decimal
from itertools import accumulate
from math import gcd, prod
from typing import Any

OTHER = 1 << 32
MASK = OTHER - 1
_FLOOR = Context(prec=60, rounding=ROUND_FLOOR)


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


def weight(epsilon: str, parts: int = 1) -> int:
    exponent = _FLOOR.divide(Decimal(epsilon), Decimal(parts))
    power = _FLOOR.next_minus(_FLOOR.exp(exponent))
    return int(_FLOOR.multiply(power, Decimal(OTHER)).to_integral_value(ROUND_FLOOR))


def uniform(bound: int, stream: Stream) -> int:
    if bound & (bound - 1) == 0:
        return stream.word(next(b for b in (1, 2, 4, 8) if bound <= 1 << 8 * b)) % bound
    size = 4 if bound <= 1 << 16 else 8
    while True:
        word = stream.word(size)
        if word < (1 << 8 * size) // bound * bound:
            return word % bound


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


def coin_row(bits: int, one: int, zero: int, stream: Stream) -> list[int]:
    packed = coin_bytes(-(-bits // 8), one, zero, stream)
    return [packed[i // 8] >> i % 8 & 1 for i in range(bits)]


def coin(one: int, zero: int, stream: Stream) -> int:
    return coin_bytes(1, one, zero, stream)[0] >> 7


def mix(x: int) -> int:
    x ^= x >> 16
    x = x * 0x85EBCA6B & MASK
    x ^= x >> 13
    x = x * 0xC2B2AE35 & MASK
    return x ^ x >> 16


def bucket(seed: int, cell: int, count: int) -> int:
    return mix(seed & MASK ^ mix((cell + 0x9E3779B9) & MASK)) * count >> 32


def parity(n: int) -> int:
    return n.bit_count() & 1


def digits(x: int, axes: list[int]) -> list[int]:
    found = []
    for r in reversed(axes):
        x, digit = divmod(x, r)
        found.append(digit)
    return found[::-1]


def grr(m: Mapping[str, Any], epsilon: str, x: int, s: Stream) -> dict[str, Any]:
    return {"v": respond(x, m["cells"], weight(epsilon), s)}


def oue(m: Mapping[str, Any], epsilon: str, x: int, s: Stream) -> dict[str, Any]:
    row = coin_row(m["cells"], OTHER, weight(epsilon), s)
    row[x] = s.word(1) >> x % 8 & 1
    return {"b": row}


def sue(m: Mapping[str, Any], epsilon: str, x: int, s: Stream) -> dict[str, Any]:
    half = weight(epsilon, 2)
    row = coin_row(m["cells"], OTHER, half, s)
    row[x] = coin(half, OTHER, s)
    return {"b": row}


def olh(m: Mapping[str, Any], epsilon: str, x: int, s: Stream) -> dict[str, Any]:
    seed = uniform(1 << m["seed_bits"], s)
    own = bucket(seed, x, m["buckets"])
    return {"s": seed, "y": respond(own, m["buckets"], weight(epsilon), s)}


def hadamard_response(m: Mapping[str, Any], epsilon: str, x: int, s: Stream) -> dict[str, Any]:
    row = uniform(1 << (m["cells"] - 1).bit_length(), s)
    return {"r": row, "s": parity(row & x) ^ coin(OTHER, weight(epsilon), s)}


def hadamard_coefficient(m: Mapping[str, Any], epsilon: str, x: int, s: Stream) -> dict[str, Any]:
    assert m["cells"] == 2
    return {"s": x ^ coin(OTHER, weight(epsilon), s)}


def hadamard_sketch(m: Mapping[str, Any], epsilon: str, x: int, s: Stream) -> dict[str, Any]:
    which = uniform(m["hashes"], s)
    row = uniform(m["buckets"], s)
    sign = parity(row & bucket(mix(m["seed"] + which & MASK), x, m["buckets"]))
    return {"h": which, "r": row, "s": sign ^ coin(OTHER, weight(epsilon), s)}


def subset_selection(m: Mapping[str, Any], epsilon: str, x: int, s: Stream) -> dict[str, Any]:
    cells, size = m["cells"], m["size"]
    certain = (weight(epsilon) - OTHER) * size
    keep = uniform(certain + OTHER * cells, s) < certain
    held: set[int] = set()
    for last in range(cells - size, cells):
        drawn = uniform(last + 1, s)
        if drawn in held or (last == cells - 1 and keep):
            drawn = last
        held.add(drawn)
    inside = {(x + 1 + position) % cells for position in held}
    return {"b": [int(c in inside) for c in range(cells)]}


def product_grr(m: Mapping[str, Any], epsilon: str, x: int, s: Stream) -> dict[str, Any]:
    axes = m["axes"]
    codes = digits(x, axes)
    found = {}
    for b, block in enumerate(m["blocks"]):
        cell = 0
        for i in block:
            cell = cell * axes[i] + codes[i]
        common = gcd(len(block), len(axes))
        power = len(block) // common
        own = weight(epsilon, len(axes) // common) ** power >> 32 * (power - 1)
        found[f"x{b}"] = respond(cell, prod(axes[i] for i in block), own, s)
    return found


def bloom_filter(m: Mapping[str, Any], axis: int, value: int) -> list[int]:
    places = {bucket(axis * m["hashes"] + j, value, m["bits"]) for j in range(m["hashes"])}
    return [int(i in places) for i in range(m["bits"])]


def bloom_rr(m: Mapping[str, Any], epsilon: str, x: int, s: Stream) -> dict[str, Any]:
    distance = 0
    for i, r in enumerate(m["axes"]):
        rows = [bloom_filter(m, i, v) for v in range(r)]
        distance += max(
            sum(a != b for a, b in zip(one, two, strict=True)) for one in rows for two in rows
        )
    own = weight(epsilon, distance)
    found = {}
    for i, code in enumerate(digits(x, m["axes"])):
        flips = coin_row(m["bits"], OTHER, own, s)
        filtered = bloom_filter(m, i, code)
        found[f"b{i}"] = [a ^ b for a, b in zip(filtered, flips, strict=True)]
    return found


MECHANISMS: dict[str, Callable[[Mapping[str, Any], str, int, Stream], dict[str, Any]]] = {
    "grr": grr,
    "oue": oue,
    "sue": sue,
    "olh": olh,
    "hadamard-response": hadamard_response,
    "hadamard-coefficient": hadamard_coefficient,
    "hadamard-sketch": hadamard_sketch,
    "subset-selection": subset_selection,
    "product-grr": product_grr,
    "bloom-rr": bloom_rr,
}
"""One report of every mechanism: document, epsilon, input and stream; bits as lists of 0 and 1."""


def perturb(document: Mapping[str, Any], epsilon: str, x: int, stream: Stream) -> dict[str, Any]:
    return MECHANISMS[document["name"]](document, epsilon, x, stream)
