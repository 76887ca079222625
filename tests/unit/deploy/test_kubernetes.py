"""Check the rendered samples against the published schemas of Kubernetes, with no unknown field."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.support.deploy import CHART, LOCAL, SAMPLES, load

kubernetes_validate = pytest.importorskip("kubernetes_validate")
# The oldest that the chart takes, one in between, and the newest that has a schema.
VERSIONS = ("1.27", "1.32", "1.37")
OPERATOR = "monitoring.coreos.com/v1"  # the Prometheus operator's: Kubernetes has no schema of it


def objects() -> list[Any]:
    return [
        pytest.param(each, id=f"{sample.name}-{each['kind']}-{each['metadata']['name']}")
        for sample in SAMPLES
        for each in sample.objects
        if each["apiVersion"] != OPERATOR
    ]


def test_the_oldest_version_is_the_one_that_the_chart_demands() -> None:
    assert load(CHART / "Chart.yaml")["kubeVersion"] == f">={VERSIONS[0]}.0-0"


@pytest.mark.parametrize(
    "version", [*(pytest.param(v, marks=pytest.mark.slow) for v in VERSIONS[:-1]), VERSIONS[-1]]
)
@pytest.mark.parametrize("found", objects())
def test_an_object_fits_the_schema(found: dict[str, Any], version: str) -> None:
    assert kubernetes_validate.validate(found, version, strict=True) == version


@pytest.mark.parametrize("version", VERSIONS)
def test_a_field_that_does_not_exist_is_noticed(version: str) -> None:
    changed = copy.deepcopy(LOCAL.workloads["tally"])
    changed["spec"]["template"]["spec"]["terminationGracePeriod"] = 45
    with pytest.raises(kubernetes_validate.ValidationError, match="terminationGracePeriod"):
        kubernetes_validate.validate(changed, version, strict=True)
