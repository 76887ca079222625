"""Check the settings of a worker: their sources, refusals, and that no password is shown."""

from __future__ import annotations

import os
from typing import Any

import pytest

from calmstream.common.errors import InvalidInput
from calmstream.common.settings import Secret, load, refuse_unknown, variables
from calmstream.connect import SecurityConfig
from calmstream.consumer.runtime.config import HttpConfig, TallyConfig


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"chekpoint_seconds": 1}, "^--chekpoint-seconds: "),
        ({"checkpoint_seconds": 0}, "^--checkpoint-seconds: "),
        ({"poll_records": "many"}, "^--poll-records: "),
        (
            {"session_seconds": 1.0, "poll_seconds": 0.6},
            "^CALMSTREAM_SESSION_SECONDS must be at least twice the time of a poll, 0.6 s, not 1 s",
        ),
    ],
)
def test_an_error_is_one_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        load(TallyConfig, **arguments)
    assert "\n" not in str(caught.value)


def test_a_wrong_value_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALMSTREAM_HTTP_PORT", "99999")
    with pytest.raises(InvalidInput, match=r"^CALMSTREAM_HTTP_PORT: "):
        load(HttpConfig)
    # Only what is in force is blamed.
    assert load(HttpConfig, http_port=1).http_port == 1
    with pytest.raises(InvalidInput, match=r"^--http-port: "):
        load(HttpConfig, http_port=99999)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"SECURITY_PROTOCOL": "SSLL"}, "CALMSTREAM_SECURITY_PROTOCOL: security protocol must be"),
        ({"SASL_USERNAME": "me"}, "CALMSTREAM_SASL_USERNAME: SASL settings need a SASL protocol"),
        (
            {"SECURITY_PROTOCOL": "SASL_SSL", "SASL_MECHANISM": "PLAIN"},
            "CALMSTREAM_SASL_MECHANISM, CALMSTREAM_SECURITY_PROTOCOL: SASL needs a username",
        ),
        ({"SASL_PASSWORD": ""}, "CALMSTREAM_SASL_PASSWORD: the password is empty"),
        ({"SSL_CHECK_HOSTNAME": "perhaps"}, "CALMSTREAM_SSL_CHECK_HOSTNAME: "),
    ],
)
def test_the_variables_of_a_connection_that_cannot_be_are_named(
    values: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in values.items():
        monkeypatch.setenv(f"CALMSTREAM_{name}", value)
    with pytest.raises(InvalidInput) as caught:
        load(SecurityConfig).security()
    assert str(caught.value).startswith(message)


def test_no_password_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALMSTREAM_SECURITY_PROTOCOL", "SASL_SSL")
    monkeypatch.setenv("CALMSTREAM_SASL_MECHANISM", "PLAIN")
    monkeypatch.setenv("CALMSTREAM_SASL_USERNAME", "worker")
    monkeypatch.setenv("CALMSTREAM_SASL_PASSWORD", "hunter2")
    config = load(SecurityConfig)
    assert config.redacted()["sasl_password"] == "***"
    for shown in (config.redacted(), config, vars(config), config.security()):
        assert "hunter2" not in f"{shown} {shown!r}"
    assert config.security().client_settings()["sasl_plain_password"] == "hunter2"


def test_an_empty_password_is_refused() -> None:
    with pytest.raises(InvalidInput, match="the password is empty"):
        SecurityConfig(sasl_password=Secret("")).security()
