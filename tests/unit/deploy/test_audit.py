"""Check `make audit`: packages that were not looked up are never reported as clean."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deploy import audit

WELL = {"name": "rich", "version": "15.0.0", "vulns": []}
UNASKED = {"name": "numpy", "skip_reason": "Dependency not found on PyPI"}
ILL = {
    "name": "orjson",
    "version": "3.0",
    "vulns": [
        {"id": "GHSA-1", "fix_versions": ["3.1", "4.0"]},
        {"id": "GHSA-2", "fix_versions": []},
    ],
}


def report_on(*packages: dict[str, Any]) -> str:
    return json.dumps({"dependencies": list(packages), "fixes": []})


def test_a_vulnerability_is_named_with_its_repair() -> None:
    code, lines = audit.verdict(report_on(WELL, ILL), "Found 2 known vulnerabilities")
    assert code == 1
    assert lines == [
        "orjson 3.0: GHSA-1, repaired in 3.1, 4.0",
        "orjson 3.0: GHSA-2, repaired in no version yet",
    ]


def test_what_was_not_looked_up_is_named_and_is_not_clean() -> None:
    code, lines = audit.verdict(report_on(WELL, UNASKED), "No known vulnerabilities found")
    assert code == 2
    assert lines == ["NOT AUDITED: 1 of 2 packages; the advisory database did not answer for numpy"]
    code, lines = audit.verdict(report_on(ILL, UNASKED), "")
    assert code == 1
    assert lines[-1].startswith("NOT AUDITED: 1 of 2 packages")


@pytest.mark.parametrize("output", ["", "[]", "{}", "Traceback"])
def test_an_unreachable_database_is_reported(output: str) -> None:
    trouble = "Traceback (most recent call last):\nConnectionError: cannot resolve 'pypi.org'\n"
    assert audit.verdict(output, trouble) == (
        2,
        [
            "NOT AUDITED: the advisory database could not be asked:",
            "ConnectionError: cannot resolve 'pypi.org'",
        ],
    )
    assert audit.verdict(output, "")[1][-1] == "pip-audit said nothing"
