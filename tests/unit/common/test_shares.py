from __future__ import annotations

import pytest

from calmstream.common.http.sending import BodyBudget
from calmstream.common.http.shares import Share


def test_a_large_taking_leaves_room_as_small_ones_do() -> None:
    share = Share(100)
    assert share.take("a", 1)
    assert not share.take("a", 99)
    assert share.take("a", 74)
    assert not share.take("a")
    assert not share.take("b", 20), "a first taking too"
    assert share.take("b", 18)


def test_a_peer_without_anything_has_the_last_place() -> None:
    share = Share(2)
    assert [share.take(peer) for peer in "aabc"] == [True, False, True, False]


@pytest.mark.parametrize("size", [90, 100, 1000])
def test_a_body_of_any_size_is_sent_alone(size: int) -> None:
    budget, body, other = BodyBudget(100), bytes(size), bytes(20)
    assert budget.hold(body, "a")
    assert budget.hold(body, "b"), "another reader of the same costs nothing"
    assert not budget.hold(other, "b")
    budget.release(body)
    assert not budget.hold(other, "b")
    budget.release(body)
    assert budget.hold(other, "b")
    assert not budget.hold(body, "a"), "not alone"
