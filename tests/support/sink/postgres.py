"""A real PostgreSQL server for tests, of Debian's package, in a temporary directory."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.ports import free_port
from tests.support.runs import ran
from tests.support.service.processes import until

REQUIRED = "CALMSTREAM_REQUIRE_POSTGRES"
PASSWORD = "p%w:o/rd'quoted"
START_SECONDS = 180.0


def programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=_version)
    if found:
        return found[-1].parent
    beside = shutil.which("initdb")
    return None if beside is None else Path(beside).parent


def _version(path: Path) -> int:
    name = path.parts[-3]
    return int(name) if name.isdigit() else 0


class PostgresServer:
    """A server on the loopback address. Its user ``sink`` has the password :data:`PASSWORD`."""

    def __init__(self, bin_directory: Path) -> None:
        self._bin = bin_directory
        self._home = Path(tempfile.mkdtemp(prefix="calmstream-postgres-"))
        self._as_user: tuple[str, ...] = ()
        if os.geteuid() == 0:
            shutil.chown(self._home, "postgres", "postgres")
            # A program changes the user: in this process it would take a fork, for which a process
            # that has reserved much address space gets no memory.
            self._as_user = (
                *["setpriv", "--reuid", "postgres", "--regid", "postgres"],
                "--clear-groups",
            )
        self.port = free_port()
        self._server: subprocess.Popen[bytes] | None = None
        self._number = 0
        secret = self._home / "secret"
        secret.write_text(PASSWORD + "\n")
        if self._as_user:
            shutil.chown(secret, "postgres", "postgres")
        self._run(
            "initdb", "--pgdata", str(self._home / "data"), "--username", "sink", "--no-sync",
            "--auth", "scram-sha-256", "--pwfile", str(secret), "--encoding", "UTF8",
            "--locale", "C.UTF-8",
        )  # fmt: skip
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        words = [*self._as_user, self._bin / program, *arguments]
        ran(*words, seconds=START_SECONDS, cwd=self._home)

    def start(self) -> None:
        with (self._home / "log").open("ab") as log:
            self._server = subprocess.Popen(
                [
                    *self._as_user, str(self._bin / "postgres"), "-D", str(self._home / "data"),
                    "-c", f"port={self.port}", "-c", "listen_addresses=127.0.0.1",
                    "-c", f"unix_socket_directories={self._home}", "-c", "fsync=off",
                ],
                stdout=log, stderr=log, cwd=self._home,
            )  # fmt: skip
        until("PostgreSQL answers", self._answers, START_SECONDS)

    def _answers(self) -> bool:
        assert self._server is not None
        assert self._server.poll() is None, (self._home / "log").read_text()
        with contextlib.suppress(psycopg.OperationalError):
            self.connect("postgres").close()
            return True
        return False

    def stop(self) -> None:
        """Stop the server at once, as a crash does."""
        assert self._server is not None
        self._server.send_signal(signal.SIGQUIT)
        self._server.wait(START_SECONDS)

    def close(self) -> None:
        if self._server is not None and self._server.poll() is None:
            self.stop()
        shutil.rmtree(self._home, ignore_errors=True)

    def database(self) -> str:
        self._number += 1
        name = f"results{self._number}_{time.monotonic_ns()}"
        with self.connect("postgres") as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return name

    def connect(self, database: str) -> psycopg.Connection[Any]:
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user="sink",
            password=PASSWORD,
            dbname=database,
            autocommit=True,
            connect_timeout=30,
        )

    def address(self, database: str) -> str:
        """Return the address for ``--to``, without the password."""
        return f"postgresql://sink@127.0.0.1:{self.port}/{database}"


def provided() -> Iterator[PostgresServer]:
    """Yield a server; skip, or if it is required fail, without the programs."""
    found = programs()
    if found is None:
        why = "PostgreSQL's server is not installed (Debian: postgresql)"
        if os.environ.get(REQUIRED):
            pytest.fail(f"{REQUIRED} is set, but {why}")
        pytest.skip(why)
    server = PostgresServer(found)
    try:
        yield server
    finally:
        server.close()
