"""The inputs with which fuzzing begins, and which tests read."""

from __future__ import annotations

import zipfile
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"


def inputs(name: str) -> list[bytes]:
    from tests.fuzz.targets import TARGETS

    found = list(TARGETS[name][1]())
    if (CORPUS / f"{name}.zip").exists():
        with zipfile.ZipFile(CORPUS / f"{name}.zip") as packed:
            found += [packed.read(each) for each in packed.namelist()]
    return found
