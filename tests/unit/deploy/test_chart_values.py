"""The chart's values, by helm: each has an effect, and wrong ones are refused in words."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import product
from typing import Any

import pytest
import yaml

from calmstream.cli import parse
from tests.support.deploy import CHART, DEPLOY, assert_confined, helm, load

PLAN = ("--set-file", f"plan.document={DEPLOY / 'plans' / 'devices.plan.json'}")
BROKER = ("--set", "kafka.bootstrap=k:9092")

ALL: dict[str, Any] = {
    "plans": {"documents": {"a.json": "{}"}, "roots": "key"},
    "kafka": {"bootstrap": "k:9092", "passwordSecret": "p", "tlsSecret": "t"},
    "tally": {"autoscaling": {"enabled": True}},
    "gateway": {"enabled": True},
    "serve": {"enabled": True, "tokenSecret": "t"},
    "sink": {"enabled": True, "to": "parquet:/var/lib/calmstream/results", "claim": "c"},
    "serviceMonitor": {"enabled": True},
    "prometheusRule": {"enabled": True},
    "grafanaDashboards": {"enabled": True},
}
"""A release with every role, in which most values have an effect."""

ONE: dict[str, Any] = {"kafka": {"bootstrap": "k:9092"}, "plan": {"existingConfigMap": "m"}}
AGGREGATOR = {**ONE, "aggregator": {"enabled": True, "accountClaim": "a"}}
GATEWAY = {**ONE, "gateway": {"enabled": True, "plansConfigMap": "m"}}

OTHERS: dict[str, tuple[dict[str, Any], Any]] = {
    "plan.document": ({**ONE, "plan": {"document": "{ }"}}, "{}"),
    "plan.existingConfigMap": (ONE, "other"),
    "plans.documents": (ALL, {"b.json": "{}"}),
    "plans.existingConfigMap": ({**ALL, "plans": {"existingConfigMap": "m"}}, "other"),
    "plans.claim": ({**ALL, "plans": {"claim": "m"}}, "other"),
    "kafka.bootstrap": (ALL, "other:9092"),
    "gateway.plansConfigMap": (GATEWAY, "other"),
    "gateway.allowUnsigned": (GATEWAY, True),
    "gateway.storage.size": (ALL, "1Gi"),
    "sink.to": (ALL, "parquet:/elsewhere"),
    "tally.replicas": (ONE, 9),
    "serve.origins": (ALL, ["https://a.example"]),
    "networkPolicy.kafkaPorts": (ALL, [1]),
    "networkPolicy.databasePorts": (ALL, [1]),
    "serviceMonitor.interval": (ALL, "99s"),
    "image.pullPolicy": (ALL, "Never"),
    "tolerations": (ALL, [{"key": "k"}]),
    "grafanaDashboards.labels.grafana_dashboard": (ALL, "2"),
    "aggregator.createAccount": (AGGREGATOR, True),
}
"""Values whose effect needs another release, or another value than :func:`changed` makes up."""

CHECKED_ONLY = {"serve.allowEverybody"}  # it stands for a token, in the checks alone


def leaves(values: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{path}{key}.")
        else:
            yield path + key, value


def changed(path: str, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, list):
        return ["x"]
    if isinstance(value, dict):
        return {"CALMSTREAM_LOG_LEVEL": "debug"} if path.endswith("settings") else {"other": "x"}
    return "1" if path.endswith(("cpu", "memory")) else "x1"


def at(values: dict[str, Any], path: str) -> Any:
    head, _, rest = path.partition(".")
    inner = values.get(head)
    return at(inner, rest) if rest and isinstance(inner, dict) else inner


def put(values: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    head, _, rest = path.partition(".")
    inner = put(values.get(head, {}), rest, value) if rest else value
    return {**values, head: inner}


@cache
def rendered(values: str) -> str:
    made = helm("--values", "-", stdin=values)
    assert made.returncode == 0, f"{values}: {made.stderr[-600:]}"
    return made.stdout


def has_effect(leaf: tuple[str, Any]) -> bool:
    path, default = leaf
    base = AGGREGATOR if path.startswith("aggregator.") else ALL
    present = at(base, path)
    other = changed(path, default if present is None else present)
    base, other = OTHERS.get(path, (base, other))
    one, two = (yaml.safe_dump(each) for each in (base, put(base, path, other)))
    return rendered(one) != rendered(two)


@pytest.mark.slow
def test_every_value_has_an_effect() -> None:
    helm("version")
    found = [each for each in leaves(load(CHART / "values.yaml")) if each[0] not in CHECKED_ONLY]
    with ThreadPoolExecutor(2) as pool:
        effects = list(pool.map(has_effect, found))
    assert len(effects) > 60
    assert [path for (path, _), works in zip(found, effects, strict=True) if not works] == []


SWITCHES = ("gateway.enabled", "serve.enabled", "sink.enabled", "tally.autoscaling.enabled",
            "networkPolicy.enabled")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("many", [False, True], ids=["one plan", "a folder"])
def test_every_combination_of_parts_is_what_the_product_takes(many: bool) -> None:
    """32 releases for one plan, 32 for a folder: arguments parse, pods are confined."""
    helm("version")

    def release(on: tuple[bool, ...]) -> None:
        values = ALL if many else {
            **ALL, **ONE, "plans": {}, "gateway": {"plansConfigMap": "m"}}  # fmt: skip
        for path, value in zip(SWITCHES, on, strict=True):
            values = put(values, path, value)
        objects = [each for each in yaml.safe_load_all(rendered(yaml.safe_dump(values))) if each]
        kinds = [each["kind"] for each in objects]
        assert ("HorizontalPodAutoscaler" in kinds, "NetworkPolicy" in kinds) == on[3:]
        pods = [each["spec"]["template"]["spec"] for each in objects if "template" in
                each.get("spec", {})]  # fmt: skip
        assert len(pods) == 2 + sum(on[:3]) + (not many)
        for pod in pods:
            assert_confined(pod)
            assert callable(parse(pod["containers"][0]["args"]).run)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(release, product((False, True), repeat=len(SWITCHES))))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("kafka.bootstrap=kafka", 'kafka.bootstrap: expected HOST:PORT[,HOST:PORT], got "kafka"'),
        ("kafka.namespace=A_b", "kafka.namespace: expected lower-case letters"),
        ("settings.OTHER=1", "settings.OTHER: expected a variable CALMSTREAM_..."),
        ("sink.settings.CALMSTREAM_SASL_PASSWORD=s", "a password comes from a secret only"),
        ("tally.replicas=0", "'/tally/replicas': minimum: got 0, want 1"),
        ("typo=1", "additional properties 'typo' not allowed"),
        ("gateway.typo=1", "additional properties 'typo' not allowed"),
        ("gateway.enabled=true", "gateway.plansConfigMap is needed"),
        ("gateway.storage.size=10GB", "gateway.storage.size: expected a size such as 10Gi"),
        ("serve.enabled=true", "serve.tokenSecret is needed"),
        ("serve.origins={a.example}", "serve.origins: expected https://HOST[:PORT]"),
        ("sink.enabled=true", "sink.to: expected postgresql://"),
        ("sink.enabled=true,sink.to=postgresql://u:secret@h/d", "without a password"),
        ("aggregator.enabled=true", "aggregator.accountClaim is needed"),
        ("plan.existingConfigMap=m", "plan.document and plan.existingConfigMap exclude"),
        ("plans.claim=c", "plans replaces plan"),
        ("plan.document=,plans.claim=c,plans.existingConfigMap=m", "exclude each other"),
        ("plan.document=,plans.documents.a\\.json=x", "plans.roots is needed"),
        ("plan.document=,plans.documents.a\\.txt=x", "does not end in .json"),
        ("plan.document=", "a plan is needed"),
    ],
)
def test_what_cannot_work_is_refused_in_words(options: str, said: str) -> None:
    without = options.startswith("plan.document=")
    made = helm(*(() if without else PLAN), *BROKER, "--set", options)
    assert made.returncode != 0
    assert said in made.stderr
    assert "anyOf" not in made.stderr
