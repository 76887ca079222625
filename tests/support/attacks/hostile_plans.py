"""Plans that are written to harm a device: worst cases, up to 8 MiB each."""

from __future__ import annotations

import itertools
import math
import multiprocessing
from collections.abc import Callable, Iterable
from typing import Any

import orjson

from tests.support.attacks.plan_reader import answer

SIZE = 8 << 20  # of the largest plan that a device reads
MAX_RSS = 400 << 20  # of a process that reads such a plan and reports
DEADLINE = 60.0
TOKENS = (1 << 20) - 200  # a little less than a device reads
CONTAINERS = 399_900  # the same
_MARK = "MARK"
_COEFFICIENT = {"name": "hadamard-coefficient", "cells": 2}


def document(**changes: Any) -> dict[str, Any]:
    plan: dict[str, Any] = {
        "version": 1, "name": "p", "purpose": "x", "owner": "y", "lineage": "0" * 32,
        "domain": domain(2, 2), "epsilon": "1", "lineage_epsilon": "1",
        "guarantee": {"kind": "once", "windows": 1}, "k": 1,
        "method": {"name": "uniform", "parameters": {}},
        "groups": [group({"name": "grr", "cells": 2}, {"attributes": [0]})],
        "start": 0, "expires": 3600, "window": 3600, "grace": 0, "skew": 0, "partitions": 1,
        "wire": 1, "users": 1, "marginals": [[0]],
        "limits": {"batch_reports": 1024, "batches": 1 << 14},
    }  # fmt: skip
    return plan | changes


def domain(*cardinalities: int) -> list[dict[str, Any]]:
    return [
        {"name": f"a{j}", "labels": [f"{code:x}" for code in range(r)]}
        for j, r in enumerate(cardinalities)
    ]


def group(mechanism: dict[str, Any], *views: dict[str, Any]) -> dict[str, Any]:
    return {"mechanism": mechanism, "views": [{"share": 1, **view} for view in views]}


def whole(cardinalities: Iterable[int], *mechanisms: dict[str, Any]) -> bytes:
    attributes = domain(*cardinalities)
    view = {"attributes": list(range(len(attributes)))}
    return orjson.dumps(document(domain=attributes, groups=[group(m, view) for m in mechanisms]))


def filled(text: Callable[[int], str], field: str = "") -> bytes:
    method = {"name": "uniform", "parameters": {"x": _MARK}}
    plan = document(**({field: _MARK} if field else {"method": method}))
    raw = orjson.dumps(plan)
    mark = orjson.dumps(_MARK)
    return raw.replace(mark, text(SIZE - len(raw)).encode())


def listed(item: str, limit: int = SIZE) -> Callable[[int], str]:
    return lambda room: f"[{','.join([item] * min(limit, room // (len(item.encode()) + 1)))}]"


def quoted(item: str) -> Callable[[int], str]:
    return lambda room: f'"{item * (room // len(item) - 1)}"'


def bloom(axes: list[int], bits: int, hashes: int) -> dict[str, Any]:
    return {
        "name": "bloom-rr", "cells": math.prod(axes), "axes": axes, "bits": bits,
        "hashes": hashes, "tables": [[0]],
    }  # fmt: skip


def product(d: int, blocks: list[list[int]], tables: list[list[int]]) -> dict[str, Any]:
    return {
        "name": "product-grr", "cells": 1 << d, "axes": [2] * d, "blocks": blocks,
        "tables": tables,
    }  # fmt: skip


def _sets(d: int, size: int, count: int) -> list[list[int]]:
    return [list(s) for s in itertools.islice(itertools.combinations(range(d), size), count)]


def _views(count: int, size: int) -> list[dict[str, Any]]:
    return [{"attributes": s, "parity": [1] * size} for s in _sets(128, size, count)]


