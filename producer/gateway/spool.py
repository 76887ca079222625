"""Sealed batches on disk until they are acknowledged, so that a restart sends the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from broker.files import read_if_there, real_path, write_durably
from estimators.errors import FatalError, Rejection
from estimators.plan import Plan
from estimators.wire.batch import decode_batch
from producer.encoding import Sealed


class Spool:
    """A directory of batches: ``<directory>/<plan digest>/g<group>-<batch id>.json``.

    A file holds exactly the record's body and nothing but perturbed reports. It is on disk before
    the batch is first sent and goes when the batch is acknowledged; a crash in between sends it
    again under the same id, which the consumer recognises while the window is open.

    Args:
        directory: made where it does not exist. Plans may share it; processes should not, since a
            second one would send the first one's batches again (recognised, but in vain).
        plan: whose batches.
    """

    def __init__(self, directory: str | Path, plan: Plan) -> None:
        self._plan = plan
        self._directory = real_path(Path(directory) / plan.digest)
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FatalError(f"cannot make the spool {directory}: {error.strerror}") from error

    @property
    def directory(self) -> Path:
        """Where this plan's batches lie."""
        return self._directory

    def store(self, sealed: Sealed) -> None:
        """Keep a batch; durable on return. One that is there already stays as it is.

        Raises:
            RecoverableError: it could not be written.
        """
        path = self._path(sealed)
        if not path.exists():
            write_durably(path, sealed.value)

    def remove(self, sealed: Sealed) -> None:
        """Forget a batch; no harm if it is not there."""
        self._path(sealed).unlink(missing_ok=True)

    def pending(self) -> Iterator[Sealed]:
        """What an earlier process left behind, in no particular order.

        Raises:
            FatalError: a file is not a batch of this plan; it is left alone and named.
        """
        for path in sorted(self._directory.glob("g*-*.json")):
            yield self._load(path)

    def _path(self, sealed: Sealed) -> Path:
        return self._directory / f"g{sealed.group:04d}-{sealed.batch_id.hex()}.json"

    def _load(self, path: Path) -> Sealed:
        value = read_if_there(path)
        try:
            group, batch_id = path.stem[1:].split("-")
            key = bytes.fromhex(batch_id)
            batch = decode_batch(self._plan, int(group), key, value)
        except (ValueError, IndexError, Rejection) as error:
            raise FatalError(
                f"{path} is not a batch of this plan ({error}); move it away to go on without it"
            ) from None
        return Sealed(int(group), batch.n, key, value or b"")
