"""Check the retry budget: its time begins at the first failure and is renewed by a success."""

from __future__ import annotations

import pytest

from calmstream.common.errors import FatalError, RecoverableError
from calmstream.consumer.runtime.retry import RetryBudget
from tests.support.clock import ManualClock


def test_the_budget_is_spent_once_failures_have_lasted_for_it() -> None:
    clock = ManualClock()
    budget = RetryBudget(clock, 10.0)
    for _ in range(2):
        clock.advance(3600)  # the time before the first failure does not count
        assert not budget.failed()
        clock.advance(9.9)
        assert not budget.failed()
        clock.advance(0.1)
        assert budget.failed()
        budget.succeeded()


def test_a_call_is_repeated_until_it_succeeds() -> None:
    clock, failures = ManualClock(), []
    outcomes = iter([RecoverableError("first"), RecoverableError("second"), None])

    def call() -> str:
        error = next(outcomes)
        if error is not None:
            raise error
        return "done"

    budget = RetryBudget(clock, 60.0)
    result = budget.call("the broker", call, pause_seconds=0.5, failed=failures.append)
    assert result == "done"
    assert [str(error) for error in failures] == ["first", "second"]
    assert clock.seconds == 1.0, "two pauses"


def test_a_call_that_never_succeeds_ends_with_the_budget() -> None:
    clock = ManualClock()

    def call() -> None:
        clock.advance(4)
        raise RecoverableError("no answer")

    with pytest.raises(FatalError, match="the broker did not answer for 10 s: no answer"):
        RetryBudget(clock, 10.0).call("the broker", call, pause_seconds=1.0)
    assert clock.seconds == 14.0, "three attempts of 4 s and two pauses: the third ends the budget"
