"""Connection of commands to Kafka; security settings come from the environment only."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from calmstream.broker.kafka import KafkaBroker, connect
from calmstream.broker.security import Security
from calmstream.broker.transport import GroupReader, Reader, Sink, Topics
from calmstream.common.errors import InvalidInput
from calmstream.common.settings import Secret, Settings, load, variable


class SecurityConfig(Settings):
    """Settings of TLS and SASL.

    The password comes from a file or from the variable ``CALMSTREAM_SASL_PASSWORD``.

    Attributes:
        security_protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        sasl_mechanism: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
        sasl_username: user name for SASL.
        sasl_password: the password; it is never shown. Prefer the file.
        sasl_password_file: file that has the password as its content.
        ssl_cafile, ssl_certfile, ssl_keyfile: PEM files.
        ssl_check_hostname: whether the certificate must name the host.
    """

    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str | None = None
    sasl_username: str | None = None
    sasl_password: Secret | None = None
    sasl_password_file: Path | None = None
    ssl_cafile: Path | None = None
    ssl_certfile: Path | None = None
    ssl_keyfile: Path | None = None
    ssl_check_hostname: bool = True

    def security(self) -> Security:
        """Return the settings for the broker package.

        Raises:
            InvalidInput: settings contradict each other; the message names the variables.
        """
        try:
            return self._security()
        except InvalidInput as error:
            which = ", ".join(variable(name) for name in self.given())
            raise InvalidInput(f"{which}: {error}") from None

    def _security(self) -> Security:
        password = None if self.sasl_password is None else self.sasl_password.reveal()
        if password == "":
            raise InvalidInput("the password is empty")
        return Security(
            protocol=self.security_protocol,
            mechanism=self.sasl_mechanism,
            username=self.sasl_username,
            password=password,
            password_file=self.sasl_password_file,
            cafile=self.ssl_cafile,
            certfile=self.ssl_certfile,
            keyfile=self.ssl_keyfile,
            check_hostname=self.ssl_check_hostname,
        )


def kafka(bootstrap: str, **limits: Any) -> KafkaBroker:
    """Connect to ``HOST:PORT[,HOST:PORT]`` with the security of ``CALMSTREAM_*`` variables.

    Raises:
        RecoverableError: no broker answers.
        InvalidInput: settings are not valid.
    """
    return connect(bootstrap, load(SecurityConfig).security(), **limits)


class LazyKafka:
    """A connection to Kafka that is made when it is first needed, and tried again after a failure.

    It is a `Broker`. Safe for use from several threads.
    """

    def __init__(self, bootstrap: str, **limits: Any) -> None:
        self._bootstrap = bootstrap
        self._limits = limits
        self._lock = threading.Lock()
        self._broker: KafkaBroker | None = None

    def sink(self) -> Sink:
        """Return a new sink; raises as :func:`kafka`."""
        return self._connected().sink()

    def reader(self) -> Reader:
        """Return a new reader; raises as :func:`kafka`."""
        return self._connected().reader()

    def group_reader(self, group: str, *, member: str | None = None) -> GroupReader:
        """Return a new member of a consumer group; raises as :func:`kafka`."""
        return self._connected().group_reader(group, member=member)

    def topics(self) -> Topics:
        """Return a new administrator; raises as :func:`kafka`."""
        return self._connected().topics()

    def close(self) -> None:
        """Close all clients that are still open."""
        with self._lock:
            if self._broker is not None:
                self._broker.close()
                self._broker = None

    def _connected(self) -> KafkaBroker:
        with self._lock:
            if self._broker is None:
                self._broker = kafka(self._bootstrap, **self._limits)
            return self._broker
