"""Check that an installation has one name, beside an application's own modules."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
APPLICATIONS_OWN = ("producer", "consumer", "broker", "estimators", "common")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    for name in filter(None, names.stdout.split("\0")):
        if (ROOT / name).is_symlink() or (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name, follow_symlinks=False)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    subprocess.run([*build, str(folder), str(source)], check=True, timeout=240)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_has_one_name(wheel: Path) -> None:
    names = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in names if not name.endswith(".dist-info")} == {"calmstream"}


def test_a_reporter_works_beside_modules_of_the_same_names(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "installed")
    for name in APPLICATIONS_OWN:
        (tmp_path / f"{name}.py").write_text(f"raise RuntimeError('{name} of the application')\n")
    plan = next((ROOT / "deploy/plans").glob("*.json"))
    (tmp_path / "application.py").write_text(
        "import sys\n"
        "sys.path.append('installed')\n"
        "from calmstream import MemoryStore, Reporter\n"
        f"plan = open({str(plan)!r}, 'rb').read()\n"
        "assert Reporter(plan, MemoryStore(), allow_unsigned=True).status().name\n"
        "assert 'installed' in sys.modules['calmstream'].__file__\n"
    )
    isolated = [sys.executable, "-S", "-c"]
    site = next(path for path in sys.path if path.endswith("site-packages"))
    run = (
        "import sys, runpy; sys.path[:0] = ['.']; sys.path.append('installed');"
        f"sys.path.append({site!r}); runpy.run_path('application.py')"
    )
    done = subprocess.run(
        [*isolated, run], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
