from __future__ import annotations

import copy
from typing import Any

import numpy as np
import orjson
import pytest

from calmstream.common.errors import PlanError
from calmstream.estimators import planning
from calmstream.estimators.methods.base import Request
from calmstream.estimators.methods.noise_aware import NoiseAware
from calmstream.estimators.plan import pilots
from calmstream.estimators.plan.document import read_plan
from calmstream.evaluation.population import collect
from tests.support.noise_aware import domain_of
from tests.support.plans import draft

METHOD = NoiseAware()


def taught() -> dict[str, Any]:
    pilot, _ = draft(domain_of(2, 3, 2), "1", 500, 2, "noise-aware", name="pilot")
    codes = np.zeros((500, 3), np.uint16)
    return METHOD.follow(pilot, collect(pilot, codes, np.random.SeedSequence(1), exact=True))


def _changed(document: dict[str, Any], **changes: Any) -> dict[str, Any]:
    out = copy.deepcopy(document)
    out["pilots"][0] |= changes
    return out


def test_malformed_pilots_are_refused_with_their_place() -> None:
    good = orjson.loads(orjson.dumps(taught()))
    bad = copy.deepcopy(good)
    bad["pilots"][0]["tallies"][0]["n"][0] = -1
    cases: list[tuple[dict[str, Any], tuple[int, ...], str]] = [
        ({"pilots": {}}, (2, 3, 2), "parameter pilots: expected a list"),
        ({"pilots": [1]}, (2, 3, 2), r"pilots\[0\]: expected an object with epsilon, groups"),
        (_changed(good, plan=7), (2, 3, 2), "plan and epsilon are strings"),
        (_changed(good, groups=7), (2, 3, 2), r"pilots\[0\].groups: expected a list"),
        (_changed(good, tallies=[]), (2, 3, 2), "tallies: expected a list, one for each group"),
        (_changed(good, epsilon="-1"), (2, 3, 2), "epsilon"),
        (bad, (2, 3, 2), "negative count"),
        (good, (2, 2, 2), "of another domain: 3 cells|of another domain: 6 cells"),
        (good, (2, 3), "of another domain: view"),
    ]
    for parameters, cards, message in cases:
        with pytest.raises(PlanError, match=message):
            METHOD.design(Request(domain_of(*cards), "1", 1000, 2, parameters))


def test_a_plan_document_with_another_domain_s_pilot_is_refused_before_it_counts() -> None:
    parameters = taught()
    child, _ = draft(domain_of(2, 3, 2), "1", 1000, 2, "noise-aware", parameters)
    document = orjson.loads(child.to_bytes())
    other, _ = draft(domain_of(3, 2, 2), "1", 1000, 2, "noise-aware")
    document |= {name: other.to_json()[name] for name in ("domain", "groups", "marginals")}
    with pytest.raises(PlanError, match="of another domain"):
        planning.require_answers(read_plan(orjson.dumps(document)))


def test_too_many_counters_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pilots, "MAX_COUNTERS", 10)
    with pytest.raises(PlanError, match=r"the pilots keep .* counters; at most 10 go into a plan"):
        taught()
