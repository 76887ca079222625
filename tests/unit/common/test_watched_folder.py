from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from calmstream.common import watched_folder
from calmstream.common.errors import InvalidInput
from calmstream.common.watched_folder import WatchedFolder


@dataclass(frozen=True)
class Document:
    digest: str

    @property
    def name(self) -> str:
        return self.digest.split(":")[0]


def _read(raw: bytes) -> Document:
    text = raw.decode(errors="replace")
    if ":" not in text:
        raise InvalidInput("not a document")
    return Document(text)


def _folder(path: Path, *, unique_names: bool = True) -> WatchedFolder[Document]:
    return WatchedFolder(path, _read, max_bytes=20, unique_names=unique_names)


def _seen(folder: WatchedFolder[Document], looks: int = 1) -> set[str]:
    for _ in range(looks):
        folder.refresh()
    return set(folder.documents)


def test_files_appear_change_and_go(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    folder.refresh()
    assert (folder.documents, folder.refused) == ({}, {})
    (tmp_path / "a.json").write_text("a:1")
    (tmp_path / "b.json").write_text("b:1")
    (tmp_path / "ignored.txt").write_text("c:1")
    (tmp_path / ".hidden.json").write_text("d:1")
    folder.refresh()
    assert folder.documents == {"a:1": Document("a:1"), "b:1": Document("b:1")}
    (tmp_path / "b.json").unlink()
    assert _seen(folder) == {"a:1", "b:1"}, "one look does not take a document away"
    assert _seen(folder) == {"a:1"}
    (tmp_path / "again.json").write_text("b:1")
    assert _seen(folder) == {"a:1", "b:1"}


def test_a_file_that_is_broken_for_a_moment_takes_nothing_away(tmp_path: Path) -> None:
    folder, path = _folder(tmp_path), tmp_path / "a.json"
    path.write_text("a:1")
    folder.refresh()
    path.write_text("a")
    assert _seen(folder) == {"a:1"}
    assert folder.refused == {"a.json": "not a document"}
    path.write_text("a:1")
    assert _seen(folder, looks=2) == {"a:1"}
    assert folder.refused == {}


def test_a_swap_of_symbolic_links_is_noticed(tmp_path: Path) -> None:
    """Kubernetes mounts a ConfigMap so: files are links through ``..data`` to a dated folder."""
    for number in (1, 2):
        (tmp_path / f"..{number}").mkdir()
        (tmp_path / f"..{number}" / "a.json").write_text(f"a:{number}")
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "a.json").symlink_to("..data/a.json")
    folder = _folder(tmp_path)
    assert _seen(folder) == {"a:1"}
    (tmp_path / "..new").symlink_to("..2")
    (tmp_path / "..new").rename(tmp_path / "..data")
    assert _seen(folder, looks=2) == {"a:2"}
    assert folder.refused == {}


def test_another_document_under_a_name_in_use_is_refused_until_the_name_is_free(
    tmp_path: Path,
) -> None:
    folder = _folder(tmp_path)
    (tmp_path / "z.json").write_text("a:1")
    folder.refresh()
    (tmp_path / "b.json").write_text("a:2")
    (tmp_path / "copy.json").write_text("a:1")
    assert _seen(folder) == {"a:1"}
    assert "the name 'a' is in use by another plan" in folder.refused["b.json"]
    (tmp_path / "z.json").unlink()
    (tmp_path / "copy.json").unlink()
    assert _seen(folder) == {"a:1"}, "its file may be missing for a moment only"
    assert _seen(folder) == {"a:2"}
    assert folder.refused == {}
    both = _folder(tmp_path, unique_names=False)
    (tmp_path / "z.json").write_text("a:1")
    assert _seen(both) == {"a:1", "a:2"}


def test_bad_files_are_named_and_harm_nothing(tmp_path: Path) -> None:
    (tmp_path / "good.json").write_text("a:1")
    (tmp_path / "large.json").write_text("b:" + "x" * 30)
    (tmp_path / "dangling.json").symlink_to("nowhere")
    (tmp_path / "folder.json").mkdir()
    os.mkfifo(tmp_path / "pipe.json")
    folder = _folder(tmp_path)
    assert _seen(folder) == {"a:1"}
    assert folder.refused == {
        "dangling.json": "No such file or directory",
        "folder.json": "not a file",
        "large.json": "more than 20 bytes",
        "pipe.json": "not a file",
    }
    (tmp_path / "nowhere").write_text("c:1")
    assert _seen(folder) == {"a:1", "c:1"}


def test_files_beyond_the_limit_are_counted_and_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_folder, "MAX_FILES", 3)
    for number in range(1200):
        (tmp_path / f"{number:04}.json").write_text(f"{number}:")
    folder = _folder(tmp_path)
    assert _seen(folder) == {"0:", "1:", "2:"}
    assert folder.refused == {"1,197 files after 0002.json": "at most 3 files are read"}


def test_a_folder_that_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    inner = tmp_path / "plans"
    inner.mkdir()
    (inner / "a.json").write_text("a:1")
    folder = _folder(inner)
    folder.refresh()
    inner.rename(tmp_path / "away")
    for _ in range(3):
        with pytest.raises(InvalidInput, match="no such directory"):
            folder.refresh()
    inner.write_text("")
    with pytest.raises(InvalidInput, match="Not a directory"):
        assert _seen(folder) == {"a:1"}


def test_reading_goes_on_at_the_next_refresh_and_takes_nothing_away(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    for name in "abc":
        (tmp_path / f"{name}.json").write_text(f"{name}:1")
    folder.refresh(-1.0)  # reads one file
    assert set(folder.documents) == {"a:1"}
    assert _seen(folder) == {"a:1", "b:1", "c:1"}
    for name in "abc":
        (tmp_path / f"{name}.json").write_text(f"{name}:22")
    for _ in range(2):
        folder.refresh(-1.0)
    assert {one.name for one in folder.documents.values()} == {"a", "b", "c"}
    assert _seen(folder, looks=2) == {"a:22", "b:22", "c:22"}
