"""Run a command that must not outlive its parent: `python supervise.py COMMAND ...`.

Prints the child's process id. What the child prints goes to standard error: nobody reads standard
output after the id, so a child that writes there would wait for ever once the pipe is full. When
standard input closes, as it does when the parent dies in whatever way, the child is killed. SIGTERM
and SIGINT are passed on.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading


def main() -> int:
    child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=sys.stderr)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: child.terminate())

    def wait_for_parent() -> None:
        while os.read(0, 1024):
            pass
        child.kill()

    threading.Thread(target=wait_for_parent, daemon=True).start()
    # Last: whoever knows the id may send a signal at once.
    os.write(1, f"{child.pid}\n".encode())
    return child.wait()


if __name__ == "__main__":
    sys.exit(main())
