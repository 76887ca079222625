"""The page of the documentation lists the problems and the limits that the code has."""

from __future__ import annotations

import re

from calmstream.common.settings import settable
from calmstream.consumer.serve.problems import Problem
from calmstream.consumer.serve.settings import ServeSettings
from tests.support.docs import ROOT

TEXT = (ROOT / "docs" / "serving.md").read_text()


def test_every_problem_is_described() -> None:
    described = re.findall(r"^\| `([a-z_]+)` \| (\d{3}) \|", TEXT, re.MULTILINE)
    assert described == [(problem.value, str(problem.kind.status)) for problem in Problem]


def test_every_limit_is_described() -> None:
    described = dict(re.findall(r"^\| `([A-Z_]+)` \| ([^|]+) \|", TEXT, re.MULTILINE))
    limits = {name.upper(): getattr(ServeSettings(), name) for name in settable(ServeSettings)}
    for name in ("HOST", "PORT", "RETRY_SECONDS"):
        limits.pop(name)
    assert described.keys() == limits.keys()
    for name, default in limits.items():
        shown = described[name].removesuffix(" MiB")
        unit = 1 << 20 if described[name].endswith("MiB") else 1
        assert float(shown) * unit == default
