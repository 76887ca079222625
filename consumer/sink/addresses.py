"""How an address such as ``parquet:DIR`` becomes a target."""

from __future__ import annotations

from pathlib import Path

from calmstream.common.errors import InvalidInput
from calmstream.consumer.sink.target import Target


def target_of(address: str) -> Target:
    """Return the target of an address; nothing is opened or created."""
    scheme, _, rest = address.partition(":")
    if scheme in ("postgresql", "postgres") and rest.startswith("//"):
        from calmstream.consumer.sink.postgres import PostgresTarget

        return PostgresTarget(address)
    if scheme == "parquet" and rest:
        from calmstream.consumer.sink.parquet_files import ParquetTarget

        return ParquetTarget(Path(rest))
    raise InvalidInput("--to: expected postgresql://... or parquet:DIR (DuckDB reads these files)")