def _labels(count: int) -> list[dict[str, Any]]:
    attributes = domain(*[count] * min(1024, TOKENS // (count + 9)))
    assert len(attributes) > 1
    return attributes


PARAMETERS: dict[str, Callable[[int], str]] = {
    "brackets": lambda room: "[" * (room // 2) + "]" * (room // 2),
    "brackets, 30 deep": listed("[" * 28 + "0" + "]" * 28),
    "brackets, 30 deep, few": listed("[" * 25 + "0" + "]" * 25, CONTAINERS // 25),
    "objects, 30 deep, few": listed('{"a":' * 25 + "0" + "}" * 25, CONTAINERS // 25),
    "objects": listed("{}"),
    "objects, few": listed('{"a":0}', TOKENS // 3),
    "lists, few": listed("[0]", CONTAINERS),
    "fields, few": lambda _: "{" + ",".join(f'"{i:x}":0' for i in range(TOKENS // 2)) + "}",
    "integers": listed("0"),
    "integers, few": listed("1234567", TOKENS),
    "mixed, few": listed('0,"a",true,null', TOKENS // 4),
    "strings": listed('"ab"'),
    "strings, few": listed('"abcd"', TOKENS),
    "wide strings, few": listed('"😀"', TOKENS),
    "fractions, few": listed("1.25", TOKENS),
    "one integer": lambda room: "1" * room,
    "one negative integer": lambda room: "-" + "1" * (room - 1),
    "one fraction": lambda room: "1." + "1" * (room - 2),
    "one exponent": lambda room: "1e" + "1" * (room - 2),
    "integers of 300 digits": listed("9" * 300),
    "integers of 20 digits": listed("9" * 20),
    "spaces": lambda room: " " * (room - 1) + "0",
}

TEXTS: dict[str, Callable[[int], str]] = {
    "commas in a text": quoted(","),
    "brackets in a text": quoted("["),
    "escapes": quoted("\\u0041"),
    "backslashes": quoted("\\\\"),
    "escaped quotes": quoted('\\"'),
    "bare quotes": lambda room: '"' * room,
    "letters": quoted("a"),
}

FORMS: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "brackets alone": lambda: b"[" * SIZE,
    "commas alone": lambda: b"," * SIZE,
    "digits alone": lambda: b"1" * SIZE,
    "quotes alone": lambda: b'"' * SIZE,
    "no UTF-8": lambda: b'"' + b"\xff" * (SIZE - 2) + b'"',
    "zeros": lambda: bytes(SIZE),
    "a byte too many": lambda: filled(lambda room: '"' + "a" * (room + 20) + '"', "purpose"),
    "the longest name": lambda: filled(quoted("a"), "name"),
    "the longest epsilon": lambda: filled(quoted("1"), "epsilon"),
}

DESIGNS: dict[str, Callable[[], bytes]] = {
    "1024 attributes of 4096 labels": lambda: orjson.dumps(document(domain=domain(*[4096] * 1024))),
    "labels, 4096 each": lambda: orjson.dumps(document(domain=_labels(4096), groups=[
        group({"name": "grr", "cells": 4096}, {"attributes": [1]})])),
    "labels, 1000 each": lambda: orjson.dumps(document(domain=_labels(1000), groups=[
        group({"name": "grr", "cells": 1000}, {"attributes": [1]})])),
    "256 groups of 1100 views": lambda: orjson.dumps(document(groups=[
        group({"name": "grr", "cells": 2}, *[{"attributes": [0]}] * 1100)] * 256)),
    "256 groups of 300 views": lambda: orjson.dumps(document(groups=[
        group({"name": "grr", "cells": 2}, *[{"attributes": [0]}] * 300)] * 256)),
    "one group of 65536 views": lambda: orjson.dumps(document(groups=[
        group({"name": "grr", "cells": 2}, *[{"attributes": [0]}] * 65_536)])),
    "65536 views": lambda: orjson.dumps(document(domain=domain(*[2] * 128), groups=[
        group({"name": "grr", "cells": 2}, *({"attributes": [i % 128]} for i in range(g, g + 256)))
        for g in range(0, 65_536, 256)])),
    "61000 views of four": lambda: orjson.dumps(document(domain=domain(*[2] * 128), groups=[
        group(_COEFFICIENT, *_views(61_000, 4))])),
    "views of 1023 attributes": lambda: orjson.dumps(document(domain=domain(*[2] * 1024), groups=[
        group(_COEFFICIENT, *({"attributes": [*range(i), *range(i + 1, 1024)],
                               "parity": [1] * 1023} for i in range(480)))])),
    "many groups": lambda: orjson.dumps(document(groups=document()["groups"] * 60_000)),
    "pairs of 830 attributes": lambda: orjson.dumps(document(
        domain=domain(*[2] * 830), marginals=_sets(830, 2, 340_000))),
    "one marginal again and again": lambda: orjson.dumps(document(marginals=[[0]] * 390_000)),
    "grr of 2^24": lambda: whole((4096, 4096), {"name": "grr", "cells": 1 << 24}),
    "oue of 2^24": lambda: whole((4096, 4096), {"name": "oue", "cells": 1 << 24}),
    "oue of 2^18": lambda: whole((512, 512), {"name": "oue", "cells": 1 << 18}),
    "olh of 2^18": lambda: whole((512, 512), {
        "name": "olh", "cells": 1 << 18, "buckets": 1 << 24, "seed_bits": 32}),
    "sketch of 2^24 by 64": lambda: whole((4096, 4096), *[{
        "name": "hadamard-sketch", "cells": 1 << 24, "hashes": 64, "buckets": 4096,
        "seed": 0}] * 200),
    "subset of 16384": lambda: whole((128, 128), {
        "name": "subset-selection", "cells": 1 << 14, "size": (1 << 14) - 1}),
    "product of 61 blocks": lambda: whole([2] * 61, *[product(
        61, [[i] for i in range(61)], [[0]])] * 256),
    "product of two blocks": lambda: whole([2] * 61, product(
        61, [list(range(30)), list(range(30, 60)), [60]], [[0]])),
    "product with pairs": lambda: whole([2] * 52, *[product(
        52, [[i] for i in range(52)], _sets(52, 2, 2000))] * 240),
    "product with fours": lambda: whole([2] * 61, product(
        61, [[i] for i in range(61)], _sets(61, 4, 200_000))),
    "bloom, 2 by 2^20": lambda: whole((2, 1024, 1024), bloom([2, 1 << 20], 1024, 16)),
    "bloom, 2^20": lambda: whole((1024, 1024), bloom([1 << 20], 64, 5)),
    "bloom, 65535": lambda: whole((257, 255), bloom([65_535], 64, 15)),
    "bloom, 16384 in 30 bits": lambda: whole((128, 128), bloom([16_384], 30, 16)),
    "bloom, 4096 three times": lambda: whole([4096] * 3, bloom([4096] * 3, 256, 16)),
    "bloom, 4096 in 26 bits": lambda: whole([4096], bloom([4096], 26, 16)),
    "bloom, 43 groups": lambda: whole([1500], *(bloom([1500], 32 + i, 16) for i in range(43))),
    "bloom, 200 groups of 61": lambda: whole([2] * 61, *(
        bloom([2] * 61, 16 + i, 16) for i in range(200))),
}  # fmt: skip

CASES: dict[str, Callable[[], bytes]] = {
    **FORMS,
    **DESIGNS,
    **{f"parameters: {n}": (lambda t=t: filled(t)) for n, t in PARAMETERS.items()},
    **{f"purpose: {n}": (lambda t=t: filled(t, "purpose")) for n, t in TEXTS.items()},
}

_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["tests.support.attacks.plan_reader"])


def read_apart(raw: bytes) -> dict[str, Any]:
    """Read a plan, and report under it, in a process that has read nothing; see `answer`."""
    ours, its = _PROCESSES.Pipe(duplex=False)
    process = _PROCESSES.Process(target=answer, args=(raw, its))
    process.start()
    its.close()
    try:
        if not ours.poll(DEADLINE):
            raise AssertionError(f"the reader did not answer within {DEADLINE:g} s")
        outcome: dict[str, Any] = ours.recv()
    except EOFError:
        process.join(DEADLINE)
        raise AssertionError(f"the reader ended with code {process.exitcode}") from None
    finally:
        ours.close()
        process.kill()
        process.join()
    return outcome
