"""One user's record changes one row of the coded table at most: central privacy depends on this."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calmstream.estimators.central.wire import MAX_BATCH_BYTES, MAX_TEXT, user_id
from tests.support.central import PLAN, Row, bodies, foreign_body, placed, table


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


OTHERS: list[Row] = [
    (f"u{i}", (("F", "M")[i % 2], ("nurse", "baker", None)[i % 3], ("Ulm", "", "Bonn")[i % 3]))
    for i in range(40)
]
GOOD: Row = ("mallory", ("F", "smith", "Kiel"))

VALUES: dict[str, object] = {
    "long": "x" * (MAX_TEXT + 1),
    "long and not ASCII": "\U0001f600" * (MAX_TEXT + 1),
    "long control characters": "\x01" * 5000,
    "huge": "x" * 3_000_000,
    "empty": "",
    "missing": None,
    "number": 7,
    "huge number": 10**400,
    "float": 1.5,
    "infinite": float("inf"),
    "no number": float("nan"),
    "boolean": True,
    "list": ["F"],
    "object": {"F": 1},
    "nested": nested(400),
    "NUL": "\0",
    "NUL at the end": "F\0",
    "separator": "F\x1fM\xff",
    "surrogate": "F\ud800",
    "two surrogates": "\udfff\ud800" * 300,
    "quotes": '"],"users":["u1"',
}
USERS: dict[str, object] = {
    "long": "m" * (MAX_TEXT + 1),
    "huge": "m" * 3_000_000,
    "empty": "",
    "missing": None,
    "number": 7,
    "boolean": False,
    "list": ["u1"],
    "object": {},
    "nested": nested(400),
    "NUL": "\0",
    "surrogate": "\ud800",
    "another's with a NUL": "u1\0",
    "quotes": '","u1',
}
BAD: dict[str, Row] = {
    **{f"value {name}": ("mallory", ("F", value, "Ulm")) for name, value in VALUES.items()},
    **{f"user {name}": (user, ("F", "nurse", "Ulm")) for name, user in USERS.items()},
    "everything": (nested(3), (nested(3), "x" * 70_000, None)),
}
each_bad = pytest.mark.parametrize("bad", BAD.values(), ids=BAD)


def with_row(row: Row, place: int) -> list[Row]:
    return [*OTHERS[:place], row, *OTHERS[place:]]


def check_added(without: list[bytes], added: list[bytes]) -> None:
    """Check at most one row more, none less: so k-tuples' counts differ by C(d, k) at most."""
    before, after = table(placed(without)), table(placed(added))
    assert not before - after
    assert (after - before).total() <= 1


@each_bad
@pytest.mark.parametrize("batch_size", [1, 7, 1000])
def test_a_bad_record_is_one_row_at_most(bad: Row, batch_size: int) -> None:
    for place in (0, 20, len(OTHERS)):
        check_added(bodies(OTHERS, batch_size), bodies(with_row(bad, place), batch_size))


def fits_json(row: Row) -> bool:
    return len(json.dumps(row)) < MAX_BATCH_BYTES // 2


FOREIGN = {name: row for name, row in BAD.items() if fits_json(row)}


@pytest.mark.parametrize("escaped", [True, False])
@pytest.mark.parametrize("bad", FOREIGN.values(), ids=FOREIGN)
def test_so_it_is_where_the_sender_cleans_nothing(bad: Row, escaped: bool) -> None:
    def dumps(document: object) -> bytes:
        text = json.dumps(document, ensure_ascii=escaped)
        return text.encode("utf-8", "surrogatepass")

    for place in (0, 20, len(OTHERS)):
        added = foreign_body(with_row(bad, place), dumps)
        check_added([foreign_body(OTHERS)], [added])


@pytest.mark.parametrize(
    "fields",
    [
        *({"v": "1.0"}, {"plan": "f" * 64}, {"n": 0}, {"n": 39}, {"n": 40.0}, {"n": 20_000}),
        *({"users": None}, {"users": ["u"]}, {"columns": []}, {"columns": {}}),
        {"columns": {"sex": ["F"], "job": ["x"] * 40, "city": ["x"] * 40}},
        {"more": "x" * MAX_BATCH_BYTES},
    ],
)
def test_a_batch_with_a_broken_frame_has_no_records(fields: dict[str, object]) -> None:
    frame = json.loads(foreign_body(OTHERS))
    assert table(placed([json.dumps(frame).encode()])).total() == len(OTHERS)
    assert table(placed([json.dumps(frame | fields).encode()])).total() == 0


