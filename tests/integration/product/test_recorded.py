"""What earlier releases wrote is read with the same meaning; stores of Node by Node."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from tests.support.recorded import FOLDER, READERS, agrees, meaning, written

RELEASES = sorted(FOLDER.glob("*.json.gz"))


@pytest.mark.parametrize("path", RELEASES, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_what_a_release_wrote_is_read_as_it_read_it(path: Path) -> None:
    found = json.loads(gzip.decompress(path.read_bytes()))
    kinds = Counter(given["format"] for given in found)
    assert set(kinds) == set(READERS)
    for given in found:
        assert agrees(meaning(given), given["says"]), given["format"]


def test_every_format_of_today_would_be_recorded() -> None:
    assert {given["format"] for given in written()} == set(READERS)
