"""Sets as Parquet files: one file for each window and kind."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from calmstream.common.errors import FatalError, RecoverableError
from calmstream.common.files import exclusive, real_path, write_durably
from calmstream.common.text import plan_name
from calmstream.consumer.sink.target import Stored, newest, replaced
from calmstream.consumer.subscribe.arrow_rows import results_table
from calmstream.consumer.subscribe.assembler import SetId, Snapshot
from calmstream.consumer.subscribe.columns import OF_SET, statistic_rows
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.snapshot import Kind, Revision

_METADATA = b"calmstream.set"
_STATISTICS = b"calmstream.statistics"


class ParquetTarget:
    """A directory; see `Target`. A file is renamed into place: readers find it whole or not at all.

    The file of a set is ``<output namespace>/<plan name>-<digest>/<kind>-<window>.parquet``; its
    metadata ``calmstream.set`` and ``calmstream.statistics`` are JSON. A set without tables has no
    rows. A crash between two renames leaves a part of a call stored; the next call stores the rest.
    """

    def __init__(self, directory: Path) -> None:
        self.name = f"Parquet files in {directory}"
        self._directory = directory.absolute()
        self._mode = 0o666 & ~_umask()

    def check_plan(self, plan: Plan) -> None:
        """Parquet stores every text."""

    def open(self) -> None:
        try:
            with self._locked():
                pass
        except RecoverableError as error:
            raise FatalError(f"{self.name}: {error}") from None

    def store(self, namespace: str, sets: Sequence[Snapshot]) -> Stored:
        with self._locked():
            manifest = sets[0].manifest
            name = plan_name(manifest.name, manifest.plan)
            folder = self._directory / namespace / name
            # Of a process that was killed; the lock keeps others out.
            for left in folder.glob(".*.tmp"):
                left.unlink(missing_ok=True)
            ids = {i for one in sets for i in (one.set_id, SetId(one.window, Kind.FINAL))}
            stored = {i: at for i in ids if (at := _offsets(folder / _name(i))) is not None}
            chosen = newest(sets, stored)
            for one in chosen:
                self._write(folder / _name(one.set_id), namespace, one)
            # Early sets of windows whose final was stored before are left by a crash in between.
            for one in sets:
                for old in set(replaced(one)) - {one.set_id}:
                    (folder / _name(old)).unlink(missing_ok=True)
        return Stored(len(chosen), sum(one.cells for one in chosen))

    def abort(self) -> None:
        """Nothing waits for an answer."""

    def close(self) -> None:
        """See the protocol."""

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            with exclusive(real_path(self._directory) / "calmstream-sink", wait=True):
                yield
        except OSError as error:
            raise RecoverableError(f"{self.name}: {error.strerror}") from None

    def _write(self, path: Path, namespace: str, one: Snapshot) -> None:
        facts = {name: value(one.manifest) for name, value in OF_SET.items()}
        metadata = {_METADATA: orjson.dumps({"output_namespace": namespace} | facts)}
        if statistics := list(statistic_rows(one.marginals.values())):
            metadata[_STATISTICS] = orjson.dumps(statistics)
        rows = results_table(namespace, [one]).replace_schema_metadata(metadata)
        buffer = io.BytesIO()
        pq.write_table(rows, buffer, compression="zstd")
        write_durably(path, buffer.getvalue())
        path.chmod(self._mode)


def _name(which: SetId) -> str:
    return f"{which.kind}-{which.window:06d}.parquet"


def _offsets(path: Path) -> Revision | None:
    if not path.exists():
        return None
    try:
        metadata = pq.read_schema(path).metadata or {}
        return tuple(map(int, orjson.loads(metadata[_METADATA])["offsets"]))
    except (pa.ArrowInvalid, orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        raise FatalError(
            f"{path} is not a file of calmstream sink: remove it or state another directory"
        ) from None


def _umask() -> int:
    """Return the process's mask of permissions; it can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
