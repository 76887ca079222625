"""Check that a bad report is refused before it is merged with others, with a worker's reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import numpy as np
import pytest

from calmstream.common.errors import Reason, Rejection
from calmstream.estimators.mechanisms.base import Column
from calmstream.estimators.randomness import SeededRandomness
from calmstream.estimators.wire.batch import decode_batch
from calmstream.producer.device.report import Report
from calmstream.producer.gateway import rows
from calmstream.producer.gateway.encoding import EncodedBatch
from calmstream.producer.gateway.rows import Row, RowReader, batch_of_rows, batches_of_rows
from tests.support.attacks.fuzzing import plan_of
from tests.support.producer import make_plan

PLAN = make_plan()
READER = RowReader(PLAN)
BITS = np.array([[0b101]], np.uint8)


class Raising(Mapping[str, Any]):
    """Columns that cannot be read."""

    def __getitem__(self, key: str) -> Any:
        raise MemoryError

    def __iter__(self) -> Iterator[str]:
        raise MemoryError

    def __len__(self) -> int:
        return 1


class Array(np.ndarray[Any, Any]):
    """Not quite a numpy array."""


def cell(value: Any, dtype: Any = np.int64) -> dict[str, Any]:
    return {"v": np.array([value], dtype)}


MALFORMED: list[tuple[Reason, Any]] = [
    (Reason.MALFORMED, None),
    (Reason.MALFORMED, b"report"),
    (Reason.MALFORMED, (0, 0, 0, cell(1))),
    (Reason.MALFORMED, Report("0", 0, 0, cell(1))),  # type: ignore[arg-type]
    (Reason.MALFORMED, Report(False, 0, 0, cell(1))),
    (Reason.MALFORMED, Report(np.int64(0), 0, 0, cell(1))),  # type: ignore[arg-type]
    (Reason.WRONG_GROUP, Report(3, 0, 0, cell(1))),
    (Reason.WRONG_GROUP, Report(-1, 0, 0, cell(1))),
    (Reason.WRONG_GROUP, Report(10**30, 0, 0, cell(1))),
    (Reason.MALFORMED, Report(0, 1.0, 0, cell(1))),  # type: ignore[arg-type]
    (Reason.AFTER_END, Report(0, 6, 0, cell(1))),
    (Reason.AFTER_END, Report(0, 10**30, 0, cell(1))),
    (Reason.LATE, Report(0, -1, 0, cell(1))),
    (Reason.OUT_OF_RANGE, Report(0, 0, 1, cell(1))),
    (Reason.OUT_OF_RANGE, Report(2, 0, 2, cell(1))),
    (Reason.OUT_OF_RANGE, Report(2, 0, -1, cell(1))),
    (Reason.MALFORMED, Report(2, 0, True, cell(1))),
    (Reason.MALFORMED, Report(0, 0, 0, None)),  # type: ignore[arg-type]
    (Reason.MALFORMED, Report(0, 0, 0, {})),
    (Reason.MALFORMED, Report(0, 0, 0, {"w": np.array([1])})),
    (Reason.MALFORMED, Report(0, 0, 0, {**cell(1), "w": np.array([1])})),
    (Reason.MALFORMED, Report(0, 0, 0, Raising())),
    (Reason.MALFORMED, Report(0, 0, 0, {"v": 1})),  # type: ignore[dict-item]
    (Reason.MALFORMED, Report(0, 0, 0, {"v": [1]})),  # type: ignore[dict-item]
    (Reason.MALFORMED, Report(0, 0, 0, {"v": np.array([1]).view(Array)})),
    (Reason.MALFORMED, Report(0, 0, 0, cell(1, np.float64))),
    (Reason.MALFORMED, Report(0, 0, 0, cell(1, np.bool_))),
    (Reason.MALFORMED, Report(0, 0, 0, cell(1, object))),
    (Reason.MALFORMED, Report(0, 0, 0, cell("1", np.str_))),
    (Reason.LENGTH_MISMATCH, Report(0, 0, 0, {"v": np.array(1)})),
    (Reason.LENGTH_MISMATCH, Report(0, 0, 0, {"v": np.array([], np.int64)})),
    (Reason.LENGTH_MISMATCH, Report(0, 0, 0, {"v": np.array([1, 2])})),
    (Reason.LENGTH_MISMATCH, Report(0, 0, 0, {"v": np.array([[1]])})),
    (Reason.OUT_OF_RANGE, Report(0, 0, 0, cell(12))),
    (Reason.OUT_OF_RANGE, Report(0, 0, 0, cell(-1))),
    (Reason.OUT_OF_RANGE, Report(0, 0, 0, cell(1 << 63, np.uint64))),
    (Reason.MALFORMED, Report(1, 0, 0, cell(1))),
    (Reason.MALFORMED, Report(1, 0, 0, {"b": BITS.astype(np.int8)})),
    (Reason.LENGTH_MISMATCH, Report(1, 0, 0, {"b": BITS[0]})),
    (Reason.LENGTH_MISMATCH, Report(1, 0, 0, {"b": np.zeros((1, 2), np.uint8)})),
    (Reason.LENGTH_MISMATCH, Report(1, 0, 0, {"b": np.zeros((2, 1), np.uint8)})),
]


@pytest.mark.parametrize(("reason", "report"), MALFORMED)
def test_a_malformed_report_is_a_rejection(reason: Reason, report: Any) -> None:
    with pytest.raises(Rejection) as refused:
        READER.read(report)
    assert refused.value.reason is reason


def test_bits_beyond_the_last_are_refused() -> None:
    plan = plan_of()
    packed = [m.columns[0] for m in plan.mechanisms]
    group = next(g for g, c in enumerate(packed) if (c.kind, c.bound) == ("bits", 4))
    name = plan.mechanisms[group].columns[0].name
    reader = RowReader(plan)
    assert reader.read(Report(group, 0, 0, {name: np.array([[0x0F]], np.uint8)}))
    with pytest.raises(Rejection, match="beyond 4"):
        reader.read(Report(group, 0, 0, {name: np.array([[0x10]], np.uint8)}))


def test_seventeen_bits_take_three_bytes_and_one_bit_of_the_last() -> None:
    reader = rows._Bits(Column("b", "bits", 17))
    assert reader.read(np.array([[0xFF, 0xFF, 0x01]], np.uint8)) == b"\xff\xff\x01"
    for wrong, reason in (
        ([0xFF, 0xFF, 0x02], Reason.OUT_OF_RANGE),
        ([0xFF, 0xFF], Reason.LENGTH_MISMATCH),
        ([0xFF, 0xFF, 0, 0], Reason.LENGTH_MISMATCH),
    ):
        with pytest.raises(Rejection) as refused:
            reader.read(np.array([wrong], np.uint8))
        assert refused.value.reason is reason


def test_a_new_reader_refuses_a_window_outside_the_plan_with_a_workers_reason() -> None:
    for window, reason in ((PLAN.windows, Reason.AFTER_END), (-1, Reason.LATE)):
        with pytest.raises(Rejection) as refused:
            RowReader(PLAN).read(Report(0, window, 0, cell(1)))
        assert refused.value.reason is reason


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, ">i4", np.int64, np.uint64])
def test_any_integer_type_will_do(dtype: Any) -> None:
    assert READER.read(Report(0, 5, 0, cell(11, dtype))) == (0, 5, (0, (11,)))


def test_a_row_does_not_follow_its_report() -> None:
    counted, packed = np.array([3]), BITS.copy()
    rows_read = [
        READER.read(Report(0, 0, 0, {"v": counted})),
        READER.read(Report(1, 0, 0, {"b": packed})),
    ]
    counted[0], packed[0, 0] = 99, 0
    assert [row for _, _, row in rows_read] == [(0, (3,)), (0, (b"\x05",))]


def test_rows_of_every_mechanism_become_the_batch_that_they_came_from() -> None:
    plan = plan_of()
    reader = RowReader(plan)
    for g, mechanism in enumerate(plan.mechanisms):
        values = np.arange(20) % mechanism.cells
        columns = mechanism.perturb(values, SeededRandomness(g))
        view = np.arange(20) % len(plan.groups[g].views)
        read = [
            reader.read(
                Report(g, 1, int(view[i]), {name: c[i : i + 1] for name, c in columns.items()})
            )[2]
            for i in range(20)
        ]
        encoded = batch_of_rows(plan, g, 1, read)
        batch = decode_batch(plan, g, encoded.batch_id, encoded.value)
        assert (batch.n, batch.period, encoded.n, encoded.group) == (20, 1, 20, g)
        assert batch.view is None or batch.view.tolist() == view.tolist()
        for name, column in columns.items():
            assert np.array_equal(batch.columns[name], column)


def only_if(fits: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let encoding fail for any set of cells that does not fit."""
    real = rows.make_batch

    def failing_make_batch(*arguments: Any) -> EncodedBatch:
        if not fits(arguments[-1]["v"].tolist()):
            raise OverflowError("a defect")
        return real(*arguments)

    monkeypatch.setattr(rows, "make_batch", failing_make_batch)


