"""Records of every format with a field of another type, and what their readers say of them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import orjson

from calmstream.broker.names import TopicNames
from calmstream.common.errors import CalmstreamError, ForeignRecord, Reason
from calmstream.consumer.publish.build import build_set
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.consumer.subscribe.assembler import SnapshotAssembler
from calmstream.estimators.central.dp_marginals import Level, Release
from calmstream.estimators.central.ledger import Ledger
from calmstream.estimators.central.release_reading import ReleaseFold
from calmstream.estimators.central.release_wire import encode_claim, encode_level, encode_manifest
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.wire.counts import (
    GroupCounts,
    counts_key,
    decode_counts,
    encode_counts,
    read_record,
)
from calmstream.estimators.wire.dead_letter import DeadLetter, content_hash
from calmstream.estimators.wire.snapshot import Kind
from calmstream.estimators.wire.state import (
    ClosedWindow,
    PartitionState,
    decode_closed,
    decode_state,
    encode_closed,
    encode_state,
)
from tests.support.attacks.fuzzing import ODD
from tests.support.central import PLAN as CENTRAL
from tests.support.publisher import count_of, published_plan

PLAN = published_plan(analysis=True)
MISSING = object()
VALUES: tuple[Any, ...] = (*ODD, MISSING, "9.0", {"a": 1}, [None, [1]], 10**15, -1.5)
Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Case:
    """A record and its reader, which raises an error of calmstream or returns."""

    body: Any
    encode: Callable[[Any], bytes]
    read: Callable[[bytes], object]


def paths(value: Any, at: Path = ()) -> Iterator[Path]:
    if at:
        yield at
    items: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))[:2]
    for name, item in items:
        yield from paths(item, (*at, name))


def changed(value: Any, path: Path, to: Any) -> Any:
    copy = dict(value) if isinstance(value, dict) else list(value)
    if len(path) > 1:
        copy[path[0]] = changed(copy[path[0]], path[1:], to)
    elif to is MISSING:
        del copy[path[0]]
    else:
        copy[path[0]] = to
    return copy


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def verdict(case: Case, raw: bytes) -> str:
    """Return what the reader says of a value; any other exception passes."""
    try:
        case.read(raw)
    except ForeignRecord:
        return "foreign"
    except CalmstreamError as error:
        return "newer" if "newer" in str(error) else str(error)
    return "read"


def mutants(case: Case) -> Iterator[bytes]:
    for path in paths(case.body):
        for value in VALUES:
            yield case.encode(changed(case.body, path, value))


def random_mutant(case: Case, dice: random.Random, ways: list[Path]) -> bytes:
    body = case.body
    for _ in range(dice.randint(1, 3)):
        try:
            body = changed(body, dice.choice(ways), dice.choice(VALUES))
        except (KeyError, IndexError, TypeError):
            continue  # An earlier change removed the field.
    return case.encode(body)


def cases() -> Mapping[str, Case]:
    count = count_of([0, 1, 2, 3] * 20, rejects=1)
    merged = MergedWindow(1, Kind.FINAL, (4, 5, 6, 7), (count, count))
    built = build_set(PLAN, merged, counts=True)
    found = {
        "marginal": _snapshot(*built.tables()[-1]),
        "manifest": _snapshot(*built.closing()),
    }
    state = PartitionState("id", 9, 900, 0, 5, 800, count, {1: count})
    found["state"] = _plain(encode_state(PLAN, state), lambda raw: decode_state(PLAN, 0, raw))
    closed = ClosedWindow(1, 6, count, count)
    found["closed"] = _plain(encode_closed(PLAN, closed), lambda raw: decode_closed(PLAN, 0, raw))
    found["counts"] = _counts(count.tally)
    found["dead letter"] = _dead_letter()
    return found | _central()


def _plain(raw: bytes, read: Callable[[bytes], object]) -> Case:
    return Case(orjson.loads(raw), _json, read)


def _snapshot(key: bytes, value: bytes) -> Case:
    return _plain(value, lambda raw: SnapshotAssembler(PLAN).read(key, raw))


def _counts(tally: Tally) -> Case:
    raw = encode_counts(PLAN, GroupCounts(1, 1, (7, 9), tally, tally, suspicious=False))
    head, _, counters = raw.partition(b"\n")

    def read(raw: bytes) -> None:
        read_record(PLAN, counts_key(1, 1), raw)
        decode_counts(PLAN, raw)

    return Case(orjson.loads(head), lambda body: _json(body) + b"\n" + counters, read)


def _dead_letter() -> Case:
    letter = DeadLetter(
        Reason.LATE, "late", "topic", 1, 7, 900, PLAN.digest, 3, content_hash(b"abc"), 7, 1
    )
    body = {name: value.decode() for name, value in letter.headers()}

    def read(raw: bytes) -> None:
        headers = tuple((n, str(v).encode()) for n, v in orjson.loads(raw).items())
        DeadLetter.from_headers(headers, PLAN)

    return Case(body, lambda body: orjson.dumps({n: str(v) for n, v in body.items()}), read)


def _central() -> dict[str, Case]:
    one = Level(
        1, 2, Fraction(16), 40, None, 0.0, None,
        {(0,): np.arange(3)}, {(0,): np.array([50, 60, 55])},
    )  # fmt: skip
    whole = Release((np.arange(3), np.arange(1), np.arange(1)), (one,))
    texts = [["x", "y", "z"], ["x"], ["y"]]
    nonce = "0" * 32
    records = [
        encode_claim(CENTRAL, 0, nonce),
        encode_level(CENTRAL, 0, nonce, one, texts),
        encode_manifest(CENTRAL, 0, nonce, whole, Ledger(CENTRAL), "test"),
    ]

    def case(place: int) -> Case:
        def read(raw: bytes) -> None:
            fold = ReleaseFold(CENTRAL.digest)
            given = [*records[:place], raw, *records[place + 1 :]]
            if not any([fold.read(value) is not None for value in given]):  # noqa: C419
                raise ForeignRecord("no release")

        return _plain(records[place], read)

    return {"claim": case(0), "level": case(1), "release": case(2)}


def hostile_records(plan: Plan, names: TopicNames) -> list[tuple[str, bytes, bytes]]:
    """Return topic, key and value of what stopped every role."""
    own, slots = plan.digest, len(plan.groups) * plan.partitions
    final = {"v": "1.3", "plan": own, "window": 0, "kind": "final", "revision": [1] * slots}
    bad: list[tuple[str, bytes, object]] = [
        (names.snapshots, b"0/final/a0", final | {"type": "marginal", "attributes": [1]}),
        (
            names.snapshots,
            b"0/final/manifest",
            final | {"type": "manifest", "window": {"a": 1}},
        ),
        (names.snapshots, b"0/final/manifest", final | {"revision": [None]}),
        (names.snapshots, b"0/final/manifest", {"v": "2.0"}),
        (names.counts, b"0/0000", {"v": "9.0"}),
        (names.state, b"0000/0", {"v": "9.0"}),
        (names.state, b"0000/0", {"v": "1.0", "plan": own, "next_offset": 10**15}),
    ]
    return [(topic, key, orjson.dumps(body)) for topic, key, body in bad]
