"""The chart with servers of results, by its committed rendering."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from calmstream.broker.security import SecurityConfig
from calmstream.cli import parse
from calmstream.common.settings import variables
from calmstream.consumer.runtime.config import HttpConfig
from calmstream.consumer.serve.settings import ServeSettings
from tests.support.deploy import LOCAL, SERVE, assert_confined, chart_values, check_values, load


def arguments() -> Any:
    return parse(SERVE.container("serve")["args"])


def test_the_server_stands_beside_the_other_roles() -> None:
    assert set(SERVE.workloads) == {*LOCAL.workloads, "serve"}
    assert "serve" not in LOCAL.workloads
    assert SERVE.workloads["serve"]["spec"]["replicas"] == 2


def test_the_command_line_takes_the_arguments_and_every_path_is_mounted() -> None:
    args, mounts = arguments(), SERVE.mounted("serve")
    assert args.plan == f"{mounts['plan']}/plan.json"
    assert args.token_file == f"{mounts['token']}/token"
    assert args.host == "0.0.0.0"
    assert args.allow_origin == ["https://dashboards.example.org"]


def test_every_variable_is_a_setting_of_the_server() -> None:
    known = variables(HttpConfig, SecurityConfig, ServeSettings)
    assert SERVE.variables("serve") <= known


def test_the_service_calls_it_by_names_that_it_knows() -> None:
    services = [each for each in SERVE.objects if each["kind"] == "Service"]
    (service,) = (each for each in services if each["metadata"]["name"].endswith("-serve"))
    (port,) = service["spec"]["ports"]
    names = {each["name"]: each["containerPort"] for each in SERVE.container("serve")["ports"]}
    assert names[port["targetPort"]] == port["port"] == arguments().port
    name = service["metadata"]["name"]
    assert {name, f"{name}.telemetry", f"{name}.telemetry.svc", "results.example.org"} == set(
        arguments().allow_host
    )
    labels = SERVE.workloads["serve"]["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()


def test_the_pod_may_do_little_and_has_the_image_of_all() -> None:
    assert_confined(SERVE.pod("serve"))
    assert SERVE.container("serve")["image"] == SERVE.container("publisher")["image"]


def test_the_policy_lets_questions_in() -> None:
    scrapes, questions = SERVE.one("NetworkPolicy")["spec"]["ingress"]
    assert [port["port"] for port in scrapes["ports"]] == [9464]
    assert [port["port"] for port in questions["ports"]] == [8090]
    (source,) = questions["from"]
    assert source["namespaceSelector"]["matchExpressions"][0]["values"] == ["ingress"]


def test_the_values_fit_the_schema_and_a_token_is_demanded() -> None:
    whole = chart_values()
    for key, value in load(SERVE.values).items():
        whole[key] = whole[key] | value
    check_values(whole)
    whole["serve"]["tokenSecret"] = ""
    with pytest.raises(jsonschema.ValidationError):
        check_values(whole)
    whole["serve"]["allowEverybody"] = True
    check_values(whole)


def test_helm_itself_accepts_the_chart_where_it_is_installed() -> None:
    assert SERVE.again() == SERVE.objects
