"""Repair of the opening of a connection to a broker.

Fault: kafka-python does not bound the TLS handshake, and does not close the socket of a connection
that fails.
Effect: a peer that accepts a TCP connection and then stays silent over TLS, such as a frozen broker
or one whose host lost its power, holds up a client for ever: the first contact does not return, and
a running client never connects to this broker again. Sockets of failed connections stay open until
the garbage collector finds them: a service had up to a hundred of them during an outage.
Repair: the handshake ends when the time for the connection is over, and the socket is closed.
"""

from __future__ import annotations

import socket
import ssl
from typing import Any

from kafka import errors as kafka_errors
from kafka.net.inet import KafkaNetSocket
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport


class _Opener(KafkaNetSocket):  # type: ignore[misc]  # the client has no types
    """Opens sockets, and closes those that do not connect."""

    SCHEMES = ()

    async def sock_connect(
        self, net: Any, sock: socket.socket, address: Any, timeout_at: float | None = None
    ) -> socket.socket:
        """Connect the socket; close it where this fails or is given up."""
        try:
            await super().sock_connect(net, sock, address, timeout_at=timeout_at)
        except BaseException:
            sock.close()
            raise
        return sock


class _Tls(KafkaSSLTransport):  # type: ignore[misc]  # the client has no types
    """A connection with TLS whose handshake ends in time."""

    def __init__(self, timeout_at: float | None, *others: Any, **settings: Any) -> None:
        super().__init__(*others, **settings)
        self._timeout_at = timeout_at

    async def handshake(self) -> None:
        """Agree on keys; raises KafkaTimeoutError when the time is over."""
        while True:
            try:
                self._sock.do_handshake()
            except ssl.SSLWantReadError:
                await self._net.wait_read(self._sock, self._timeout_at)
            except ssl.SSLWantWriteError:
                await self._net.wait_write(self._sock, self._timeout_at)
            else:
                return


def close_failed_connections(manager: Any) -> None:
    """Bound the opening of each connection in time, and close what fails."""

    async def build_transport(node: Any, timeout_at: float | None = None) -> Any:
        sock = await _open(manager, node, timeout_at)
        transport = None
        try:
            transport = _transport(manager, sock, node.host, timeout_at)
            await transport.handshake()
        except BaseException as error:
            (sock if transport is None else transport._sock).close()
            if not isinstance(error, Exception):
                raise
            raise kafka_errors.KafkaConnectionError(f"Handshake failed: {error}") from error
        return transport

    manager._build_transport = build_transport


async def _open(manager: Any, node: Any, timeout_at: float | None) -> Any:
    """Connect to the first address of a node that accepts."""
    opener, options = _Opener(), manager.config["socket_options"]
    failure: Exception = kafka_errors.KafkaConnectionError(f"no address of {node.host} is known")
    for address in opener.dns_lookup(node.host, node.port):
        try:
            return await opener.connect(manager._net, address, options, timeout_at=timeout_at)
        except kafka_errors.KafkaTimeoutError as error:
            raise kafka_errors.KafkaConnectionError("Connection timed out") from error
        except (OSError, kafka_errors.KafkaConnectionError) as error:
            failure = kafka_errors.KafkaConnectionError(f"unable to connect: {error}")
    raise failure


def _transport(manager: Any, sock: socket.socket, host: str, timeout_at: float | None) -> Any:
    if not manager.ssl_enabled:
        return KafkaTCPTransport(manager._net, sock, host=host)
    settings = {key: value for key, value in manager.config.items() if key.startswith("ssl_")}
    return _Tls(timeout_at, manager._net, sock, host=host, **settings)