def sealed_apart(cells: list[int]) -> tuple[list[list[int]], int]:
    """Encode rows; return the cells of every batch, and how many rows were dropped."""
    dropped: list[int] = []
    made: list[Row] = [(0, (value,)) for value in cells]
    out = batches_of_rows(PLAN, 0, 0, made, dropped.append)
    batches = [decode_batch(PLAN, 0, one.batch_id, one.value) for one in out]
    return [batch.columns["v"].tolist() for batch in batches], sum(dropped)


@pytest.mark.parametrize("cells", [[7], [1, 7], [7, 1, 2, 7, 3], [7, 7, 7], [1, 2, 3]])
def test_only_a_row_that_cannot_be_encoded_is_left_out(
    cells: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    only_if(lambda values: 7 not in values, monkeypatch)
    sound = [value for value in cells if value != 7]
    assert sealed_apart(cells) == ([sound] if sound else [], cells.count(7))


def test_rows_that_fail_only_together_are_encoded_separately(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    only_if(lambda values: len(values) <= 2 and 7 not in values, monkeypatch)
    batches, dropped = sealed_apart([1, 2, 7, 3, 4, 5])
    assert sorted(chain(*batches)) == [1, 2, 3, 4, 5]
    assert (max(map(len, batches)), dropped) == (2, 1)


def test_nothing_at_all_can_be_sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    only_if(lambda _: False, monkeypatch)
    assert sealed_apart(list(range(9))) == ([], 9)
    assert sealed_apart([]) == ([], 0)
