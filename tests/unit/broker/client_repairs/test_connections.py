"""Check that opening a connection ends in time, and that a failed one leaves nothing open."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer
from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient
from kafka.net.inet import KafkaNetSocket
from kafka.net.transport import KafkaTCPTransport

from calmstream.broker.kafka.client_repairs.connections import close_failed_connections
from tests.support.ports import free_port
from tests.support.runs import python

DEADLINE = 60.0
LIMIT_SECONDS = 1.0  # enough for a starved client to try at all
PATIENCE = 3 * LIMIT_SECONDS

Opener = Callable[..., Any]


def repaired(**settings: Any) -> Any:
    network = KafkaNetClient(**settings)
    close_failed_connections(network._manager)
    return network


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A peer that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(DEADLINE)
        yield server


def address_of(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"


class Attempt:
    """A client that tries to connect, on a thread of its own, and what comes of it."""

    def __init__(self, opener: Opener, address: str, protocol: str) -> None:
        self.error: BaseException | None = None
        self._networks: list[Any] = []
        self._opener = opener
        self._settings = {
            "bootstrap_servers": [address],
            "security_protocol": protocol,
            "bootstrap_timeout_ms": 1000 * LIMIT_SECONDS,
            "kafka_client": self._open,
        }
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _open(self, **settings: Any) -> Any:
        self._networks.append(self._opener(**settings))
        return self._networks[-1]

    def _run(self) -> None:
        try:
            KafkaAdminClient(**self._settings)
        except kafka_errors.KafkaError as error:
            self.error = error

    def ended(self, seconds: float) -> bool:
        self.thread.join(seconds)
        return not self.thread.is_alive()

    def close(self) -> None:
        for network in self._networks:
            network.close()


def test_without_the_repair_a_silent_peer_holds_up_a_client_with_tls(
    silent: socket.socket,
) -> None:
    attempt = Attempt(KafkaNetClient, address_of(silent), "SSL")
    peer, _ = silent.accept()
    assert not attempt.ended(PATIENCE), "the fault is gone: delete the repair"
    peer.close()
    assert attempt.ended(DEADLINE)
    attempt.close()


@pytest.mark.parametrize("protocol", ["SSL", "PLAINTEXT"])
def test_a_silent_peer_is_given_up_in_time(silent: socket.socket, protocol: str) -> None:
    attempt = Attempt(repaired, address_of(silent), protocol)
    assert attempt.ended(DEADLINE)
    assert isinstance(attempt.error, kafka_errors.KafkaTimeoutError)
    attempt.close()


@pytest.fixture
def sockets(monkeypatch: pytest.MonkeyPatch) -> list[socket.socket]:
    """The sockets of all clients, with and without TLS."""
    found: list[socket.socket] = []
    make, init = KafkaNetSocket.socket, KafkaTCPTransport.__init__

    def new_socket(self: Any, *arguments: Any) -> socket.socket:
        found.append(make(self, *arguments))
        return found[-1]

    def new_transport(self: Any, net: Any, sock: socket.socket, **more: Any) -> None:
        found.append(sock)
        init(self, net, sock, **more)

    monkeypatch.setattr(KafkaNetSocket, "socket", new_socket)
    monkeypatch.setattr(KafkaTCPTransport, "__init__", new_transport)
    return found


def refuse(opener: Opener, protocol: str) -> None:
    attempt = Attempt(opener, f"127.0.0.1:{free_port()}", protocol)
    assert attempt.ended(DEADLINE)
    attempt.close()


def left(sockets: list[socket.socket]) -> list[socket.socket]:
    assert sockets
    return [one for one in sockets if one.fileno() >= 0]


def test_without_the_repair_sockets_are_left(sockets: list[socket.socket]) -> None:
    refuse(KafkaNetClient, "PLAINTEXT")
    assert left(sockets), "the fault is gone: delete _Opener"
    for one in sockets:
        one.close()


@pytest.mark.parametrize("protocol", ["SSL", "PLAINTEXT"])
def test_a_failed_connection_leaves_no_socket(sockets: list[socket.socket], protocol: str) -> None:
    refuse(repaired, protocol)
    assert left(sockets) == []


# Prints by how many the open descriptors and the threads grow in five attempts to connect.
ATTEMPTS = """
import gc, os, sys, threading
from calmstream.broker.kafka import connect
from calmstream.common.errors import RecoverableError

gc.disable()  # what is open must not depend on it

def used():
    return len(os.listdir("/proc/self/fd")), threading.active_count()

def attempt():
    try:
        connect(sys.argv[1], connect_seconds=0.3)
    except RecoverableError:
        return
    raise AssertionError("a broker answered")

attempt()
before = used()
for _ in range(5):
    attempt()
print(*(new - old for new, old in zip(used(), before)))
"""


@pytest.fixture
def address() -> str:
    return f"127.0.0.1:{free_port()}"


@pytest.mark.parametrize("make", [KafkaAdminClient, KafkaConsumer])
def test_without_the_repair_a_thread_is_left(make: Callable[..., Any], address: str) -> None:
    opened: list[Any] = []

    def note(**settings: Any) -> Any:
        opened.append(KafkaNetClient(**settings))
        return opened[-1]

    name = f"failed-{address}"
    with pytest.raises(kafka_errors.KafkaTimeoutError):
        make(
            bootstrap_servers=[address],
            client_id=name,
            bootstrap_timeout_ms=100,
            kafka_client=note,
        )
    names = {thread.name for thread in threading.enumerate()}
    assert f"kafka-io-{name}" in names, "the fault is gone: delete the repair"
    opened[0].close()


def test_a_service_can_try_for_ever(address: str) -> None:
    assert python("-c", ATTEMPTS, address).stdout.split() == ["0", "0"]
