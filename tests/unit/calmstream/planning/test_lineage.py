"""Check which lineage a plan gets.

Plans of one lineage share one privacy allowance per device. A lineage is given, derived from root
and name, that of a pilot, or random.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from calmstream.common.errors import InvalidInput
from calmstream.planning.lineage import Lineage, chosen
from tests.support.producer import LINEAGE, make_plan
from tests.support.signed import Operator

GOOD = Operator()


def options(**given: Any) -> argparse.Namespace:
    none = {"lineage": None, "continues": ()}
    return argparse.Namespace(**none | given)


@pytest.fixture
def root(tmp_path: Path) -> str:
    (tmp_path / "root.pub").write_text(GOOD.root + "\n")
    return str(tmp_path / "root.pub")


def test_without_a_pilot(root: str) -> None:
    first, second = chosen(options(), None), chosen(options(), None)
    assert len(first.lineage) == 32
    assert first.lineage != second.lineage
    given = chosen(options(lineage=LINEAGE, continues=("a" * 32,)), None)
    assert given == Lineage(LINEAGE, "", ("a" * 32,))
    signed = GOOD.plan("x").lineage
    assert chosen(options(lineage=f"x@{root}"), None) == Lineage(signed, "x", ())


def test_after_a_pilot(root: str) -> None:
    pilot = GOOD.plan("x")
    expected = Lineage(pilot.lineage, "x", ())
    assert chosen(options(), pilot) == expected
    assert chosen(options(lineage=f"x@{root}"), pilot) == expected
    for given in (
        options(lineage=f"y@{root}"),
        options(lineage=LINEAGE),
    ):
        with pytest.raises(InvalidInput, match="the pilot's lineage"):
            chosen(given, pilot)
    with pytest.raises(InvalidInput, match="the pilot's lineage"):
        chosen(options(lineage=f"x@{root}"), make_plan())
    assert chosen(options(), make_plan()) == Lineage(LINEAGE, "", ())
