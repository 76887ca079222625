"""Check TLS and SASL settings: combinations that are refused, and that no password is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from calmstream.broker.security import SecurityConfig
from calmstream.common.errors import InvalidInput
from calmstream.common.settings import load

SASL = {"SECURITY_PROTOCOL": "SASL_SSL", "SASL_MECHANISM": "PLAIN", "SASL_USERNAME": "worker"}


def loaded(monkeypatch: pytest.MonkeyPatch, **values: str) -> SecurityConfig:
    for name, value in values.items():
        monkeypatch.setenv(f"CALMSTREAM_{name}", value)
    return load(SecurityConfig)


def test_plain_is_the_default() -> None:
    assert SecurityConfig().client_settings() == {"security_protocol": "PLAINTEXT"}


@pytest.mark.parametrize("name", ["SASL_PASSWORD", "SASL_PASSWORD_FILE"])
def test_the_password_comes_from_one_place_and_never_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "password"
    file.write_text("hunter2 \n")
    given = str(file) if name == "SASL_PASSWORD_FILE" else "hunter2 "
    config = loaded(monkeypatch, **SASL, **{name: given})
    settings = config.client_settings()
    assert (settings["sasl_mechanism"], settings["sasl_plain_password"]) == ("PLAIN", "hunter2 ")
    for shown in (config, vars(config)):
        assert "hunter2" not in f"{shown} {shown!r}"
    file.write_text("\n")
    if name == "SASL_PASSWORD":
        config = loaded(monkeypatch, SASL_PASSWORD="")
    with pytest.raises(InvalidInput, match="the SASL password is empty"):
        config.client_settings()


def test_tls_files_are_handed_on(tmp_path: Path) -> None:
    pem = tmp_path / "ca.pem"
    pem.touch()
    settings = SecurityConfig(
        security_protocol="SSL", ssl_cafile=pem, ssl_certfile=pem, ssl_keyfile=pem
    ).client_settings()
    assert settings["ssl_cafile"] == settings["ssl_certfile"] == settings["ssl_keyfile"] == str(pem)
    assert settings["ssl_check_hostname"] is True
    assert "sasl_mechanism" not in settings


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"SECURITY_PROTOCOL": "SSLL"}, "CALMSTREAM_SECURITY_PROTOCOL: must be one of PLAINTEXT"),
        ({"SASL_USERNAME": "me"}, "CALMSTREAM_SASL_USERNAME: SASL settings need a SASL protocol"),
        ({"SECURITY_PROTOCOL": "SASL_SSL"}, "CALMSTREAM_SECURITY_PROTOCOL: SASL needs a mechanism"),
        (SASL | {"SASL_MECHANISM": "GSSAPI"}, "CALMSTREAM_SASL_MECHANISM: must be one of PLAIN"),
        (SASL, "CALMSTREAM_SASL_MECHANISM, .*: SASL needs a password or"),
        (SASL | {"SASL_PASSWORD": "p", "SASL_PASSWORD_FILE": "/"}, ".*: SASL needs a password or"),
        ({"SASL_PASSWORD": ""}, "CALMSTREAM_SASL_PASSWORD: SASL settings"),
        ({"SSL_CAFILE": "/"}, "CALMSTREAM_SSL_CAFILE: TLS files need"),
        ({"SECURITY_PROTOCOL": "SSL", "SSL_CAFILE": "/no/such"}, ".*: no such file: /no/such"),
        ({"SECURITY_PROTOCOL": "SSL", "SSL_KEYFILE": "/k"}, ".*: a TLS key file needs"),
        ({"SSL_CHECK_HOSTNAME": "perhaps"}, "CALMSTREAM_SSL_CHECK_HOSTNAME: "),
    ],
)
def test_what_does_not_fit_together_is_refused_with_its_variables(
    values: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidInput, match=f"^{message}"):
        loaded(monkeypatch, **values)
