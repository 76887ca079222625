"""The command line: the parser, and the change of errors into one line and an exit code.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted; 3 from ``produce``: nothing failed,
but the plan ended before every device was asked. A traceback is shown only with
``CALMSTREAM_DEBUG=1``.
"""

from __future__ import annotations

import argparse
import codecs
import errno
import gc
import io
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn

from calmstream.common.errors import CalmstreamError, InvalidInput
from calmstream.common.text import visible

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

COMMANDS = (
    "plan",
    "keys",
    "sign",
    "verify",
    "topics",
    "produce",
    "gateway",
    "consume",
    "watch",
    "query",
    "changes",
    "serve",
    "analyse",
    "export",
    "sink",
    "inspect",
    "status",
    "replay",
    "retire",
    "acl",
    "demo",
    "demo-web",
    "evaluate",
    "central",
    "health",
)


SERVICE = frozenset(
    (
        *("cramjam", "crc32c", "fastapi", "httptools", "kafka", "prometheus_client"),
        *("psycopg", "pyarrow", "pydantic", "rich", "structlog", "uvicorn", "uvloop"),
    )
)
"""Modules that ``pip install calmstream`` leaves out: devices need none of them."""


class MissingExtra(InvalidInput):
    """Something needs a module of the service, which was not installed with calmstream."""

    def __init__(self, what: str, module: str) -> None:
        super().__init__(
            f"{what} needs the package {module}, which is not installed: "
            "pip install 'calmstream[service]'"
        )
        self.module = module


class Parser(argparse.ArgumentParser):
    """A parser that reports errors in one line, without the usage.

    Attributes:
        missing: why a command could not be loaded; None if all were loaded.
    """

    missing: MissingExtra | None = None

    def error(self, message: str) -> NoReturn:
        """Print the message and exit with 2."""
        self.exit(2, f"calmstream: {message.removeprefix('argument ')} (see {self.prog} --help)\n")

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Print the help; unlike the base class, do not hide that it could not be written."""
        (file or sys.stdout).write(self.format_help())


class _Version(argparse.Action):
    """Prints the version; it is looked up only then, because that takes a tenth of the start."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        """Print the version and exit with 0."""
        from calmstream.version import version

        print(f"calmstream {version()}")  # noqa: T201 - this is the interface
        parser.exit()


def parser(chosen: str | None = None) -> Parser:
    """Return the parser; every command registers itself.

    Args:
        chosen: load only this command, which saves the imports of the others.

    Raises:
        MissingExtra: the chosen command needs packages that are not installed.
    """
    top = Parser(
        prog="calmstream",
        description="Marginal statistics from perturbed reports, over Kafka.",
    )
    top.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    if chosen in COMMANDS:
        _module(chosen).add(commands)
        return top
    for name in COMMANDS:
        try:
            _module(name).add(commands)
        except MissingExtra as error:
            top.missing = MissingExtra("the whole command line", error.module)
            commands.add_parser(name, help="needs a package that is not installed, see below")
    if top.missing is not None:
        top.epilog = str(top.missing)
    return top


def _module(command: str) -> ModuleType:
    """Import the module of a command.

    Raises:
        MissingExtra: the module needs packages that are not installed.
    """
    try:
        return import_module(f"calmstream.commands.{command.replace('-', '_')}")
    except ModuleNotFoundError as error:
        raise _missing(error, f"calmstream {command}") or error from None


def _missing(error: ModuleNotFoundError, what: str) -> MissingExtra | None:
    """Return the error that says how to install a missing module; None if it is another one."""
    return MissingExtra(what, error.name) if error.name in SERVICE else None


ONE_THREAD: Mapping[str, str] = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"
)
"""Environment that numpy reads when it is loaded: its matrix products use one thread. Several would
add in another order, and the last bits of tables would depend on the number of processors."""


INTERRUPTED = 130
"""Exit code after Ctrl-C, as of any program that the signal SIGINT ends."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code of the process."""
    argv = sys.argv[1:] if argv is None else argv
    os.environ.update(ONE_THREAD)
    _open_streams()
    try:
        # While modules are loaded there is nothing to collect; looking for it takes a tenth of the
        # start.
        gc.disable()
        arguments = _parsed(argv)
        gc.enable()
        code = int(arguments.run(arguments))
        sys.stdout.flush()
    except SystemExit:  # after --help or a wrong option
        try:
            sys.stdout.flush()
        except OSError as error:
            return _fail(error)
        raise
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and (missing := _missing(error, "calmstream")):
            return _fail(missing)
        if os.environ.get("CALMSTREAM_DEBUG"):
            raise
        return _fail(error)
    return code


_PLAIN = str.maketrans(
    {"·": "-", "…": "...", "±": "+-", "×": "x", "→": "->", "–": "-", "─": "-", "█": "#"}
)
"""Signs of our pages in ASCII."""


def _open_streams() -> None:
    """Make standard output and error accept every text: what their encoding lacks is an escape.

    A stream that the caller has closed is replaced: writing to that of output is an error, as on
    a full disk. Otherwise a socket could take its number and receive what is printed.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            mode = os.O_WRONLY if name == "stderr" else os.O_RDONLY
            while (descriptor := os.open(os.devnull, mode)) < number:
                pass
            setattr(sys, name, open(descriptor, "r" if name == "stdin" else "w"))  # noqa: SIM115, PTH123
    codecs.register_error("calmstream", _plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="calmstream")


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_PLAIN)
    return text.encode("ascii", "backslashreplace").decode(), error.end


def _parsed(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line.

    Raises:
        MissingExtra: the command needs packages that are not installed.
    """
    top = parser(argv[0] if argv else None)
    if top.missing is not None and not argv:
        raise top.missing
    return top.parse_args(argv)


def _fail(error: Exception) -> int:
    """Print an error in one line; return the exit code."""
    if not isinstance(error, BrokenPipeError):
        # A closed output (``| head``) needs no message.
        _say(error if isinstance(error, CalmstreamError) else _unforeseen(error))
    try:
        sys.stdout.flush()
    except OSError:
        # Otherwise Python reports an error when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 2 if isinstance(error, InvalidInput) else 1


def _unforeseen(error: Exception) -> str:
    """Return the message of an error that is not calmstream's own."""
    if isinstance(error, OSError) and error.errno == errno.EBADF:
        return "cannot write: the output is closed"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    first = next(iter(str(error).splitlines()), "")
    if isinstance(error, MemoryError):
        return f"out of memory: {first}" if first else "out of memory"
    name = type(error).__name__
    return f"internal error, {name}: {first} (CALMSTREAM_DEBUG=1 shows where; please report it)"


def _say(message: object) -> None:
    print(f"calmstream: {visible(str(message))}", file=sys.stderr)  # noqa: T201 - the interface


if __name__ == "__main__":
    sys.exit(main())
