"""Check that the page of methods agrees with the registry and with what the methods do."""

from __future__ import annotations

import numpy as np
import pytest

from calmstream.estimators import methods
from calmstream.estimators.methods.base import Model, Request
from calmstream.estimators.randomness import SeededRandomness
from calmstream.evaluation.evaluate import ReadsReports
from calmstream.evaluation.population import collect, local_plan
from calmstream.planning.methods_page import SAYS_CENTRAL, is_raw, says
from tests.support.plans import NEEDED, mixed_domain
from tests.unit.calmstream.conftest import Command

DOMAIN = mixed_domain(2, 3, 2)
LISTED = [*methods.names(), methods.CENTRAL]


def fitted(name: str) -> Model:
    """Return a method's model of 3,000 devices, most of which have one record."""
    method = methods.get(name)
    plan = local_plan(method, Request(DOMAIN, "1", 3000, 2, NEEDED.get(name, {})))
    codes = np.zeros((3000, 3), np.uint16)
    codes[:300] = np.random.default_rng(1).integers(0, (2, 3, 2), (300, 3))
    if isinstance(method, ReadsReports):
        values = plan.groups[0].views[0].inputs(codes, DOMAIN)
        return method.fit_reports(plan, plan.mechanisms[0].perturb(values, SeededRandomness(1)))
    return method.fit(plan, collect(plan, codes, np.random.SeedSequence(2), exact=True))


@pytest.mark.parametrize("name", methods.names())
def test_raw_tables_are_called_raw_and_all_others_are_distributions(name: str) -> None:
    marginal = fitted(name).marginal((0, 1))
    assert ("raw" in marginal.flags) == is_raw(name)
    if not is_raw(name):
        assert marginal.table.min() >= 0
        assert marginal.table.sum() == pytest.approx(1)


def test_plan_lists_them_one_a_line(command: Command) -> None:
    code, out, _ = command("plan", "--method", "list")
    assert code == 0
    lines = out.splitlines()
    assert [line.split()[0] for line in lines] == LISTED
    said = [*map(says, methods.names()), SAYS_CENTRAL]
    assert len(set(said)) == len(said)
    for line, text in zip(lines, said, strict=True):
        assert line.endswith(f": {text}")
