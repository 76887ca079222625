"""Ports on 127.0.0.1 for servers that tests start."""

from __future__ import annotations

import random
import socket

# Below the range from which systems take ports of outgoing connections (32768 on Linux, 49152
# elsewhere): another process's connection could take such a port before the server listens, or
# while it restarts.
LOWEST, HIGHEST = 10_000, 32_000
TRIES = 100


def free_port() -> int:
    """Return a port that nothing uses now and that no outgoing connection will use.

    Raises:
        OSError: every port that was tried is in use.
    """
    for _ in range(TRIES):
        # From the system: processes of one test run may have seeded `random` alike.
        port = random.SystemRandom().randint(LOWEST, HIGHEST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port found between {LOWEST} and {HIGHEST}")
