"""Make a release from the last commit: packages, bills of material and checksums in ``dist``.

    make release
    make release ARGS=--twice     # and show that a second build has equal hashes

Everything is built from what `git archive` gives, at the time of the commit, so that the same
commit gives the same bytes. The wheel is built twice, from the tree and from the sdist, and both
must be equal. Without Node there is no npm package, and without a container engine no image: the
last lines say what is missing.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

from image import copy_members, normalise

ROOT = Path(__file__).resolve().parents[2]
EDGE = Path("edge", "typescript")


class Release:
    """One build, in a folder of its own."""

    def __init__(self, folder: Path, out: Path, commit: str) -> None:
        self.folder, self.out, self.missing = folder, out, list[str]()
        self.epoch = int(output("git", "log", "-1", "--format=%ct", commit))
        self.environment = {**os.environ, "SOURCE_DATE_EPOCH": str(self.epoch)}
        self.tree = folder / "tree"
        packed = subprocess.run(
            ["git", "archive", commit], cwd=ROOT, capture_output=True, check=True
        )
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(self.tree, filter="tar")
        self.version = str(
            tomllib.loads((self.tree / "pyproject.toml").read_text())["project"]["version"]
        )

    def make(self, *, images: bool) -> None:
        """Make everything that this machine can make."""
        for step in (self.python, self.npm, *([self.images] if images else []), self.checksums):
            began = time.monotonic()
            step()
            print(f"{step.__name__:10} {time.monotonic() - began:6.1f} s", flush=True)

    def python(self) -> None:
        """Make sdist, wheel and their bill of material."""
        made = self.folder / "python"
        self._run(sys.executable, "-m", "build", "--no-isolation", "--outdir", made, self.tree)
        (sdist,), (wheel,) = made.glob("*.tar.gz"), made.glob("*.whl")
        repacked = self.out / sdist.name
        repack(sdist, repacked, self.epoch)
        shutil.copy2(wheel, self.out)
        with tarfile.open(repacked) as archive:
            archive.extractall(self.folder / "sdist", filter="data")
        again = self.folder / "again"
        (source,) = (self.folder / "sdist").iterdir()
        self._run(
            sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", again, source
        )
        if digest(again / wheel.name) != digest(wheel):
            raise SystemExit("the wheel from the sdist differs from that of the tree")
        bill = self.out / f"calmstream-{self.version}.cdx.json"
        self._run(
            sys.executable, "-m", "cyclonedx_py", "requirements", "--output-reproducible",
            "--mc-type", "library", "--pyproject", self.tree / "pyproject.toml", "-o", bill,
            self.tree / "requirements.lock",
        )  # fmt: skip

    def npm(self) -> None:
        """Make the package of the edge in TypeScript, and its bill of material."""
        if not (shutil.which("npm") and shutil.which("node")):
            self.missing.append("the npm package: there is no Node 20 with npm")
            return
        edge = self.tree / EDGE
        shutil.copy2(self.tree / "LICENSE", edge)
        self._run("npm", "ci", "--silent", folder=edge)
        self._run("npm", "run", "--silent", "build", folder=edge)
        self._run(
            "npm",
            "pack",
            "--silent",
            "--ignore-scripts",
            "--pack-destination",
            self.out,
            folder=edge,
        )
        text = output("npm", "sbom", "--sbom-format", "cyclonedx", "--sbom-type", "library",
                      "--omit", "dev", folder=edge)  # fmt: skip
        bill: dict[str, Any] = json.loads(text)
        bill.pop("serialNumber", None)
        bill["metadata"].pop("timestamp", None)
        bill["metadata"]["component"]["name"] = "calmstream-edge"  # npm says the folder's name
        name = f"calmstream-edge-{self.version}.cdx.json"
        (self.out / name).write_text(json.dumps(bill, indent=1) + "\n")

    def images(self) -> None:
        """Make the image, which is gateway, service and server of results by its command."""
        if (
            not shutil.which("docker")
            or subprocess.run(["docker", "info"], capture_output=True, check=False).returncode
        ):
            self.missing.append("the image: no container engine answers")
            return
        name = f"calmstream-image-{self.version}"
        base = os.environ.get("PYTHON_IMAGE")
        given = ["--build-arg", f"SOURCE_DATE_EPOCH={self.epoch}"]
        given += ["--build-arg", f"PYTHON_IMAGE={base}"] if base else []
        tag = f"calmstream:{self.version}"
        self._run("docker", "build", "--no-cache", *given, "--tag", tag, self.tree)
        self._run("docker", "save", "--output", self.folder / "saved.tar", tag)
        normalise(self.folder / "saved.tar", self.out / f"{name}.tar.gz", self.epoch)
        inside = output("docker", "run", "--rm", "--entrypoint", "python", tag, "-c", INSTALLED)
        listed = self.folder / "installed.txt"
        listed.write_text(inside)
        self._run(
            sys.executable, "-m", "cyclonedx_py", "requirements", "--output-reproducible",
            "--mc-type", "application", "--pyproject", self.tree / "pyproject.toml",
            "-o", self.out / f"{name}.cdx.json", listed,
        )  # fmt: skip

    def checksums(self) -> None:
        """Write the checksum of every file, as `sha256sum --check` reads them."""
        lines = [f"{digest(path)}  {path.name}\n" for path in sorted(self.out.iterdir())]
        (self.out / "SHA256SUMS").write_text("".join(lines))

    def _run(self, *command: str | Path, folder: Path = ROOT) -> None:
        done = subprocess.run(
            command, cwd=folder, env=self.environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(
                f"{' '.join(map(str, command))}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
            )


INSTALLED = """
from importlib.metadata import distributions
for one in sorted(distributions(), key=lambda each: each.name.lower()):
    print(f"{one.name}=={one.version}")
