"""The command line: one parser, one place where errors become a line and an exit code.

Exit codes: 0 done, 1 failed, 2 wrong usage. A traceback is never shown; ``CALMSTREAM_DEBUG=1``
shows it to developers.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from calmstream.version import version
from estimators.errors import CalmstreamError, InvalidInput

COMMANDS = (
    "plan",
    "topics",
    "produce",
    "consume",
    "watch",
    "analyse",
    "export",
    "inspect",
    "replay",
    "retire",
    "acl",
    "demo",
    "evaluate",
    "central",
    "health",
)


def parser() -> argparse.ArgumentParser:
    """The whole command line; every command registers itself."""
    top = argparse.ArgumentParser(
        prog="calmstream",
        description="Marginal statistics from perturbed reports, over Kafka. Nobody sees a record.",
    )
    top.add_argument("--version", action="version", version=f"calmstream {version()}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in COMMANDS:
        import_module(f"calmstream.commands.{name}").add(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the process's exit code."""
    arguments = parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except CalmstreamError as error:
        if os.environ.get("CALMSTREAM_DEBUG"):
            raise
        print(f"calmstream: {error}", file=sys.stderr)  # noqa: T201 - this is the interface
        return 2 if isinstance(error, InvalidInput) else 1
    except KeyboardInterrupt:
        print("calmstream: interrupted", file=sys.stderr)  # noqa: T201 - this is the interface
        return 1
    except BrokenPipeError:
        # The reader of our output has gone (``| head``); that is not a failure worth a message.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main())
