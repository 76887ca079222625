"""``python -m calmstream``, and what the shell's command calls."""

import atexit
import os
import sys
import threading

from calmstream.cli import main


def run() -> None:
    """Run a command, and end the process with its exit code."""
    code = 1  # after an exception

    def end() -> None:
        """End a process whose threads still compute: numpy aborts it if Python ends them."""
        if any(thread.daemon for thread in threading.enumerate()):
            sys.stderr.flush()  # ``main`` has flushed the other one
            os._exit(code)

    atexit.register(end)  # the first function that is registered is the last that is called
    code = main()
    sys.exit(code)


if __name__ == "__main__":
    run()
