"""Encoded batches on disk until they are acknowledged, so that a restart sends the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from calmstream.common.errors import FatalError, Rejection
from calmstream.common.files import read_if_there, real_path, write_durably
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.batch import decode_batch
from calmstream.producer.gateway.encoding import EncodedBatch


class Spool:
    """A directory of batches, ``<directory>/<plan digest>/g<group>-<batch id>.json``.

    A file holds exactly the record's body: perturbed reports and nothing else. It is written before
    the batch is first sent and deleted when the batch is acknowledged. After a crash in between,
    the batch is sent again under the same id, which the consumer recognises while the window is
    open.

    Args:
        directory: created if it does not exist. Plans may share it; processes should not, because a
            second process would send the batches of the first one again.
        plan: the plan of the batches.
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
        """Directory of this plan's batches."""
        return self._directory

    def store(self, batch: EncodedBatch) -> None:
        """Write a batch; durable on return. A batch that is there already stays unchanged.

        Raises:
            RecoverableError: it could not be written.
        """
        path = self._path(batch)
        if not path.exists():
            write_durably(path, batch.value)

    def remove(self, batch: EncodedBatch) -> None:
        """Delete a batch, if it is there."""
        self._path(batch).unlink(missing_ok=True)

    def give_up(self, batch: EncodedBatch) -> None:
        """Keep the batch: the next start sends it again."""

    def pending(self) -> Iterator[EncodedBatch]:
        """Yield the batches that an earlier process left, in no particular order.

        Raises:
            FatalError: a file is not a batch of this plan; the message names it.
        """
        for path in sorted(self._directory.glob("g*-*.json")):
            yield self._load(path)

    def _path(self, batch: EncodedBatch) -> Path:
        return self._directory / f"g{batch.group:04d}-{batch.batch_id.hex()}.json"

    def _load(self, path: Path) -> EncodedBatch:
        value = read_if_there(path)
        try:
            group, batch_id = path.stem[1:].split("-")
            key = bytes.fromhex(batch_id)
            batch = decode_batch(self._plan, int(group), key, value)
        except (ValueError, IndexError, Rejection) as error:
            raise FatalError(
                f"{path} is not a batch of this plan ({error}); move it away to continue without it"
            ) from None
        return EncodedBatch(int(group), batch.n, key, value or b"")
