"""Check the spool, which keeps encoded batches on disk until they are acknowledged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calmstream.common.errors import FatalError
from calmstream.estimators.randomness import SystemRandomness
from calmstream.producer.gateway.encoding import EncodedBatch, make_batch
from calmstream.producer.gateway.spool import Spool
from tests.support.producer import make_plan

PLAN = make_plan()


def encoded(group: int = 0, n: int = 2) -> EncodedBatch:
    """Return an encoded batch of n reports of a group in window 1."""
    columns = PLAN.mechanisms[group].perturb(np.zeros(n, int), SystemRandomness())
    return make_batch(PLAN, group, 1, np.zeros(n, int), columns)


def test_batches_come_back_as_they_were(tmp_path: Path) -> None:
    batches = [encoded(g, n) for g in range(3) for n in (1, 5)]
    spool = Spool(tmp_path / "spool", PLAN)
    for batch in batches:
        spool.store(batch)
        spool.store(batch)
    loaded = list(Spool(tmp_path / "spool", PLAN).pending())
    assert sorted(loaded, key=repr) == sorted(batches, key=repr)
    for batch in batches:
        spool.remove(batch)
        spool.remove(batch)
    assert list(spool.pending()) == []


def test_plans_do_not_see_each_others_batches(tmp_path: Path) -> None:
    Spool(tmp_path, PLAN).store(encoded())
    assert list(Spool(tmp_path, make_plan(name="other")).pending()) == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        # A name is the group and the batch id. A content of None is a valid batch of group 0.
        ("g0000-" + "0" * 32 + ".json", b"{}"),  # not a batch
        ("g0000-" + "0" * 32 + ".json", b""),  # empty
        ("g0001-" + "0" * 32 + ".json", None),  # a batch of another group
        ("g0099-" + "0" * 32 + ".json", None),  # a group that the plan does not have
        ("g0000-1234.json", None),  # an id that is too short
        ("gx-y.json", None),  # neither group nor id
    ],
)
def test_a_foreign_file_is_named_and_not_changed(
    tmp_path: Path, name: str, content: bytes | None
) -> None:
    spool = Spool(tmp_path, PLAN)
    path = spool.directory / name
    path.write_bytes(encoded().value if content is None else content)
    with pytest.raises(FatalError, match=name):
        list(spool.pending())
    assert path.exists()


def test_half_written_files_are_ignored(tmp_path: Path) -> None:
    spool = Spool(tmp_path, PLAN)
    (spool.directory / ".g0000-00.json.ab.tmp").write_bytes(b"{")
    assert list(spool.pending()) == []


def test_a_spool_needs_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FatalError, match="cannot make the spool"):
        Spool(tmp_path / "file", PLAN)


def test_a_spool_opened_by_a_link_keeps_its_folder_when_the_link_changes(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    spool, batch = Spool(tmp_path / "link", PLAN), encoded()
    spool.store(batch)
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to(tmp_path)
    spool.remove(batch)
    assert list(Spool(tmp_path / "real", PLAN).pending()) == []
