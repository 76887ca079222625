"""A relay in front of a broker: one address whose target changes, as a name in DNS does."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Self


class Relay:
    """Forwards TCP connections from a port of its own to the present target."""

    def __init__(self, target: str) -> None:
        self.target = target
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._socket.accept()
                host, _, port = self.target.rpartition(":")
                try:
                    server = socket.create_connection((host, int(port)), timeout=5)
                except OSError:
                    client.close()
                    continue
                server.settimeout(None)
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=_copy, args=ends, daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(1 << 16):
            target.sendall(piece)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
