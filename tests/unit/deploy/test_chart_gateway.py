"""The chart with gateways, by its committed rendering."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from calmstream.broker.security import SecurityConfig
from calmstream.cli import parse
from calmstream.common.settings import variables
from calmstream.consumer.runtime.config import HttpConfig
from calmstream.producer.gateway.http.settings import GatewaySettings
from tests.support.deploy import GATEWAY, LOCAL, assert_confined, chart_values, check_values, load


def arguments() -> Any:
    return parse(GATEWAY.container("gateway")["args"])


def test_the_gateway_stands_beside_the_other_roles() -> None:
    assert set(GATEWAY.workloads) == {*LOCAL.workloads, "gateway"}
    assert "gateway" not in LOCAL.workloads


def test_the_command_line_takes_the_arguments_and_every_path_is_mounted() -> None:
    args, mounts = arguments(), GATEWAY.mounted("gateway")
    assert args.plans == mounts["plans"]
    assert args.roots == f"{mounts['plans']}/roots"
    assert args.app_keys == f"{mounts['app-keys']}/app-keys.json"
    assert args.spool.startswith(f"{mounts['spool']}/")
    assert not args.allow_unsigned
    assert args.host == "0.0.0.0"


def test_every_variable_is_a_setting_of_the_gateway() -> None:
    known = variables(GatewaySettings, HttpConfig, SecurityConfig)
    assert GATEWAY.variables("gateway") <= known


def test_every_gateway_has_a_spool_of_its_own_that_outlives_it() -> None:
    workload = GATEWAY.workloads["gateway"]
    assert workload["kind"] == "StatefulSet"
    assert workload["spec"]["replicas"] == 2
    (claim,) = workload["spec"]["volumeClaimTemplates"]
    assert claim["metadata"]["name"] == "spool"
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert claim["spec"]["storageClassName"] == "local"


def test_the_pod_may_do_little_and_stops_in_time() -> None:
    pod = GATEWAY.pod("gateway")
    assert_confined(pod)
    assert pod["terminationGracePeriodSeconds"] > GatewaySettings().stop_seconds


def test_clients_stay_at_one_gateway() -> None:
    services = [each for each in GATEWAY.objects if each["kind"] == "Service"]
    (service,) = (each for each in services if each["metadata"]["name"].endswith("-gateway"))
    assert service["spec"]["sessionAffinity"] == "ClientIP"
    (port,) = service["spec"]["ports"]
    names = {each["name"]: each["containerPort"] for each in GATEWAY.container("gateway")["ports"]}
    assert names[port["targetPort"]] == port["port"] == arguments().port
    labels = GATEWAY.workloads["gateway"]["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()


def test_the_policy_lets_reports_in() -> None:
    scrapes, reports = GATEWAY.one("NetworkPolicy")["spec"]["ingress"]
    assert [port["port"] for port in scrapes["ports"]] == [9464]
    assert [port["port"] for port in reports["ports"]] == [8080]


def test_the_values_fit_the_schema_and_plans_are_demanded() -> None:
    whole = chart_values()
    for key, value in load(GATEWAY.values).items():
        whole[key] = whole[key] | value
    whole["gateway"]["storage"] = {"size": "10Gi"}
    check_values(whole)
    whole["gateway"]["plansConfigMap"] = ""
    with pytest.raises(jsonschema.ValidationError):
        check_values(whole)
    whole["gateway"]["allowUnsigned"] = True
    check_values(whole)


def test_helm_itself_accepts_the_chart_where_it_is_installed() -> None:
    assert GATEWAY.again() == GATEWAY.objects
