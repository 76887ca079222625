"""Wheels of the product, from the tree or from an earlier commit, and environments with one."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.support.runs import python, ran

ROOT = Path(__file__).parents[2]


def service_modules() -> set[str]:
    """Return the modules of the packages that ``calmstream[service]`` adds."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {
        _as_name(re.split(r"[><=;\[ ]", requirement)[0])
        for requirement in project["optional-dependencies"]["service"]
    }
    return {
        module
        for module, distributions in packages_distributions().items()
        if named & set(map(_as_name, distributions)) and not module.startswith("_")
    }


def _as_name(distribution: str) -> str:
    return distribution.lower().replace("_", "-")


def wheel(folder: Path, *, commit: str = "", version: str = "") -> Path:
    """Build a wheel of the tree, or of a commit; ``version`` replaces its number."""
    source = folder / f"source{version}"
    source.mkdir(parents=True)
    (_checked_out if commit else _copied)(source, commit)
    project = source / "pyproject.toml"
    if version:
        (line,) = (x for x in project.read_text().splitlines() if x.startswith("version = "))
        project.write_text(project.read_text().replace(line, f'version = "{version}"'))
    made = folder / f"wheel{version}"
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    ran(*build, made, source, seconds=240)
    (built,) = made.glob("*.whl")
    return built


def _copied(source: Path, _commit: str) -> None:
    names = ran("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for name in filter(None, names.stdout.split("\0")):
        if (ROOT / name).is_symlink() or (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name, follow_symlinks=False)


def _checked_out(source: Path, commit: str) -> None:
    packed = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode:
        pytest.skip(f"the history lacks {commit}: {packed.stderr.decode().strip()}")
    subprocess.run(["tar", "--extract", "--directory", source], input=packed.stdout, check=True)


def installed(built: Path, folder: Path) -> Path:
    """Install a wheel into an environment with this one's dependencies; return its program."""
    python("-m", "venv", "--without-pip", folder, seconds=120)
    install = ["--python", folder / "bin" / "python", "install", "--quiet", "--no-deps", built]
    python("-m", "pip", *install, seconds=120)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin" / "calmstream"
