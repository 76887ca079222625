"""Check TLS and SASL settings: combinations that are refused, and that no password is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from calmstream.broker.security import Security
from calmstream.common.errors import InvalidInput


def test_plain_is_the_default() -> None:
    assert Security().client_settings({}) == {"security_protocol": "PLAINTEXT"}


def test_the_password_comes_from_one_place_and_never_shows(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("s3cret \n", encoding="utf-8")
    given = Security("SASL_SSL", "PLAIN", "edge", password="s3cret")
    from_file = Security("SASL_SSL", "SCRAM-SHA-512", "edge", password_file=file)
    from_env = Security("SASL_SSL", "PLAIN", "edge", password_env="PW")
    assert given.client_settings({})["sasl_plain_password"] == "s3cret"
    assert from_file.client_settings({})["sasl_plain_password"] == "s3cret "
    assert from_file.client_settings({})["sasl_mechanism"] == "SCRAM-SHA-512"
    assert from_env.client_settings({"PW": "s3cret"})["sasl_plain_password"] == "s3cret"
    for security in (given, from_file, from_env):
        assert "s3cret" not in repr(security)
        assert "s3cret" not in str(security)


@pytest.mark.parametrize("env", [{}, {"PW": ""}])
def test_an_absent_password_names_its_source_only(env: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match=r"PW is empty"):
        Security("SASL_SSL", "PLAIN", "edge", password_env="PW").client_settings(env)


def test_tls_files_are_handed_on(tmp_path: Path) -> None:
    pem = tmp_path / "ca.pem"
    pem.touch()
    settings = Security("SSL", cafile=pem, certfile=pem, keyfile=pem).client_settings({})
    assert settings["ssl_cafile"] == settings["ssl_certfile"] == settings["ssl_keyfile"] == str(pem)
    assert settings["ssl_check_hostname"] is True
    assert "sasl_mechanism" not in settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"protocol": "TLS"}, "security protocol"),
        ({"protocol": "SASL_SSL"}, "mechanism"),
        ({"protocol": "SASL_SSL", "mechanism": "GSSAPI"}, "mechanism"),
        ({"protocol": "SASL_SSL", "mechanism": "PLAIN"}, "username"),
        ({"protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "u"}, "exactly one"),
        (
            {
                "protocol": "SASL_SSL",
                "mechanism": "PLAIN",
                "username": "u",
                "password": "p",
                "password_env": "P",
            },
            "exactly one",
        ),
        ({"username": "u"}, "SASL settings"),
        ({"protocol": "SSL", "password": "p"}, "SASL settings"),
        ({"cafile": Path("/")}, "TLS files"),
        ({"protocol": "SSL", "cafile": Path("/no/such")}, "no such file"),
        ({"protocol": "SSL", "keyfile": Path("/k")}, "certificate"),
    ],
)
def test_what_does_not_fit_together_is_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Security(**settings)  # type: ignore[arg-type]
