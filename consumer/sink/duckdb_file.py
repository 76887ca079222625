"""Sets in a DuckDB file, in the tables ``results``, ``sets`` and ``statistics``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from calmstream.common.errors import CalmstreamError, FatalError, RecoverableError
from calmstream.common.files import real_path
from calmstream.consumer.sink.arrow_rows import (
    RESULTS,
    SETS,
    STATISTICS,
    results_table,
    sets_table,
    statistics_table,
)
from calmstream.consumer.sink.patience import locked, patiently
from calmstream.consumer.sink.stored import SetId, StoredSet, newest, replaced
from calmstream.consumer.sink.target import SCHEMA_VERSION, Stored
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.snapshot import Kind, Revision

_TYPES = {
    pa.string(): "VARCHAR",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.timestamp("us", tz="UTC"): "TIMESTAMPTZ",
    pa.list_(pa.string()): "VARCHAR[]",
    pa.list_(pa.int64()): "BIGINT[]",
}


def _create(name: str, schema: pa.Schema, unknown: Collection[str] = ()) -> str:
    """Return the statement that makes a table; the columns ``unknown`` can be null."""
    columns = ", ".join(
        f"{field.name} {_TYPES[field.type]}{'' if field.name in unknown else ' NOT NULL'}"
        for field in schema
    )
    return f"CREATE TABLE {name} ({columns});"


MIGRATIONS: tuple[str, ...] = (
    "CREATE TABLE schema_version (version INTEGER NOT NULL);"
    + _create("sets", SETS)
    + _create("results", RESULTS),
    _create("statistics", STATISTICS, unknown=("value", "stderr", "low", "high")),
)
"""SQL that leads from each version to the next one, beginning with version 0, an empty file."""

assert len(MIGRATIONS) == SCHEMA_VERSION

TABLES: Mapping[str, Callable[[Sequence[StoredSet]], pa.Table]] = {
    "sets": sets_table,
    "results": results_table,
    "statistics": statistics_table,
}
"""The tables of a file, and their rows for some sets."""


class DuckDbTarget:
    """A file; see `Target`.

    DuckDB lets one process write, or several processes read. Therefore the file is open only while
    sets are stored, and a file that is in use elsewhere is waited for. Sinks exclude each other by
    a lock file beside it.

    The tables have no unique keys, because DuckDB checks keys before a transaction's deletions
    count. Each set is deleted and inserted in one transaction under the lock of the file.

    Args:
        path: the file; it is created if it does not exist.
        migrations: the steps of the schema.
    """

    def __init__(self, path: Path, migrations: tuple[str, ...] = MIGRATIONS) -> None:
        self.name = f"DuckDB {path}"
        self._path = real_path(path)
        self._migrations = migrations

    def check_plan(self, plan: Plan) -> None:
        """See the protocol; DuckDB stores every text."""

    def open(self) -> None:
        """See the protocol; an unusable file is reported here."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FatalError(f"{self.name}: {error.strerror}") from None
        with self._connected():
            pass

    def store(self, sets: Sequence[StoredSet]) -> Stored:
        """See the protocol."""
        with self._connected() as connection:
            stored = _stored(connection, sets[0])
            chosen = newest(sets, stored)
            if chosen:
                old = {i for one in chosen for i in replaced(one) if i in stored}
                _write(connection, chosen, old)
        return Stored(len(chosen), sum(one.rows for one in chosen))

    def abort(self) -> None:
        """See the protocol; no call waits for another process."""

    def close(self) -> None:
        """See the protocol."""

    @contextlib.contextmanager
    def _connected(self) -> Iterator[duckdb.DuckDBPyConnection]:
        try:
            with locked(self._path), contextlib.closing(self._connect()) as connection:
                self._migrate(connection)
                yield connection
        except CalmstreamError as error:
            raise type(error)(f"{self.name}: {error}") from None
        except duckdb.Error as error:
            text = f"{self.name}: {' '.join(str(error).split())}"
            # A full disk and a file that another process has open are IO errors.
            passes = isinstance(error, duckdb.IOException | duckdb.TransactionException)
            raise (RecoverableError(text) if passes else FatalError(text)) from None

    def _connect(self) -> duckdb.DuckDBPyConnection:
        return patiently(
            lambda: duckdb.connect(str(self._path)),
            lambda error: isinstance(error, duckdb.IOException),
        )

    def _migrate(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create the tables or bring them to the newest version, in one transaction."""
        places = connection.execute(
            "SELECT path FROM duckdb_databases() WHERE database_name = current_database()"
        ).fetchall()
        if places == [(None,)]:
            # DuckDB opens data files, such as CSV or JSON, as views in memory.
            raise FatalError("it is not a DuckDB file: state another file")
        rows = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        names = {name for (name,) in rows}
        version = 0
        if "schema_version" in names:
            (version,) = connection.execute("SELECT version FROM schema_version").fetchall()[0]
        elif names:
            raise FatalError("it holds tables of another program: state another file")
        if version > len(self._migrations):
            raise FatalError(
                f"it has version {version}, this calmstream knows {len(self._migrations)}: upgrade "
                "calmstream to write to it"
            )
        if version == len(self._migrations):
            return
        with _transaction(connection):
            for step in self._migrations[version:]:
                connection.execute(step)
            connection.execute("DELETE FROM schema_version")
            connection.execute("INSERT INTO schema_version VALUES (?)", [len(self._migrations)])


@contextlib.contextmanager
def _transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    connection.execute("BEGIN")
    try:
        yield
    except BaseException:
        with contextlib.suppress(duckdb.Error):
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _stored(connection: duckdb.DuckDBPyConnection, one: StoredSet) -> dict[SetId, Revision]:
    rows = connection.execute(
        "SELECT window_number, kind, offsets FROM sets WHERE output_namespace = ? AND plan = ?",
        [one.output_namespace, one.manifest.plan],
    ).fetchall()
    return {SetId(window, Kind(kind)): tuple(offsets) for window, kind, offsets in rows}


def _write(
    connection: duckdb.DuckDBPyConnection, sets: Sequence[StoredSet], old: Collection[SetId]
) -> None:
    first = sets[0]
    with _transaction(connection):
        for window, kind in old:
            for table in TABLES:
                connection.execute(
                    f"DELETE FROM {table} WHERE output_namespace = ? AND plan = ? "  # noqa: S608 - constant texts
                    "AND window_number = ? AND kind = ?",
                    [first.output_namespace, first.manifest.plan, window, kind.value],
                )
        for table, rows_of in TABLES.items():
            connection.register("rows_to_insert", rows_of(sets))
            connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM rows_to_insert")  # noqa: S608
            connection.unregister("rows_to_insert")
