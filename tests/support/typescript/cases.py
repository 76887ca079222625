"""Cases for edges in other languages: plan, secret, record and random bytes; Python's report.

Rare paths are common: words that are thrown away, digits after which another one is needed.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TextIO

import numpy as np

from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.draws import _coin_table
from calmstream.estimators.hashed import Hashed
from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.mechanisms.registry import build, standard
from calmstream.estimators.plan import Group, Guarantee, Plan
from calmstream.estimators.view import View
from calmstream.producer.device.assignment import place
from calmstream.producer.device.ledger import DeviceState
from calmstream.producer.device.policy import Policy
from calmstream.producer.device.reporter import Reporter
from calmstream.producer.device.store import MemoryStore

OTHER = 1 << 32
WINDOW = 60
EPSILONS = ("0.1", "1", "2.5", "8")
GENEROUS = Policy(report_epsilon="128", span_epsilon="128")

Document = dict[str, Any]

RECORD = {"axes": [2, 3, 5, 4], "cells": 120}
SPECS: dict[str, list[tuple[Document, list[int]]]] = {
    "grr": [({"cells": n}, [n]) for n in (2, 3, 64, 1000)]
    + [({"cells": 60}, [3, 4, 5]), ({"cells": 12}, [3, 4, 6])],
    "oue": [({"cells": n}, [n]) for n in (2, 7, 8, 64, 999)],
    "sue": [({"cells": n}, [n]) for n in (2, 9, 64)],
    "olh": [
        ({"cells": 5, "buckets": 3, "seed_bits": 5}, [5]),
        ({"cells": 600, "buckets": 4, "seed_bits": 32}, [20, 30]),
        ({"cells": 40, "buckets": 1000, "seed_bits": 17}, [40]),
    ],
    "hadamard-coefficient": [({"cells": 2}, [2]), ({"cells": 2}, [5, 3, 8])],
    "hadamard-response": [({"cells": n}, [n]) for n in (2, 4, 5, 700)],
    "hadamard-sketch": [
        ({"cells": 5, "hashes": 2, "buckets": 4, "seed": 7}, [5]),
        ({"cells": 3000, "hashes": 5, "buckets": 256, "seed": 2**32 - 2}, [50, 60]),
    ],
    "subset-selection": [
        ({"cells": 6, "size": 2}, [6]),
        ({"cells": 9, "size": 8}, [9]),
        ({"cells": 200, "size": 43}, [200]),
    ],
    "product-grr": [
        ({**RECORD, "blocks": [[0], [1], [2], [3]], "tables": [[0, 1], [2, 3]]}, [2, 3, 5, 4]),
        ({**RECORD, "blocks": [[0, 2, 3], [1]], "tables": [[0]]}, [2, 3, 5, 4]),
        ({**RECORD, "blocks": [[0, 1, 2, 3]], "tables": [[3]]}, [2, 3, 5, 4]),
        (
            {"cells": 40**9, "axes": [40] * 9, "blocks": [[0, 8], *([i] for i in range(1, 8))],
             "tables": [[0, 1]]},
            [40] * 9,
        ),
    ],
    "bloom-rr": [
        ({"cells": 6, "axes": [2, 3], "bits": 6, "hashes": 2, "tables": [[0, 1]]}, [2, 3]),
        ({"cells": 600, "axes": [20, 30], "bits": 64, "hashes": 5, "tables": [[0], [1]]}, [20, 30]),
    ],
}  # fmt: skip
"""Per mechanism: its fields, and the cardinalities of the attributes that a view names."""


KINDS: list[Document] = [
    {
        "name": "größe", "kind": "number", "unit": "µs", "edges": ["-1.5", "0.1", "3"],
        "below": True, "above": True, "rounding": "bin", "other": "?",
    },
    {"name": "age", "kind": "number", "unit": "", "edges": ["0", "1", "2.5"], "rounding": "grid"},
    {"name": "apps", "kind": "choices", "options": ["mail", "maps"], "other": "maps"},
    {"name": "size", "kind": "ordered", "labels": ["s", "m", "l"], "other": "s"},
    {"name": "cost", "kind": "number", "unit": "", "edges": ["0", "1", "4"],
     "below": False, "above": False, "rounding": "bin"},
]  # fmt: skip
"""Attributes of every kind, with 5, 3, 2, 2, 3 and 2 codes."""

HASHED = "hashed"  # in place of a mechanism: an attribute of hashes
TEXTS: list[Any] = [
    *("null pointer", "e\u0301", "\u00e9", "\U0001f600", "1\u2044 2", "", "\ud800", 1, None, ["a"]),
    *("x" * 1024, "x" * 1025, "é" * 512, "é" * 513),
]
"""Texts, some of which do not count."""

VALUES: list[Any] = [
    *(-1.5, -1.4999999999999998, 0, -0.0, 0.1, 0.09999999999999999, 0.3, 0.5, 1, 1.7, 2.5, 3, 7),
    *(1e300, -1e300, 2**53, 10**15, "1", "s", "mail", True, None, {}, []),
    *(["mail"], ["maps", "x"], ["x"], ["mail", 3, None], ["mail", "maps"]),
]
"""Values of records of these attributes, most of which fit some of them."""


def plans(name: str) -> list[Plan]:
    """Plans of one mechanism each: every field and epsilon, both guarantees, all kinds of views."""
    if name == HASHED:
        return [_hashed()]
    found = [
        _plan(name, fields, _labelled(cardinalities), epsilon, once=(i + j) % 2 == 0)
        for i, (fields, cardinalities) in enumerate(SPECS[name])
        for j, epsilon in enumerate(EPSILONS)
    ]
    if name == "grr":
        found.append(_plan(name, {"cells": 360}, _kinds(), "8", once=True))
    return found


def _hashed() -> Plan:
    """Return a plan that asks for texts only, but for its first group."""
    text = {"name": "text", "kind": "hashed", "buckets": 5, "hashes": 10}
    views = tuple(View((j,)) for j in range(1, 11))
    domain = Domain.from_json([{"name": "häufig 0", "labels": ["0", "1", "2", "3"]}, text])
    plan = _plan("grr", {"cells": 2}, _labelled([2]), "1", once=False)
    asked = Group(standard("grr", "1", 5), views, (10,) * 10)
    return replace(plan, domain=domain, groups=(plan.groups[1], asked))


def _kinds() -> Domain:
    first = {"name": "häufig 0", "labels": ["0", "1", "2", "3"]}
    return Domain.from_json([first, *KINDS])


def _labelled(cardinalities: Sequence[int]) -> Domain:
    return Domain(
        tuple(
            # An attribute in two has a code for unknown labels.
            Attribute(
                f"häufig {j}", tuple(str(c) for c in range(r)), other=r - 1 if j % 2 else None
            )
            for j, r in enumerate((4, *cardinalities))
        )
    )


def _plan(name: str, fields: Document, domain: Domain, epsilon: str, *, once: bool) -> Plan:
    views = _views(domain, tuple(range(1, len(domain))), int(fields["cells"]))
    group = Group(build({"name": name, **fields}, epsilon), views, tuple(range(1, len(views) + 1)))
    return Plan(
        name="conformance", purpose="testing", owner="tests", lineage="5d0f2c9b" * 4,
        domain=domain, epsilon=epsilon, k=1, method="calm", parameters={},
        groups=(group, Group(standard("grr", "1", 4), (View((0,)),), (1,))),
        start=1_700_000_000, expires=1_700_000_000 + 40 * WINDOW, window=WINDOW, users=100,
        marginals=((0,),), guarantee=Guarantee() if once else Guarantee("w-event", 4),
    )  # fmt: skip


def _views(domain: Domain, asked: tuple[int, ...], cells: int) -> tuple[View, ...]:
    """The views of a group: cells where they fit, otherwise parities or a character."""
    if domain.size(asked) == cells:
        return (View(asked),)
    if cells == 2:
        return (View(asked, "parity", (1,) * len(asked)), View(asked[-1:], "parity", (2,)))
    factors = tuple(domain.cardinalities[j] - 1 for j in asked)
    return (View(asked, "character", factors, cells),)


@dataclass
class Stream:
    """Random bytes with rare words made common; keeps what was read."""

    generator: np.random.Generator
    words: Sequence[int]  # digits of 32 bits near the ends of intervals
    digits: Sequence[int]  # digits of 16 bits that leave several values of a byte of coins
    read: bytearray

    def bytes(self, count: int) -> bytes:
        data = self._rare(count) if self.generator.random() < 0.25 else self.generator.bytes(count)
        self.read += data
        return data

    def _rare(self, count: int) -> bytes:
        if count == 4 and self.words and self.generator.random() < 0.7:
            return int(self.generator.choice(self.words)).to_bytes(4, "little")
        if count == 8 and self.generator.random() < 0.5:
            return b"\xff" * 8
        data = bytearray(self.generator.bytes(count))
        if self.digits and count % 2 == 0:
            for i in range(0, count, 2):
                if self.generator.random() < 0.2:
                    data[i : i + 2] = int(self.generator.choice(self.digits)).to_bytes(2, "little")
        elif self.generator.random() < 0.3:
            return b"\xff" * count
        return bytes(data)


def rare_words(mechanism: Mechanism) -> list[int]:
    """Digits of 32 bits at which a response may need another one, and words thrown away."""
    weights = getattr(mechanism, "weights", None) or [getattr(mechanism, "weight", OTHER)]
    sizes = getattr(mechanism, "block_cells", None) or [
        getattr(mechanism, "buckets", mechanism.cells)
    ]
    found = {OTHER - 1, OTHER - 2, 0}
    for own, cells in zip(weights, sizes, strict=True):
        total = own + (cells - 1) * OTHER
        for other in {0, 1, cells // 2, cells - 2, cells - 1} & set(range(cells)):
            end = (own + other * OTHER) * OTHER // total
            found |= {end - 1, end, end + 1}
    return sorted(w for w in found if 0 <= w < OTHER)


def rare_digits(mechanism: Mechanism) -> list[int]:
    """Digits of 16 bits that leave several values of a byte of coins."""
    own = getattr(mechanism, "half_weight", getattr(mechanism, "weight", None))
    if own is None:
        return []
    found: list[int] = []
    for odds in (Fraction(OTHER, OTHER + own), Fraction(own, OTHER + own)):
        found += np.flatnonzero(_coin_table(odds) < 0).tolist()
    return found


def cases(name: str, count: int, seed: int) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Cases of one mechanism, each with Python's report."""
    generator = np.random.default_rng(seed)
    made = plans(name)
    rare = [_rare(plan) for plan in made]
    for number in range(count):
        which = number % len(made)
        plan, secret = made[which], generator.bytes(16)
        stream = Stream(generator, *rare[which], bytearray())
        windows = plan.guarantee.windows
        window = place(plan, secret).slot + windows * int(generator.integers(40 // windows))
        now = plan.window_start(window) + int(generator.integers(WINDOW * 1000))
        record = _record(plan, generator)
        report = Reporter(
            plan, MemoryStore(DeviceState(secret)), stream, _at(now), policy=GENEROUS,
            allow_unsigned=True,
        ).report(record)  # fmt: skip
        assert report is not None
        yield (
            {"plan": which, "secret": secret.hex(), "record": record, "random": stream.read.hex(),
             "now": now},
            report.encode(plan),
        )  # fmt: skip


def _rare(plan: Plan) -> tuple[list[int], list[int]]:
    mechanism = plan.mechanisms[0]
    return rare_words(mechanism), rare_digits(mechanism)


def _at(now: int) -> Callable[[], int]:
    return lambda: now


def _record(plan: Plan, generator: np.random.Generator) -> Mapping[str, Any]:
    record: dict[str, Any] = {}
    for attribute in plan.domain.attributes:
        if attribute.kind is not None:
            values = TEXTS if isinstance(attribute.kind, Hashed) else VALUES
            record[attribute.field] = values[int(generator.integers(len(values)))]
            continue
        label = int(generator.integers(attribute.cardinality))
        kind = int(generator.integers(10))
        if kind:
            record[attribute.name] = {1: label, 2: "unknown", 3: None, 4: True}.get(
                kind, str(label)
            )
    return record


def write_cases(name: str, count: int, seed: int, out: TextIO) -> Iterator[bytes]:
    """Write cases as `edge/typescript/test/tools/answer.ts` reads them; yields the reports."""
    listed = [base64.b64encode(plan.to_bytes()).decode() for plan in plans(name)]
    out.write(json.dumps(listed) + "\n")
    for case, report in cases(name, count, seed):
        out.write(json.dumps(case) + "\n")
        yield report
