from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import orjson
import pytest

from calmstream.common.errors import ForeignRecord
from calmstream.estimators.central import release_wire
from calmstream.estimators.central.dp_marginals import Level, Release
from calmstream.estimators.central.ledger import Ledger
from calmstream.estimators.central.release_reading import CentralRelease, ReleaseFold
from calmstream.estimators.central.release_wire import encode_claim, encode_level, encode_manifest
from tests.support.central import PLAN

NONCE, OTHER = "0" * 32, "1" * 32


def level(counts: np.ndarray) -> Level:
    cells = {(0,): np.arange(len(counts))}
    return Level(1, 2, Fraction(16), 40, None, 0.0, None, cells, {(0,): counts})


def released(one: Level) -> tuple[Release, list[list[str]]]:
    whole = Release((np.arange(len(one.cells[0,])), np.arange(1), np.arange(1)), (one,))
    labels = [f"label {i}".encode() for i in whole.values[0]]
    return whole, release_wire.released_texts(whole, (labels, [b"x"], [b"y"]))


def records(nonce: str = NONCE) -> list[bytes]:
    one = level(np.array([50, 60, 55]))
    whole, texts = released(one)
    return [
        encode_claim(PLAN, 0, nonce),
        encode_level(PLAN, 0, nonce, one, texts),
        encode_manifest(PLAN, 0, nonce, whole, Ledger(PLAN), "test"),
    ]


def read(values: list[bytes | None]) -> tuple[list[CentralRelease], int]:
    fold, releases, ignored = ReleaseFold(PLAN.digest), [], 0
    for value in values:
        try:
            release = fold.read(value)
        except ForeignRecord:
            ignored += 1
        else:
            releases += [release] if release else []
    return releases, ignored


def changed(raw: bytes, **fields: object) -> bytes:
    body = orjson.loads(raw)
    for name, value in fields.items():
        if value is ...:
            del body[name]
        else:
            body[name] = value
    return orjson.dumps(body)


def test_a_claimed_release_is_read_once() -> None:
    releases, ignored = read(records() + records()[1:])
    assert ignored == 0
    (release,) = releases
    assert release.manifest["claim"] == NONCE
    (table,) = release.levels[1]["tables"]
    assert table["values"] == [["label 0", "label 1", "label 2"]]
    assert table["counts"] == [50, 60, 55]


def test_the_first_claim_holds_a_window_for_ever() -> None:
    mine, others = records(), records(OTHER)
    for merged in (
        [mine[0], others[0], *others[1:], *mine[1:]],
        [mine[0], *others, *mine[1:]],
        [mine[0], mine[1], others[0], others[1], others[2], mine[2]],
    ):
        releases, ignored = read(list(merged))
        assert [r.manifest["claim"] for r in releases] == [NONCE]
        assert releases[0].levels[1]["claim"] == NONCE
        assert ignored == 2
    # Its owner dies: nobody else's release of the window is ever shown.
    assert read([mine[0], *others])[0] == []
    assert read([*others[1:], *mine])[0] == []  # nor one after a release without a claim


FOREIGN: list[bytes | None] = [
    *(None, b"", b"\xff", b"nonsense", b"[]", b"null", b"{}", b'{"v":"central-1.0"}'),
    b'{"v":"central-9.0","plan":"x","window":0}',
    *(changed(raw, plan="f" * 64) for raw in records()),
    *(
        changed(raw, window=window)
        for raw in records()
        for window in (-1, "0", None, 1 << 60, True)
    ),
    *(changed(raw, claim=claim) for raw in records() for claim in (7, [], "", ...)),
]


@pytest.mark.parametrize("foreign", FOREIGN)
def test_whatever_else_is_in_the_topic_is_passed_over(foreign: bytes | None) -> None:
    mine = records()
    for place in range(len(mine) + 1):
        releases, ignored = read([*mine[:place], foreign, *mine[place:]])
        assert len(releases) == 1
        assert ignored == 1


@pytest.mark.parametrize(
    ("place", "fields"),
    [
        (1, {"tables": [{"attributes": ["a"], "values": [], "counts": []}]}),
        (1, {"tables": [{"attributes": ["a"], "values": [["x"]], "counts": []}]}),
        (1, {"tables": [{"attributes": ["a"], "values": [["x"]], "counts": ["1"]}]}),
        (1, {"tables": [{"attributes": ["a"], "values": [[7]], "counts": [1]}]}),
        (1, {"k": True}),
        (2, {"levels": ["1"]}),
        (2, {"end": 1 << 60}),
        (2, {"name": ...}),
    ],
)
def test_a_malformed_level_or_manifest_is_none(place: int, fields: dict[str, Any]) -> None:
    right = records()
    wrong = changed(right[place], **fields)
    assert read([*right[:place], wrong, *right[place + 1 :]]) == ([], 1)
    assert len(read([*right[:place], wrong, *right[place:]])[0]) == 1


def test_a_level_that_is_too_large_keeps_the_largest_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(release_wire, "MAX_LEVEL_BYTES", 6000)
    counts = np.random.default_rng(1).permutation(np.arange(100, 5100))
    one = level(counts)
    _, texts = released(one)
    raw = encode_level(PLAN, 0, NONCE, one, texts)
    assert 1000 < len(raw) <= 6000
    body = orjson.loads(raw)
    kept = sorted(body["tables"][0]["counts"])
    assert kept == list(range(body["dropped_up_to"] + 1, 5100))
    # All equal: none can be kept, and it ends all the same.
    equal = level(np.full(5000, 77))
    assert orjson.loads(encode_level(PLAN, 0, NONCE, equal, released(equal)[1]))["tables"] == []
