"""Frames, ids and the clock's mark: the parts of the spool, each on its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from calmstream.common.errors import FatalError
from calmstream.estimators.mechanisms.registry import standard
from calmstream.estimators.plan import Group
from calmstream.estimators.view import View
from calmstream.producer.gateway.durable.entries import SpoolEntry
from calmstream.producer.gateway.durable.files import Files
from calmstream.producer.gateway.durable.frames import HEAD_BYTES, FrameFile
from calmstream.producer.gateway.durable.period_log import IdSet
from calmstream.producer.gateway.durable.plan_spool import SpoolOutcome
from calmstream.producer.gateway.durable.spool import ClockMark, Spool
from calmstream.producer.gateway.settings import GatewaySettings
from tests.support.clock import ManualClock
from tests.support.gateway.spool_world import LABELS, counting_plan
from tests.support.tally import START


def written(path: Path, *payloads: bytes) -> FrameFile:
    frames = FrameFile(Files(), path)
    for payload in payloads:
        frames.append(payload)
    frames.close()
    return frames


def read(path: Path) -> list[bytes]:
    frames = FrameFile(Files(), path)
    found = [payload for _, payload in frames.recover()]
    frames.close()
    return found


@pytest.mark.parametrize("lost", range(1, HEAD_BYTES + 10))
def test_a_torn_tail_is_cut_at_every_length(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "a"
    written(path, b"first", b"second")
    path.write_bytes(path.read_bytes()[:-lost])
    assert read(path) == [b"first"]
    assert read(path) == [b"first"], "the cut is durable"
    frames = FrameFile(Files(), path)
    list(frames.recover())
    frames.append(b"third")
    assert read(path) == [b"first", b"third"]


@pytest.mark.parametrize("kept", range(16))
def test_a_file_that_was_only_begun_is_empty(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "a"
    written(path, b"first")
    path.write_bytes(path.read_bytes()[:kept])
    assert read(path) == []


@pytest.mark.parametrize("kept", range(30))
def test_a_first_frame_whose_rest_reads_as_zeros_was_never_written(
    tmp_path: Path, kept: int
) -> None:
    path = tmp_path / "a"
    written(path, b"first frame")
    whole = path.read_bytes()
    path.write_bytes(whole[:kept] + bytes(len(whole) - kept))
    assert read(path) == []
    frames = FrameFile(Files(), path)
    list(frames.recover())
    frames.append(b"second")
    assert read(path) == [b"second"]


@pytest.mark.parametrize("content", [b"x", b"calm\0x", b"something else, and longer"])
def test_a_file_that_is_no_spool_file_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    with pytest.raises(FatalError, match="no spool file"):
        read(path)
    assert path.read_bytes() == content


def test_a_changed_byte_before_an_intact_frame_is_a_fault_of_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "a"
    written(path, b"first", b"second")
    whole = path.read_bytes()
    for place in range(8, 16 + HEAD_BYTES + 5):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(FatalError, match="damaged at byte 16"):
            read(path)


def test_every_changed_bit_of_the_last_frame_is_said(tmp_path: Path) -> None:
    """It was acknowledged: it is not taken for the trace of a crash."""
    path = tmp_path / "a"
    written(path, b"first", b"second" + bytes(40))
    whole = path.read_bytes()
    last = whole.rindex(b"second") - HEAD_BYTES
    for place in range(last, len(whole) - 4):
        for bit in range(8):
            changed = bytes([whole[place] ^ 1 << bit])
            path.write_bytes(whole[:place] + changed + whole[place + 1 :])
            with pytest.raises(FatalError, match=rf"{path} is damaged at byte {last}"):
                read(path)
    path.write_bytes(whole[:-4] + b"\0end")
    assert len(read(path)) == 2, "of the end mark nothing depends"


def test_a_last_frame_with_a_sector_of_zeros_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "a"
    written(path, b"first", b"x" * 4000)
    whole = path.read_bytes()
    path.write_bytes(whole[:1024] + bytes(512) + whole[1536:])
    assert read(path) == [b"first"]


def test_a_frame_inside_a_report_is_none(tmp_path: Path) -> None:
    """A sender cannot place an intact frame, because the checksum has a random part."""
    written(tmp_path / "other", b"inner")
    inner = (tmp_path / "other").read_bytes()[16:]
    path = tmp_path / "a"
    written(path, b"first", inner)
    path.write_bytes(path.read_bytes()[:-1])
    assert read(path) == [b"first"]


def test_the_set_of_ids_is_a_set() -> None:
    dice, ids, known = Random(3), IdSet(), set[bytes]()
    for _ in range(20_000):
        one = dice.randbytes(1) * 15 + dice.randbytes(1)  # many share parts of each other
        assert (one in ids) == (one in known)
        if one not in known:
            ids.add(one)
            known.add(one)
    assert len(ids) == len(known)
    assert all(one in ids for one in known)


def test_an_id_across_two_others_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calmstream.producer.gateway.durable.period_log._BUCKETS", 1)
    ids = IdSet()
    ids.add(bytes(range(16)))
    ids.add(bytes(range(16, 32)))
    assert bytes(range(8, 24)) not in ids
    assert bytes(range(16, 32)) in ids


def test_the_time_never_goes_back_over_a_restart(tmp_path: Path) -> None:
    clock = ManualClock(1000)
    mark = ClockMark(Files(), tmp_path, clock)
    clock.wall_ms = 5000
    assert mark.present() == 5000
    mark.keep()
    clock.wall_ms = 2000
    assert (mark.present(), mark.behind()) == (5000, 3.0)
    assert ClockMark(Files(), tmp_path, clock).present() == 5000


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"milliseconds": 1.5}', b'"x"'])
def test_another_file_in_place_of_the_mark_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "clock.json").write_bytes(content)
    with pytest.raises(FatalError, match="not the clock of a spool"):
        ClockMark(Files(), tmp_path, ManualClock())


NUMBER, BITS = (0, (3,)), (0, (bytes(LABELS**2 // 8),))


def test_reports_of_all_groups_look_alike(tmp_path: Path) -> None:
    grr, oue = (standard(name, "1", LABELS**2) for name in ("grr", "oue"))
    groups = (Group(grr, (View((0, 1)),), (1,)), Group(oue, (View((0, 1)),), (1,)))
    plan = replace(counting_plan(), groups=groups)
    clock = ManualClock(START * 1000)
    grown, files = [], []
    for group, row in ((0, NUMBER), (1, BITS)):
        folder = tmp_path / str(group)
        spool = Spool(folder, clock, GatewaySettings(min_batch=1))
        before = spool.size
        report = SpoolEntry(bytes(16), 0, group, 0, row)
        assert spool.accept(plan, [report], [None]) == [SpoolOutcome.ACCEPTED]
        grown.append(spool.size - before)
        files.append(sum(path.stat().st_size for path in folder.rglob("*.spool")))
        spool.close()
        again = Spool(folder, clock, GatewaySettings(min_batch=1))
        again.recover()
        assert again.size == spool.size
        again.close()
    assert files[0] != files[1]
    assert grown[0] == grown[1]
