"""Shared by the tests of deploy/: its files, the tools that check them, and the metrics."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.site import SECTIONS
from tests.support.runs import ran

try:
    from yaml import CSafeLoader as SafeLoader  # ten times as fast, where libyaml exists
except ImportError:
    from yaml import SafeLoader

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "prometheus" / "rules.yaml"
HELM = DEPLOY / "helm"
CHART = HELM / "calmstream"
ALL_METRICS = tuple(metric for _, _, part in SECTIONS for metric in part)
_METRIC = re.compile(r"\bcalmstream_[a-z0-9_]+")


def tool(name: str) -> str:
    """Return the path of a program; without it, skip the test, or fail it in the gate."""
    path = shutil.which(name)
    if path is not None:
        return path
    why = f"{name} is not installed (Debian: apt-get install prometheus)"
    if os.environ.get("CALMSTREAM_REQUIRE_BROKER", "") not in {"", "0"}:
        pytest.fail(why)
    pytest.skip(why)


def load(path: Path) -> Any:
    return yaml.load(path.read_text(), SafeLoader)


@cache
def rules() -> list[dict[str, Any]]:
    return [rule for group in load(RULES)["groups"] for rule in group["rules"]]


def alerts() -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


@cache
def sample_names() -> dict[str, str]:
    """Map every exported sample name to its metric."""
    names = {}
    for metric in ALL_METRICS:
        histogram = metric.kind == "histogram"
        for suffix in ("_bucket", "_count", "_sum") if histogram else ("",):
            names[metric.name + suffix] = metric.name
    return names


@cache
def metrics_in(expression: str) -> set[str]:
    """Return the product's sample names in an expression, with recording rules resolved."""
    names = set(_METRIC.findall(expression))
    for rule in rules():
        record = rule.get("record")
        if record and re.search(rf"{re.escape(record)}(?![a-z0-9_:])", expression):
            names |= metrics_in(rule["expr"])
    return names


@cache
def panels() -> dict[tuple[str, int], dict[str, Any]]:
    """Return the panels with queries to Prometheus of all dashboards, by dashboard and id."""
    by_title = {}
    for path in sorted((DEPLOY / "grafana" / "dashboards").glob("*.json")):
        for panel in load(path)["panels"]:
            if panel["type"] != "row" and panel["datasource"]["type"] == "prometheus":
                by_title[path.stem, panel["id"]] = panel
    return by_title


@dataclass(frozen=True)
class Rendering:
    """The committed output of helm for one set of values.

    ``values``, ``plan`` and ``folder`` are the files that `deploy/helm/render.sh` gave it: one
    plan, or several, each under its name up to the first dot. A component is a pod's label.
    """

    name: str
    values: Path
    plan: Path | None = None
    folder: tuple[Path, ...] = ()

    @property
    def path(self) -> Path:
        return HELM / "rendered" / f"{self.name}.yaml"

    @cached_property
    def objects(self) -> list[dict[str, Any]]:
        return [each for each in yaml.load_all(self.path.read_text(), SafeLoader) if each]

    @cached_property
    def workloads(self) -> dict[str, dict[str, Any]]:
        """Return the objects that run pods, by component."""
        return {
            each["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]: each
            for each in self.objects
            if each["kind"] in {"StatefulSet", "Deployment", "Job"}
        }

    def one(self, kind: str) -> dict[str, Any]:
        (match,) = (each for each in self.objects if each["kind"] == kind)
        return match

    def pod(self, component: str) -> dict[str, Any]:
        return dict(self.workloads[component]["spec"]["template"]["spec"])

    def container(self, component: str) -> dict[str, Any]:
        (container,) = self.pod(component)["containers"]
        return dict(container)

    def variables(self, component: str) -> set[str]:
        return {each["name"] for each in self.container(component).get("env") or ()}

    def mounted(self, component: str) -> dict[str, str]:
        mounts = self.container(component)["volumeMounts"]
        return {mount["name"]: mount["mountPath"] for mount in mounts}

    def again(self) -> list[dict[str, Any]]:
        given = ["--values", str(self.values)]
        if self.plan is not None:
            given += ["--set-file", f"plan.document={self.plan}"]
        for path in self.folder:
            name = path.name.split(".")[0]
            given += ["--set-file", f"plans.documents.{name}\\.json={path}"]
        made = helm(*given)
        assert made.returncode == 0, made.stderr
        return [each for each in yaml.load_all(made.stdout, SafeLoader) if each]


def helm(*options: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Render the chart as release ``telemetry``; skip the test where helm is not installed."""
    path = shutil.which("helm")
    if path is None:
        pytest.skip("helm is not installed; deploy/helm/rendered is what it made")
    words = [path, "template", "telemetry", CHART, "--namespace", "telemetry"]
    return ran(*words, "--kube-version", "1.30.0", *options, code=None, input=stdin)


LOCAL = Rendering("sample", HELM / "sample-values.yaml", DEPLOY / "plans" / "devices.plan.json")
GATEWAY = Rendering("gateway", HELM / "gateway-values.yaml", DEPLOY / "plans" / "devices.plan.json")
SERVE = Rendering("serve", HELM / "serve-values.yaml", DEPLOY / "plans" / "devices.plan.json")
SINK = Rendering("sink", HELM / "sink-values.yaml", DEPLOY / "plans" / "devices.plan.json")
CENTRAL = Rendering("central", HELM / "central-values.yaml", HELM / "central-sample.plan.json")
PLANS = Rendering("plans", HELM / "plans-values.yaml")
TRIAL_PLANS = Rendering(
    "trial-plans",
    HELM / "trial-plans-values.yaml",
    folder=tuple(DEPLOY / "plans" / f"{name}.plan.json" for name in ("devices", "browser")),
)
SAMPLES = (LOCAL, GATEWAY, SERVE, SINK, CENTRAL, PLANS, TRIAL_PLANS)


def assert_confined(pod: dict[str, Any]) -> None:
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10001
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False, "it would add CALMSTREAM_* variables"
    for container in pod["containers"]:
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] is True
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
