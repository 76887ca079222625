"""Sets of tables (snapshots) in PostgreSQL, in the schema ``calmstream``."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from calmstream.common.errors import CalmstreamError, FatalError, InvalidInput, RecoverableError
from calmstream.consumer.sink.postgres_schema import LOCK, create
from calmstream.consumer.sink.target import Stored, newest, replaced
from calmstream.consumer.subscribe.assembler import SetId, Snapshot
from calmstream.consumer.subscribe.columns import OF_SET, statistic_rows
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.snapshot import Kind, MarginalRecord, Revision

_DEFAULTS: dict[str, Any] = {
    "application_name": "calmstream sink",
    "connect_timeout": 10,
    # A host that disappears without a word is noticed within half a minute.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}
Row = tuple[Any, ...]
_INSERT_SET = sql.SQL(
    "INSERT INTO calmstream.sets ({columns}) VALUES ({values}) RETURNING set_id"
).format(
    columns=sql.SQL(", ").join(map(sql.Identifier, ("output_namespace", *OF_SET))),
    values=sql.SQL(", ").join([sql.Placeholder()] * (1 + len(OF_SET))),
)


class PostgresTarget:
    """A database; see `Target`. `store` is one transaction under a lock, so sinks take turns."""

    def __init__(self, address: str) -> None:
        try:
            given = conninfo_to_dict(address)
        except psycopg.Error:
            # The message of libpq may repeat a part of the password.
            raise InvalidInput("--to: not a valid PostgreSQL address") from None
        self._parameters = _DEFAULTS | given
        self._password = str(given.get("password") or "")
        host, port = given.get("host") or "", given.get("port") or ""
        place = f"{host}:{port}" if host and port else str(host)
        self.name = f"PostgreSQL {place}/{given.get('dbname') or ''}".rstrip("/ ")
        self._connection: psycopg.Connection[Any] | None = None
        self._lock = threading.Lock()

    def check_plan(self, plan: Plan) -> None:
        for attribute in plan.domain.attributes:
            if any("\0" in label for label in attribute.labels):
                raise InvalidInput(
                    f"--to: PostgreSQL cannot store the character U+0000 in a label of "
                    f"attribute {attribute.name!r}; use parquet:DIR"
                )

    def open(self) -> None:
        with self._errors():
            self._connect()

    def store(self, namespace: str, sets: Sequence[Snapshot]) -> Stored:
        with self._lock, self._errors():
            connection = self._connect()
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
                ids, stored = _stored(connection, namespace, sets)
                chosen = newest(sets, stored)
                _remove(connection, [ids[i] for s in chosen for i in replaced(s) if i in ids])
                _insert(connection, namespace, chosen)
        return Stored(len(chosen), sum(one.cells for one in chosen))

    def abort(self) -> None:
        """Shut the socket down; the connection keeps its descriptor."""
        connection = self._connection
        with contextlib.suppress(OSError, psycopg.Error):
            if connection is not None and not connection.closed:
                with contextlib.closing(socket.socket(fileno=os.dup(connection.fileno()))) as same:
                    same.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def _connect(self) -> psycopg.Connection[Any]:
        if self._connection is None:
            # Without prepared statements, a pooler may give every transaction another connection.
            self._connection = psycopg.connect(
                **self._parameters, autocommit=True, prepare_threshold=None
            )
            create(self._connection)
        return self._connection

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except CalmstreamError as error:
            self.close()
            raise type(error)(f"{self.name}: {error}") from None
        except psycopg.Error as error:
            self.close()
            text = f"{self.name}: {self._message(error)}"
            raise (RecoverableError(text) if _passes(error) else FatalError(text)) from None

    def _message(self, error: psycopg.Error) -> str:
        lines = [line for line in str(error).splitlines() if "Is the server running" not in line]
        text = error.diag.message_primary or " ".join(" ".join(lines).split())
        text = text or type(error).__name__
        return text.replace(self._password, "***") if self._password else text


def _passes(error: psycopg.Error) -> bool:
    state = error.sqlstate or ""
    if state.startswith(("28", "3D")):
        return False  # wrong user, password or database
    # A failed-over server answers "read-only transaction" (25006).
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) or state == "25006"


def _stored(
    connection: psycopg.Connection[Any], namespace: str, sets: Sequence[Snapshot]
) -> tuple[dict[SetId, int], dict[SetId, Revision]]:
    rows = connection.execute(
        "SELECT window_number, kind, set_id, offsets FROM calmstream.sets "
        "WHERE output_namespace = %s AND plan = %s AND window_number = ANY(%s)",
        (namespace, sets[0].manifest.plan, [one.window for one in sets]),
    ).fetchall()
    ids = {SetId(window, Kind(kind)): row for window, kind, row, _ in rows}
    return ids, {SetId(window, Kind(kind)): tuple(at) for window, kind, _, at in rows}


def _remove(connection: psycopg.Connection[Any], ids: list[int]) -> None:
    if not ids:
        return
    for table in ("cells", "table_statistics"):
        connection.execute(
            sql.SQL(
                "DELETE FROM calmstream.{} WHERE table_id IN "
                "(SELECT table_id FROM calmstream.tables WHERE set_id = ANY(%s))"
            ).format(sql.Identifier(table)),
            (ids,),
        )
    connection.execute("DELETE FROM calmstream.tables WHERE set_id = ANY(%s)", (ids,))
    connection.execute("DELETE FROM calmstream.sets WHERE set_id = ANY(%s)", (ids,))


def _insert(connection: psycopg.Connection[Any], namespace: str, sets: Sequence[Snapshot]) -> None:
    count = sum(len(one.marginals) for one in sets)
    ids = connection.execute(
        "SELECT nextval(pg_get_serial_sequence('calmstream.tables', 'table_id')) "
        "FROM generate_series(1, %s)",
        (count,),
    ).fetchall()
    free = iter([number for (number,) in ids])
    placed = []
    for one in sets:
        values = [namespace, *(value(one.manifest) for value in OF_SET.values())]
        ((row,),) = connection.execute(_INSERT_SET, values).fetchall()
        placed += [(next(free), row, table) for table in one.marginals.values()]
    _copy(
        connection,
        "tables (table_id, set_id, attributes, reports, flags)",
        ((n, s, list(t.attributes), t.reports, list(t.flags)) for n, s, t in placed),
    )
    _copy(connection, "cells", (row for n, _, table in placed for row in _cells(n, table)))
    _copy(
        connection,
        "table_statistics",
        (row for n, _, table in placed for row in _statistics(n, table)),
    )


def _copy(connection: psycopg.Connection[Any], into: str, rows: Iterable[Row]) -> None:
    statement = sql.SQL("COPY calmstream.{} FROM STDIN").format(sql.SQL(into))
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row(row)


def _cells(table_id: int, table: MarginalRecord) -> Iterator[Row]:
    labels = map(list, product(*table.labels))
    cells = zip(labels, table.table, table.stderr, strict=True)
    for number, (names, value, stderr) in enumerate(cells):
        yield table_id, number, names, value, stderr


def _statistics(table_id: int, table: MarginalRecord) -> Iterator[Row]:
    for number, row in enumerate(statistic_rows([table])):
        del row["reports"]  # the table has them
        yield table_id, number, *row.values()
