"""Check the settings of a worker: their sources, refusals, and that no password is shown."""

from __future__ import annotations

import os

import pytest

from calmstream.common.errors import InvalidInput
from calmstream.common.settings import load, refuse_unknown, variables
from calmstream.consumer.runtime.config import TallyConfig


def test_arguments_come_before_the_environment_before_defaults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CALMSTREAM_CHECKPOINT_SECONDS", "7")
    monkeypatch.setenv("CALMSTREAM_RETRY_SECONDS", "9")
    config = load(TallyConfig, retry_seconds=11, stop_seconds=None)
    assert (config.checkpoint_seconds, config.retry_seconds, config.stop_seconds) == (7, 11, 20)


def test_a_variable_of_a_setting_that_only_code_sets_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CALMSTREAM_TICK_SECONDS", "9")
    assert load(TallyConfig).tick_seconds == 1
    assert load(TallyConfig, tick_seconds=7).tick_seconds == 7
    with pytest.raises(InvalidInput, match="unknown environment variable CALMSTREAM_TICK_SECONDS"):
        refuse_unknown(os.environ, variables(TallyConfig))


def test_a_session_is_longer_than_two_polls() -> None:
    message = (
        "^CALMSTREAM_SESSION_SECONDS must be at least twice the time of a poll, 0.6 s, not 1 s"
    )
    with pytest.raises(InvalidInput, match=message):
        load(TallyConfig, session_seconds=1.0, poll_seconds=0.6)
