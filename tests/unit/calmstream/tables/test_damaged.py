from __future__ import annotations

import random
from pathlib import Path

import pytest

from calmstream.common.errors import InvalidInput
from calmstream.tables.dictionaries import read_dictionary
from calmstream.tables.records import read_table
from tests.support.damaged_tables import SOURCES, damaged


@pytest.mark.parametrize("name", SOURCES)
def test_damaged_tables_are_read_or_refused(tmp_path: Path, name: str) -> None:
    dice = random.Random(name)
    messages = []
    for i in range(30):
        path = tmp_path / f"{i}-{name}"
        path.write_bytes(damaged(SOURCES[name](), dice))
        try:
            if read_dictionary(path) is None:
                table = read_table(path)
                assert (read_table(path, domain=table.domain).codes == table.codes).all()
        except InvalidInput as error:
            messages.append(str(error).removeprefix(f"{path}: "))
    assert not [message for message in messages if "\n" in message or str(tmp_path) in message]
    assert messages
