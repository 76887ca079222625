"""A device accepts any bytes only as the plan that was signed, or refuses them."""

from __future__ import annotations

import json

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from calmstream import PlanRefused
from calmstream.producer.device.read_plan import read_signed_plan
from calmstream.producer.signed.certificate import read_statement
from tests.support.signed import Operator

GOOD = Operator()
PLAN = GOOD.plan()
RAW = GOOD.sign(PLAN)


def read(raw: bytes) -> None:
    try:
        accepted = read_signed_plan(raw, (GOOD.root,))
    except PlanRefused:
        return
    assert accepted.plan == PLAN
    assert accepted.statement == GOOD.statement


@given(
    edits=st.lists(
        st.tuples(st.integers(0, len(RAW) - 1), st.integers(0, 3), st.binary(max_size=4)),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=400, deadline=None)
def test_edited_bytes(edits: list[tuple[int, int, bytes]]) -> None:
    raw = RAW
    for at, cut, new in edits:
        raw = raw[:at] + new + raw[at + cut :]
    read(raw)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=3), v, max_size=3),
    max_leaves=4,
)


@given(field=st.sampled_from(["v", "root", "key", "owner", "not_before", "x"]), value=values)
@settings(max_examples=200, deadline=None)
def test_a_statement_is_read_as_it_was_written_or_refused(field: str, value: object) -> None:
    document = orjson.loads(GOOD.statement.to_bytes()) | {field: value}
    raw = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    try:
        statement = read_statement(raw)
    except ValueError:
        return
    assert statement.to_bytes() == raw