def check_replaced(text: str, raw: bytes, where: str) -> bytes:
    marker = "REPLACED"
    row = (marker, ("F", "smith", "Ulm")) if where == "user" else ("mallory", (marker, "x", None))
    added = foreign_body(with_row(row, 20)).replace(text.encode(), raw)
    check_added([foreign_body(OTHERS)], [added])
    return added


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"F\xc3", b"\xed\xa0\x80", b"a\x00b", b"\x1f", b"\t"])
@pytest.mark.parametrize("where", ["user", "value"])
def test_bytes_that_are_not_text_stay_in_their_record(raw: bytes, where: str) -> None:
    added = check_replaced("REPLACED", raw, where)
    # All others are there: the batch was read.
    assert table(placed([added])).total() == len(OTHERS) + 1


@pytest.mark.parametrize("raw", [b"9" * 5000, b"NaN", b"-Infinity", b"1e999", b"-0.0"])
@pytest.mark.parametrize("where", ["user", "value"])
def test_numbers_that_no_machine_holds_stay_in_their_record(raw: bytes, where: str) -> None:
    added = check_replaced('"REPLACED"', raw, where)
    assert table(placed([added])).total() == len(OTHERS) + (where == "value")


@each_bad
def test_a_user_with_many_records_is_one_row_at_most(bad: Row) -> None:
    rng = random.Random(5)
    rows = [*OTHERS]
    for turn in range(12):
        row = bad if turn % 3 else (bad[0], GOOD[1])
        rows.insert(rng.randrange(len(rows)), row)
    for size in (1, 7, 1000):
        check_added(bodies(OTHERS, size), bodies(rows, size))


def test_which_record_of_a_user_counts_does_not_depend_on_others_or_on_reading() -> None:
    rows: list[Row] = [("v", ("F", f"job {i}", None)) for i in range(30)]
    batches = placed(bodies(rows, 1))
    assert table(batches) == {("F", "job 0", None): 1}
    by_partition = [[b for b in batches if b.partition == p] for p in range(2)]
    assert table(by_partition[0] + by_partition[1]) == {("F", "job 0", None): 1}
    assert table(by_partition[1] + by_partition[0]) == {("F", "job 0", None): 1}
    # Another user's records in the same batches, before, between and after them.
    for place in range(31):
        mixed: list[Row] = [*rows[:place], ("u", ("M", None, None)), *rows[place:]]
        for size in (1, 4, 1000):
            coded = table(placed(bodies(mixed, size)))
            assert coded == {("F", "job 0", None): 1, ("M", None, None): 1}


def test_a_record_of_the_widest_plan_fits_a_batch() -> None:
    names = tuple(f"{i:03}" + "\x01" * 253 for i in range(256))
    plan = replace(PLAN, columns=names)
    (body,) = bodies([("\x01" * 256, ("\x01" * 300,) * 256)], 1, plan)
    assert len(body) <= MAX_BATCH_BYTES


def test_distinct_ids_are_distinct_users() -> None:
    ids = ["a", "a\0", "A", " a", "\ud800", "\ud801", "\ufffd", "m" * 257, "m" * 258, "m" * 256]
    assert len({user_id(i) for i in ids}) == len(ids)
    assert all(len(user_id(i)) <= MAX_TEXT for i in ids)
    assert all(user_id(user_id(i)) == user_id(i) for i in ids)
    rows: list[Row] = [(i, ("F", None, None)) for i in ids]
    assert table(placed(bodies(rows))).total() == len(ids)
    assert table(placed([foreign_body(rows, json.dumps)])).total() == len(ids)


def test_a_sample_is_of_users_and_not_of_records() -> None:
    plan = replace(PLAN, sample="0.25")
    rows: list[Row] = [(f"u{i}", (str(i), None, None)) for i in range(4000)]

    def sampled(keep: list[int]) -> set[str | None]:
        chosen = bodies([rows[i] for i in keep], 64, plan)
        return {row[0] for row in table(placed(chosen), plan)}

    everybody = sampled(list(range(4000)))
    assert 800 < len(everybody) < 1200
    # When a user is added or removed, all others stay in or out of the sample.
    assert sampled(list(range(0, 4000, 2))) == {v for v in everybody if int(v or 0) % 2 == 0}
    assert sampled(list(range(3999, -1, -1))) == everybody


@settings(max_examples=150, deadline=None)
@given(user=st.text() | st.none() | st.integers(), value=st.text(st.characters()) | st.integers())
def test_any_text_is_one_row_at_most(user: object, value: object) -> None:
    row: Row = (user, (value, "x", value))
    check_added(bodies(OTHERS, 7), bodies(with_row(row, 3), 7))
    check_added([foreign_body(OTHERS)], [foreign_body(with_row(row, 3), json.dumps)])
