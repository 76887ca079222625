from __future__ import annotations

import numpy as np
import pytest

from calmstream.common.errors import DomainError, InvalidInput
from calmstream.estimators.domain import MAX_CARDINALITY, Attribute, Domain

DOMAIN = Domain(
    (
        Attribute("colour", ("red", "green", "blue", "?"), other=3),
        Attribute("size", ("small", "large")),
        Attribute("shop", ("north", "south", "west")),
    )
)
COLUMNS = {
    "shop": ["west", "north", "south"],
    "colour": ["blue", "mauve", "red"],
    "size": ["large", "small", "small"],
    "ignored": ["x", "y", "z"],
}


def test_encode_follows_the_domain_and_maps_unknown_labels_to_other() -> None:
    codes = DOMAIN.encode(COLUMNS)
    assert codes.dtype == np.uint16
    np.testing.assert_array_equal(codes, [[2, 1, 2], [3, 0, 0], [0, 0, 1]])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": ["large", "small", "huge"]}, r"row 3: 'size' has no label 'huge'"),
        ({"size": ["large"]}, "columns of different lengths"),
    ],
)
def test_encode_is_strict_without_other(changes: dict[str, list[str]], message: str) -> None:
    with pytest.raises(DomainError, match=message):
        DOMAIN.encode(COLUMNS | changes)


def test_cells_are_row_major() -> None:
    grid = np.indices((4, 2, 3)).reshape(3, -1).T
    np.testing.assert_array_equal(DOMAIN.cells(grid, (0, 1, 2)), np.arange(24))
    np.testing.assert_array_equal(DOMAIN.cells(grid, (1, 2)), grid[:, 1] * 3 + grid[:, 2])
    np.testing.assert_array_equal(DOMAIN.histogram(grid, (2,)), [8, 8, 8])


@pytest.mark.parametrize(
    ("names", "message"),
    [(["shop", "shop"], "named twice"), (["price"], "no attribute 'price'; there are colour")],
)
def test_bad_names(names: list[str], message: str) -> None:
    with pytest.raises(DomainError, match=message):
        DOMAIN.index(names)


def test_integers_stand_for_the_labels_that_spell_them() -> None:
    domain = Domain((Attribute("n", ("1", "2", "?"), other=2), Attribute("m", ("7", "-8"))))
    for integers in ([1, 2, 3], np.array([1, 2, 3]), np.array([1, 2, 3], np.uint8)):
        columns = {"n": integers, "m": np.array([-8, 7, -8], np.int16)}
        assert domain.encode(columns).tolist() == [[0, 1], [1, 0], [2, 1]]  # type: ignore[arg-type]
    with pytest.raises(DomainError, match=r"row 2: 'm' has no label '9'"):
        domain.encode({"n": [1, 1], "m": [7, 9]})
    with pytest.raises(DomainError, match=r"row 1: 'm' has no label 7\.0"):
        domain.encode({"n": [1], "m": [7.0]})
    assert domain.encode({"n": [True, 1.0, None], "m": ["7"] * 3})[:, 0].tolist() == [2, 2, 2]
    for one in (1, np.int64(1), np.uint8(1), "1"):
        assert domain.code(0, one) == 0
    for other in (True, np.True_, 1.0, np.float32(1), None, 10**5000):
        assert domain.code(0, other) == 2
        assert domain.code(1, other) is None


def test_cells_beyond_sixty_two_bits_are_refused() -> None:
    wide = Domain.binary(62)
    with pytest.raises(DomainError, match=r"2\^62"):
        wide.cells(np.zeros((1, 62), np.uint16), range(62))


@pytest.mark.parametrize(
    ("name", "labels", "other", "message"),
    [
        ("", ("a", "b"), None, "non-empty"),
        ("x", ("a",), None, "2 to 4096 labels, got 1"),
        ("x", tuple(map(str, range(MAX_CARDINALITY + 1))), None, "got 4097"),
        ("x", ("a", "a"), None, "two equal labels"),
        ("x", ("a", "b"), 2, "`other` must be from 0 to 1, got 2"),
        ("x", ("a", "b"), -1, "`other` must be from 0 to 1, got -1"),
    ],
)
def test_bad_attributes(
    name: str, labels: tuple[str, ...], other: int | None, message: str
) -> None:
    with pytest.raises(DomainError, match=message):
        Attribute(name, labels, other)


def test_bad_domains() -> None:
    with pytest.raises(DomainError, match="1 to 1024"):
        Domain(())
    with pytest.raises(DomainError, match="unique"):
        Domain((Attribute("x", ("a", "b")), Attribute("x", ("c", "d"))))
    assert issubclass(DomainError, InvalidInput)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "a list of attributes"),
        (["x"], r"domain\[0\]: expected an object"),
        ([{"name": "x", "labels": ["a", "b"], "size": 2}], r"domain\[0\]: unknown field 'size'"),
        ([{"name": 5, "labels": ["a", "b"]}], r"domain\[0\].name"),
        ([{"name": "x", "labels": ["a", 1]}], r"domain\[0\].labels"),
        ([{"name": "x", "labels": ["a", "b"], "other": "c"}], r"domain\[0\].other: 'c'"),
        ([{"name": "x"}], r"domain\[0\].labels"),
    ],
)
def test_bad_documents(document: object, message: str) -> None:
    with pytest.raises(DomainError, match=message):
        Domain.from_json(document)
