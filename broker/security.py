"""TLS and SASL settings of a connection.

The password can come from a file or an environment variable.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from calmstream.common.errors import InvalidInput

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@dataclass(frozen=True, slots=True)
class Security:
    """Settings of one connection. ``repr`` omits the password.

    Attributes:
        protocol: one of :data:`PROTOCOLS`.
        mechanism: one of :data:`MECHANISMS`; allowed with a SASL protocol only.
        username: the name for SASL.
        password: the password for SASL. With a SASL protocol exactly one of the three password
            attributes must be set, otherwise none.
        password_file: a file whose content, without the final line break, is the password.
        password_env: name of an environment variable that holds the password.
        cafile: PEM file of trusted certificates; None means the system's certificates.
        certfile: PEM file of the client's own certificate, for mutual TLS.
        keyfile: PEM file of the private key of ``certfile``.
        check_hostname: whether the broker's certificate must contain the host name to which the
            client connects.

    Raises:
        InvalidInput: settings contradict each other, or a file does not exist.
    """

    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    password_file: Path | None = None
    password_env: str | None = None
    cafile: Path | None = None
    certfile: Path | None = None
    keyfile: Path | None = None
    check_hostname: bool = True

    def __post_init__(self) -> None:
        _one_of("security protocol", self.protocol, PROTOCOLS)
        if self.sasl:
            self._check_sasl()
        elif any((self.mechanism, self.username, *self._passwords())):
            raise InvalidInput(f"SASL settings need a SASL protocol, not {self.protocol}")
        if not self.tls and (self.cafile or self.certfile or self.keyfile):
            raise InvalidInput(f"TLS files need SSL or SASL_SSL, not {self.protocol}")
        if self.keyfile and not self.certfile:
            raise InvalidInput("a TLS key file needs its certificate file")
        for path in (self.cafile, self.certfile, self.keyfile, self.password_file):
            if path is not None and not path.is_file():
                raise InvalidInput(f"no such file: {path}")

    @property
    def sasl(self) -> bool:
        """Whether the client authenticates by SASL."""
        return self.protocol.startswith("SASL_")

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.protocol.endswith("SSL")

    def client_settings(self, env: Mapping[str, str] = os.environ) -> dict[str, Any]:
        """Return these settings as keyword arguments of the Kafka client, password included.

        The password file is read at each call.

        Raises:
            InvalidInput: the environment variable is not set or the password is empty.
            OSError, UnicodeDecodeError: the password file cannot be read.
        """
        settings: dict[str, Any] = {"security_protocol": self.protocol}
        if self.tls:
            settings |= {
                "ssl_check_hostname": self.check_hostname,
                "ssl_cafile": _text(self.cafile),
                "ssl_certfile": _text(self.certfile),
                "ssl_keyfile": _text(self.keyfile),
            }
        if self.sasl:
            settings |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.username,
                "sasl_plain_password": self._secret(env),
            }
        return settings

    def _check_sasl(self) -> None:
        _one_of("SASL mechanism", self.mechanism, MECHANISMS)
        if not self.username:
            raise InvalidInput("SASL needs a username")
        if sum(source is not None for source in self._passwords()) != 1:
            raise InvalidInput("SASL needs exactly one of password, password_file, password_env")

    def _passwords(self) -> tuple[object, ...]:
        return (self.password, self.password_file, self.password_env)

    def _secret(self, env: Mapping[str, str]) -> str:
        if self.password_file is not None:
            secret = self.password_file.read_text(encoding="utf-8").removesuffix("\n")
        elif self.password_env is not None:
            secret = env.get(self.password_env, "")
        else:
            secret = self.password or ""
        if not secret:
            source = self.password_file or self.password_env
            origin = f" from {source}" if source else ""
            raise InvalidInput(f"the SASL password{origin} is empty")
        return secret


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _one_of(what: str, value: str | None, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InvalidInput(f"{what} must be one of {', '.join(allowed)}, not {value!r}")
