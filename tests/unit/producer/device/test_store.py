"""Check what every store of a device's state must do, and what is special about files."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from calmstream.common.errors import FatalError, RecoverableError
from calmstream.common.files import exclusive
from calmstream.producer.device.ledger import DeviceState
from calmstream.producer.device.state_json import to_bytes
from calmstream.producer.device.store import DeviceStore, FileStore, MemoryStore
from tests.support.producer import START, make_plan, unsigned_reporter

PLAN = make_plan()
Again = Callable[[], DeviceStore]


@pytest.fixture(params=["file", "memory"])
def again(request: pytest.FixtureRequest, tmp_path: Path) -> Again:
    """Open the store again, the same one as far as the kind of store allows."""
    memory = MemoryStore()
    return lambda: FileStore(tmp_path / "device.json") if request.param == "file" else memory


def test_a_new_device_gets_a_secret_and_keeps_it(again: Again) -> None:
    first = again().read()
    assert len(first.secret) == 16
    assert not first.lineages
    assert again().read().secret == first.secret


def test_a_change_that_raises_changes_nothing(again: Again) -> None:
    before = again().read()

    def fail(_: DeviceState) -> DeviceState:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        again().update(fail)
    assert again().read() == before


def test_the_file_is_private(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "device.json"
    FileStore(path).update(lambda state: state.spend(PLAN, 0))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def resealed(raw: bytes, **changes: object) -> bytes:
    document = {k: v for k, v in orjson.loads(raw).items() if k != "sha256"} | changes
    summed = hashlib.sha256(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return orjson.dumps(document | {"sha256": summed})


def test_an_older_copy_and_a_deleted_file_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "device.json"
    FileStore(path).read()
    copy = path.read_bytes()
    FileStore(path).update(lambda state: state.spend(PLAN, 1))
    latest = path.read_bytes()
    path.write_bytes(copy)
    with pytest.raises(FatalError, match="older copy"):
        FileStore(path).read()
    path.unlink()
    with pytest.raises(FatalError, match="is gone"):
        FileStore(path).read()
    path.write_bytes(latest)
    assert FileStore(path).read().under(PLAN.lineage)


def test_a_crash_before_the_number_is_written_is_no_rollback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, syncs = tmp_path / "device.json", []
    FileStore(path).read()
    sync = os.fsync

    def fail_third(descriptor: int) -> None:
        syncs.append(descriptor)
        if len(syncs) == 3:
            raise OSError(5, "Input/output error")
        sync(descriptor)

    lock = (tmp_path / "device.json.lock").read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail_third)
        with pytest.raises(RecoverableError, match=r"cannot write .*lock"):
            FileStore(path).update(lambda state: state.spend(PLAN, 1))
    (tmp_path / "device.json.lock").write_bytes(lock)
    assert FileStore(path).read().under(PLAN.lineage)
    FileStore(path).update(lambda state: state.spend(PLAN, 2))
    assert FileStore(path).read().under(PLAN.lineage)[PLAN.digest].reports == 2


def damaged() -> list[bytes]:
    whole = to_bytes(DeviceState(bytes(range(16))).spend(PLAN, 1))
    return [
        b"",
        b"{}",
        b"null",
        b"[1]",
        whole[:-1],
        whole[: len(whole) // 2],
        whole.replace(b'"window":1', b'"window":2'),
        whole.replace(b"000102", b"ff0102"),
        whole.replace(b'"version":1', b'"version":2'),
        whole.replace(b'"version":1', b'"version":true'),
        resealed(whole, version=0),
        resealed(whole, version=2),
        resealed(whole, version=True),
        resealed(whole, lineages={"a": {"b": {"window": 1}}}),
        resealed(whole, recent=[[1, 2, ""]]),
        resealed(whole, ever={"": "-1"}),
        resealed(whole, mark="0"),
        resealed(whole, policy={"roots": []}),
        resealed(whole, withdrawn=0),
        resealed(whole, history=[{"plan": "x"}]),
        b"\x00" * len(whole),
    ]


@pytest.mark.parametrize("content", damaged())
def test_a_damaged_file_is_never_a_new_device(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "device.json"
    path.write_bytes(content)
    with pytest.raises(FatalError, match=r"is damaged.*new device, which reports again"):
        FileStore(path).read()
    with pytest.raises(FatalError):
        FileStore(path).update(lambda state: state.spend(PLAN, 0))
    assert path.read_bytes() == content


def test_a_device_that_was_set_up_must_find_its_file(tmp_path: Path) -> None:
    with pytest.raises(FatalError, match="not a new one"):
        FileStore(tmp_path / "device.json", create=False).read()
    assert not (tmp_path / "device.json").exists()


def test_a_lock_keeps_other_processes_out(tmp_path: Path) -> None:
    path = tmp_path / "device.json"
    code = (
        "import sys; from calmstream.producer.device.store import FileStore\n"
        "from tests.support.producer import *\n"
        "for w in range(20): FileStore(sys.argv[1]).update(lambda s: s.spend(make_plan(), w))"
    )
    root = Path(__file__).parents[4]
    workers = [
        subprocess.Popen([sys.executable, "-c", code, str(path)], cwd=root) for _ in range(3)
    ]
    assert [worker.wait(60) for worker in workers] == [0, 0, 0]
    assert FileStore(path).read().under(PLAN.lineage)[PLAN.digest].reports == 60


def test_a_process_that_keeps_the_lock_stops_nobody_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "device.json"
    store = FileStore(path)
    before = store.read()
    monkeypatch.setattr("calmstream.common.files.LOCK_SECONDS", 0.05)
    with exclusive(path, wait=False), pytest.raises(RecoverableError, match="in use"):
        store.update(lambda state: state.spend(PLAN, 1))
    assert store.read() == before


def test_a_file_system_without_locks_is_an_error_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("waiting is of no use"))
    with pytest.raises(RecoverableError, match=r"cannot lock .*: No locks available"):
        FileStore(tmp_path / "device.json").read()


def test_a_device_reports_once_under_any_name_of_its_file(tmp_path: Path) -> None:
    """A link in the middle, a link to a link, a linked directory and a relative path."""
    (tmp_path / "a").mkdir()
    real = tmp_path / "a" / "device.json"
    FileStore(real).read()
    (tmp_path / "b").symlink_to(tmp_path / "a")
    (tmp_path / "c.json").symlink_to("b/device.json")
    (tmp_path / "d.json").symlink_to(tmp_path / "c.json")
    names = [tmp_path / "d.json", tmp_path / "b" / "device.json", real, tmp_path / "c.json"]
    made = [
        unsigned_reporter(PLAN, FileStore(name), clock=lambda: START * 1000).report({})
        for name in names
    ]
    assert [report is not None for report in made] == [True, False, False, False]
    assert (tmp_path / "c.json").is_symlink()
    assert (tmp_path / "d.json").is_symlink()


def test_a_ledger_is_where_it_was_after_a_change_of_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    home.mkdir()
    other.mkdir()
    monkeypatch.chdir(home)
    before, after = (
        unsigned_reporter(PLAN, FileStore("device.json"), clock=lambda: START * 1000)
        for _ in range(2)
    )
    assert before.report({}) is not None
    monkeypatch.chdir(other)
    assert (before.report({}), after.report({})) == (None, None)
    assert sorted(path.name for path in home.iterdir()) == ["device.json", "device.json.lock"]
    assert not list(other.iterdir())


def test_a_link_that_changes_leads_to_no_other_ledger(tmp_path: Path) -> None:
    for name in ("1", "2"):
        (tmp_path / name).mkdir()
    current = tmp_path / "current"
    current.symlink_to("1")
    reporter = unsigned_reporter(
        PLAN, FileStore(current / "device.json"), clock=lambda: START * 1000
    )
    assert reporter.report({}) is not None
    current.unlink()
    current.symlink_to("2")
    assert reporter.report({}) is None
    assert not list((tmp_path / "2").iterdir())


def test_a_store_that_has_met_a_device_accepts_no_other(tmp_path: Path) -> None:
    """Both files are gone or replaced while the process runs."""
    path, lock = tmp_path / "device.json", tmp_path / "device.json.lock"
    reporter = unsigned_reporter(PLAN, FileStore(path), clock=lambda: START * 1000)
    assert reporter.report({}) is not None
    path.unlink()
    lock.unlink()
    with pytest.raises(FatalError, match="is gone"):
        reporter.report({})
    assert not path.exists()
    FileStore(path).read()
    with pytest.raises(FatalError, match="another device"):
        reporter.report({})
