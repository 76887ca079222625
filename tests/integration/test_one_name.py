"""Check that an installation has one name, beside an application's own modules."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.runs import ran
from tests.support.wheels import wheel as wheel_of

ROOT = Path(__file__).parents[2]
APPLICATIONS_OWN = ("producer", "consumer", "broker", "estimators", "common")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel_of(tmp_path_factory.mktemp("wheel"))


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
    ran(*isolated, run, cwd=tmp_path)
