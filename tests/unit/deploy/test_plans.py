"""Check that the example plans are valid and agree with the data dictionaries beside them."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from calmstream.estimators.domain import Domain
from calmstream.estimators.plan.document import read_plan
from tests.support.deploy import DEPLOY

PLANS = sorted((DEPLOY / "plans").glob("*.plan.json"))


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.name)
def test_an_example_plan_has_all_required_fields(path: Path) -> None:
    raw = path.read_bytes()
    plan = read_plan(raw)
    dictionary = orjson.loads(path.with_name(f"{plan.name}.domain.json").read_bytes())
    assert plan.domain == Domain.from_json(dictionary)
    assert plan.to_json() == orjson.loads(raw)
    assert plan.purpose
    assert "@" in plan.owner
    # The labels leave no device without one.
    free = [a for a in plan.domain.attributes if len(a.labels) > 2 and a.name in OPEN]
    assert all(attribute.other is not None for attribute in free)


OPEN = {"os", "region", "model", "firmware", "platform", "app_version", "language_group"}
"""Attributes whose labels the world may add to."""
