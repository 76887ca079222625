"""Write an image again, so that two builds of one commit from one base are the same bytes.

Every layer keeps its files; a time after the commit's becomes the commit's. Of the configuration
only what runs the image stays. `docker load` reads the result.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

KEPT = ("Cmd", "Entrypoint", "Env", "ExposedPorts", "Healthcheck", "Labels", "User", "WorkingDir")


def normalise(source: Path, to: Path, epoch: int) -> None:
    """Read what `docker save` wrote of one image with one tag, and write it with ``epoch``."""
    with (
        tarfile.open(source) as saved,
        to.open("wb") as file,
        gzip.GzipFile("", "wb", 6, file, epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as made,
    ):
        (image,) = json.loads(_content(saved, "manifest.json"))
        digests = []
        for name in image["Layers"]:
            layer = _layer(_content(saved, name), epoch)
            digests.append(hashlib.sha256(layer).hexdigest())
            _add(made, f"{digests[-1]}/layer.tar", layer, epoch)
        described = json.loads(_content(saved, image["Config"]))
        config = json.dumps(_config(described, digests, epoch), sort_keys=True).encode()
        name = f"{hashlib.sha256(config).hexdigest()}.json"
        _add(made, name, config, epoch)
        layers = [f"{digest}/layer.tar" for digest in digests]
        manifest = [{"Config": name, "RepoTags": image["RepoTags"], "Layers": layers}]
        _add(made, "manifest.json", json.dumps(manifest).encode(), epoch)


def _content(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None, f"{name} is no file"
    return file.read()


def _layer(content: bytes, epoch: int) -> bytes:
    """Return a layer with the members it has."""

    def dated(member: tarfile.TarInfo) -> None:
        member.mtime = min(int(member.mtime), epoch)
        kept = {name: text for name, text in member.pax_headers.items() if "xattr" in name}
        member.pax_headers = kept

    out = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(content)) as given,
        tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as made,
    ):
        copy_members(given, made, dated)
    return out.getvalue()


def copy_members(
    given: tarfile.TarFile, made: tarfile.TarFile, change: Callable[[tarfile.TarInfo], None]
) -> None:
    """Copy changed members in the order of names, hard links after what they may point at."""
    for member in sorted(given.getmembers(), key=lambda each: (each.islnk(), each.name)):
        change(member)
        made.addfile(member, given.extractfile(member) if member.isfile() else None)


def _config(given: dict[str, Any], digests: list[str], epoch: int) -> dict[str, Any]:
    created = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    history = [
        {name: step[name] for name in ("created_by", "empty_layer") if name in step}
        for step in given["history"]
    ]
    return {
        "architecture": given["architecture"],
        "os": given["os"],
        "created": created,
        "config": {name: given["config"][name] for name in KEPT if given["config"].get(name)},
        "history": [{"created": created, **step} for step in history],
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
    }


def _add(archive: tarfile.TarFile, name: str, content: bytes, epoch: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = len(content), epoch, 0o644
    archive.addfile(member, io.BytesIO(content))
