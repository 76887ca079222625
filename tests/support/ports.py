"""Ports on 127.0.0.1 for servers that tests start."""

from __future__ import annotations

import random
import socket
import sys

# Below the range from which systems take ports of outgoing connections (32768 on Linux, 49152
# elsewhere): another process's connection could take such a port before the server listens, or
# while it restarts.
LOWEST, HIGHEST = 10_000, 32_000
TRIES = 100
_HELD: list[socket.socket] = []
"""Sockets that keep the ports from other processes of a test run until this process ends."""


def free_port() -> int:
    """Return a port that nothing uses now and that no outgoing connection will use.

    Another process that asks gets another port, also before the server listens and while it
    restarts: this process keeps a socket bound to the port. On Linux a server can listen there all
    the same if it sets SO_REUSEADDR, as servers do.
    """
    for _ in range(TRIES):
        # From the system: processes of one test run may have seeded `random` alike.
        port = random.SystemRandom().randint(LOWEST, HIGHEST)
        holder = socket.socket()
        try:
            holder.bind(("127.0.0.1", port))
        except OSError:
            holder.close()
            continue
        if sys.platform == "linux":
            # After the bind, which without this option refuses a port that anybody else holds.
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            _HELD.append(holder)
        else:
            holder.close()
        return port
    raise OSError(f"no free port found between {LOWEST} and {HIGHEST}")
