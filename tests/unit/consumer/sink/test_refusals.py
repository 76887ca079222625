"""Check that a target which cannot be used is refused in one sentence, without a password."""

from __future__ import annotations

from pathlib import Path

import pytest

from calmstream.common import files
from calmstream.common.errors import FatalError, InvalidInput, RecoverableError
from calmstream.common.files import exclusive
from calmstream.consumer.sink.target import target_of
from tests.support.ports import free_port
from tests.support.sink.postgres import PostgresServer
from tests.support.sink.targets import postgres_place


@pytest.mark.parametrize(
    "address",
    [
        "",
        "mysql://root:secret@host/db",
        "postgresql:secret",
        "duckdb:results.duckdb",
        "parquet:",
        "secret",
        "postgresql://user:secret%zz@host/db",
        "postgresql://user:secret@host:port/db?nonsense=secret",
    ],
)
def test_a_bad_address_is_refused_without_repeating_it(address: str) -> None:
    with pytest.raises(InvalidInput, match="--to: ") as refused:
        target_of(address)
    assert "secret" not in str(refused.value)


def test_a_server_that_does_not_listen_or_refuses_the_password(
    postgres_server: PostgresServer,
) -> None:
    closed = target_of(f"postgresql://sink:secret@127.0.0.1:{free_port()}/results")
    with pytest.raises(RecoverableError, match="Connection refused") as refused:
        closed.open()
    assert "secret" not in str(refused.value)
    wrong = target_of(f"postgresql://sink:secret@127.0.0.1:{postgres_server.port}/postgres")
    with pytest.raises(RecoverableError, match="password authentication failed") as refused:
        wrong.open()
    assert "secret" not in str(refused.value)
    assert "secret" not in wrong.name


def test_a_user_without_rights_is_refused(postgres_server: PostgresServer) -> None:
    database = postgres_server.database()
    with postgres_server.connect(database) as owner:
        owner.execute("CREATE ROLE guest LOGIN PASSWORD 'secret'")
    target = target_of(f"postgresql://guest:secret@127.0.0.1:{postgres_server.port}/{database}")
    with pytest.raises(FatalError, match=r"^PostgreSQL .*permission denied for database"):
        target.open()
    with postgres_server.connect(database) as owner:
        owner.execute("DROP ROLE guest")


def test_another_version_is_refused(postgres_server: PostgresServer) -> None:
    where = postgres_place(postgres_server, postgres_server.database())
    target = where.target()
    target.open()
    target.close()
    with postgres_server.connect(where.address.rsplit("/", 1)[1]) as connection:
        connection.execute("UPDATE calmstream.schema_version SET version = 2")
    with pytest.raises(FatalError, match="has version 2, this calmstream writes version 1: use"):
        where.target().open()


def test_tables_of_another_program_are_refused(
    postgres_server: PostgresServer,
) -> None:
    database = postgres_server.database()
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE SCHEMA calmstream CREATE TABLE cells (x int)")
    target = postgres_place(postgres_server, database).target()
    with pytest.raises(FatalError, match="tables of another program"):
        target.open()


def test_unusable_directories_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(FatalError, match=str(file)):
        target_of(f"parquet:{file}/results").open()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LOCK_SECONDS", 0.2)


def test_a_directory_that_is_locked_is_a_failure_that_passes(
    tmp_path: Path, impatient: None
) -> None:
    target = target_of(f"parquet:{tmp_path}")
    target.open()
    in_use = pytest.raises(RecoverableError, match="is in use by another process")
    with exclusive(tmp_path / "calmstream-sink", wait=True), in_use:
        target.store("x", [])
    target.open()