"""


def output(*command: str, folder: Path = ROOT) -> str:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def repack(source: Path, to: Path, epoch: int) -> None:
    """Write an archive again, in the order of names, with one time and one owner."""

    def owned(member: tarfile.TarInfo) -> None:
        member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
        member.mode, member.pax_headers = 0o755 if member.isdir() else 0o644, {}

    plain = io.BytesIO()
    with (
        tarfile.open(source) as given,
        tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as made,
    ):
        copy_members(given, made, owned)
    with to.open("wb") as file, gzip.GzipFile("", "wb", 9, file, epoch) as packed:
        packed.write(plain.getvalue())


def build(commit: str, *, images: bool) -> tuple[dict[str, bytes], list[str]]:
    """Return the files of a release by name, and what is missing."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name, "dist")
        out.mkdir()
        release = Release(Path(name), out, commit)
        release.make(images=images)
        return {path.name: path.read_bytes() for path in sorted(out.iterdir())}, release.missing


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--twice", action="store_true", help="compare a second build")
    parser.add_argument("--packages", action="store_true", help="no image")
    args = parser.parse_args()
    if args.commit == "HEAD" and output("git", "status", "--porcelain"):
        print(
            "the checkout has changes that are not committed: they are not in the release",
            file=sys.stderr,
        )
    commit = output("git", "rev-parse", f"{args.commit}^{{commit}}").strip()
    made, missing = build(commit, images=not args.packages)
    shutil.rmtree(args.out, ignore_errors=True)
    args.out.mkdir(parents=True)
    for name, content in made.items():
        (args.out / name).write_bytes(content)
        print(f"{len(content):12,}  {name}")
    if args.twice:
        again, _ = build(commit, images=not args.packages)
        differ = sorted(name for name in made | again if made.get(name) != again.get(name))
        if differ:
            print(f"the second build differs in {', '.join(differ)}")
            return 1
        print("two builds are equal")
    print("".join(f"not made: {what}\n" for what in missing), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
