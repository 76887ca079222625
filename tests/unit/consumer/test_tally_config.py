from __future__ import annotations

from typing import Any

import pytest
from pydantic import SecretStr

from consumer.config import HttpConfig, Settings, TallyConfig, load, refuse_unknown, variables
from estimators.errors import InvalidInput


def test_arguments_come_before_the_environment_before_defaults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CALMSTREAM_CHECKPOINT_SECONDS", "7")
    monkeypatch.setenv("CALMSTREAM_POLL_RECORDS", "9")
    config = load(TallyConfig, poll_records=11, stop_seconds=None)
    assert (config.checkpoint_seconds, config.poll_records, config.stop_seconds) == (7, 11, 20)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"chekpoint_seconds": 1}, "chekpoint_seconds"),
        ({"checkpoint_seconds": 0}, "checkpoint_seconds"),
        ({"poll_records": "many"}, "poll_records"),
        ({"session_seconds": 1.0, "poll_seconds": 0.6}, "half of session_seconds"),
    ],
)
def test_one_line_says_what_is_wrong(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        load(TallyConfig, **arguments)
    assert "\n" not in str(caught.value)


def test_a_wrong_value_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALMSTREAM_HTTP_PORT", "99999")
    with pytest.raises(InvalidInput, match="http_port"):
        load(HttpConfig)


def test_unknown_variables_are_refused_without_their_value() -> None:
    known = variables(TallyConfig, HttpConfig)
    assert "CALMSTREAM_SESSION_SECONDS" in known
    refuse_unknown({"CALMSTREAM_SESSION_SECONDS": "1", "PATH": "/bin"}, known)
    with pytest.raises(InvalidInput, match="CALMSTREAM_SESION_SECONDS") as caught:
        refuse_unknown({"CALMSTREAM_SESION_SECONDS": "hunter2"}, known)
    assert "hunter2" not in str(caught.value)


def test_secrets_are_redacted() -> None:
    class WithSecret(Settings):
        token: SecretStr = SecretStr("hunter2")
        size: int = 3

    config = load(WithSecret)
    assert config.redacted() == {"token": "***", "size": 3}
    assert "hunter2" not in repr(config)


def test_settings_do_not_change() -> None:
    with pytest.raises(Exception, match="frozen"):
        load(TallyConfig).poll_records = 3
