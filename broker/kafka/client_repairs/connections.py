"""Repairs of the opening of connections; docs/upstream explains each fault.

A TLS handshake has no time limit, so a peer that accepts and stays silent holds up a client for
ever. Sockets of failed connections, and the thread of a failed start, stay: an outage uses them up.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient
from kafka.net.inet import KafkaNetSocket
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

# Longest time to wait for the thread of a client whose start has failed, in seconds. It ends at
# once unless it waits for the address of a host; then it ends later by itself.
_CLOSE_SECONDS = 1.0


class _Opener(KafkaNetSocket):  # type: ignore[misc]  # the client has no types
    """Opens sockets, and closes those that do not connect."""

    SCHEMES = ()

    async def sock_connect(
        self, net: Any, sock: socket.socket, address: Any, timeout_at: float | None = None
    ) -> socket.socket:
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


@contextmanager
def close_failed_start() -> Iterator[dict[str, Any]]:
    """Yield settings for the constructor of a client, and close what it opened if it fails.

    The constructor connects at once, so the repair of connections is made here.
    """
    opened: list[KafkaNetClient] = []

    def open_network(**settings: Any) -> KafkaNetClient:
        network = KafkaNetClient(**settings)
        close_failed_connections(network._manager)
        opened.append(network)
        return network

    try:
        yield {"kafka_client": open_network}
    except BaseException:
        for network in opened:
            closing = threading.Thread(target=network.close, name="kafka-close", daemon=True)
            closing.start()
            closing.join(_CLOSE_SECONDS)
        raise
