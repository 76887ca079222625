"""TLS and SASL settings of a connection."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from calmstream.common.errors import InvalidInput
from calmstream.common.settings import Settings, settable, variable


class Secret:
    """A text that is never shown."""

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"


class SecurityConfig(Settings):
    """Settings of TLS and SASL; `check` says which fit together.

    The password comes from a file, without its final line break, or from a variable. Without
    ``ssl_cafile`` the system's certificates are trusted.
    """

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    sasl_username: str | None = None
    sasl_password: Secret | None = None
    sasl_password_file: Path | None = None
    ssl_cafile: Path | None = None
    ssl_certfile: Path | None = None
    ssl_keyfile: Path | None = None
    ssl_check_hostname: bool = True

    def check(self) -> None:
        fault = self._fault()
        if fault:
            names = settable(type(self))
            given = sorted(n for n in names if getattr(self, n) != getattr(type(self), n))
            raise InvalidInput(f"{', '.join(map(variable, given))}: {fault}")

    def client_settings(self) -> dict[str, Any]:
        """Return keyword arguments of the Kafka client; reads the password file each time."""
        settings: dict[str, Any] = {"security_protocol": self.security_protocol}
        if self._tls:
            settings["ssl_check_hostname"] = self.ssl_check_hostname
            for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile"):
                path = getattr(self, name)
                settings[name] = None if path is None else str(path)
        if self._sasl:
            settings |= {
                "sasl_mechanism": self.sasl_mechanism,
                "sasl_plain_username": self.sasl_username,
                "sasl_plain_password": self._password(),
            }
        return settings

    @property
    def _sasl(self) -> bool:
        return self.security_protocol.startswith("SASL_")

    @property
    def _tls(self) -> bool:
        return self.security_protocol.endswith("SSL")

    def _fault(self) -> str:
        passwords = [self.sasl_password, self.sasl_password_file]
        files = [self.ssl_cafile, self.ssl_certfile, self.ssl_keyfile]
        if not self._sasl and any((self.sasl_mechanism, self.sasl_username, *passwords)):
            return f"SASL settings need a SASL protocol, not {self.security_protocol}"
        if self._sasl and not (self.sasl_mechanism and self.sasl_username):
            return "SASL needs a mechanism and a username"
        if self._sasl and passwords.count(None) != 1:
            return "SASL needs a password or a password file, not both"
        if not self._tls and any(files):
            return f"TLS files need SSL or SASL_SSL, not {self.security_protocol}"
        if self.ssl_keyfile and not self.ssl_certfile:
            return "a TLS key file needs its certificate file"
        missing = [
            path for path in (*files, self.sasl_password_file) if path and not path.is_file()
        ]
        return f"no such file: {missing[0]}" if missing else ""

    def _password(self) -> str:
        if self.sasl_password_file is not None:
            secret = self.sasl_password_file.read_text(encoding="utf-8").removesuffix("\n")
        else:
            secret = self.sasl_password.reveal() if self.sasl_password else ""
        if not secret:
            raise InvalidInput("the SASL password is empty")
        return secret
