"""Whatever the bytes: a batch within its bounds, or a rejection, and nothing else."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.fold import PartitionFold
from estimators.errors import Rejection
from estimators.wire.batch import MAX_BATCH_REPORTS, Batch, decode_batch
from tests.fuzzing import messages, plan_of
from tests.tally_support import TOPIC_ID, at, record

PLAN = plan_of()
GROUPS = range(len(PLAN.groups))


def check(group: int, batch: Batch) -> None:
    """Everything that counting relies on."""
    assert 1 <= batch.n <= MAX_BATCH_REPORTS
    views = len(PLAN.groups[group].views)
    assert (batch.view is None) == (views == 1)
    if batch.view is not None:
        assert batch.view.shape == (batch.n,)
        assert 0 <= batch.view.min() <= batch.view.max() < views
    for column in PLAN.mechanisms[group].columns:
        values = batch.columns[column.name]
        assert len(values) == batch.n
        if column.kind == "int":
            assert 0 <= values.min() <= values.max() < column.bound
        else:
            assert values.shape[1] == -(-column.bound // 8)
            unused = 8 * values.shape[1] - column.bound
            assert not (values[:, -1] >> np.uint8(8 - unused)).any() or not unused


@pytest.mark.parametrize("group", GROUPS)
def test_a_changed_batch_is_a_batch_or_a_rejection(group: int) -> None:
    decoded = refused = 0
    for key, value in itertools.islice(messages(PLAN, group, seed=group), 1500):
        try:
            batch = decode_batch(PLAN, group, key, value)
        except Rejection:
            refused += 1
        else:
            check(group, batch)
            decoded += 1
    assert decoded > 100, "the fuzzer breaks everything"
    assert refused > 500, "the fuzzer breaks nothing"


@settings(max_examples=150, deadline=None)
@given(key=st.none() | st.binary(max_size=20), value=st.none() | st.binary(max_size=300))
def test_any_bytes_are_a_rejection(key: bytes | None, value: bytes | None) -> None:
    for group in GROUPS:
        with pytest.raises(Rejection):
            decode_batch(PLAN, group, key, value)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(fields=st.dictionaries(st.sampled_from(["n", "period", "view", "columns"]), JSON))
def test_any_json_in_the_fields_is_a_batch_or_a_rejection(fields: dict[str, object]) -> None:
    import orjson

    head = {"v": "1.0", "plan": PLAN.digest, "group": 0, "period": 0, "n": 1}
    value = orjson.dumps(head | fields, option=orjson.OPT_NON_STR_KEYS)
    try:
        batch = decode_batch(PLAN, 0, b"k" * 16, value)
    except Rejection:
        return
    check(0, batch)


def test_a_fold_survives_everything_and_counts_only_what_is_accepted() -> None:
    """The whole way into the counters: admission, duplicates and windows too."""
    for group in GROUPS:
        fold = PartitionFold.start(PLAN, group, TOPIC_ID)
        accepted = 0
        stream = itertools.islice(messages(PLAN, group, seed=99), 400)
        for offset, (key, value) in enumerate(stream):
            accepted += fold.fold(record(offset, at(0.5 + offset / 20), key, value)).reports
        state = fold.state()
        held = [state.total, *state.open.values()]
        assert sum(count.tally.reports for count in held) == accepted > 0
        assert state.next_offset == 400
