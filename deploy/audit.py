# ruff: noqa: INP001 - a script, no package
"""Check the packages that the image installs for known vulnerabilities; `make audit` runs it.

pip-audit reports no vulnerabilities and exits with 0 even if the database does not know a package,
and it ends in a traceback if the database cannot be reached. Here a package that was not looked up
counts as unknown.

Exit codes: 0 every package was looked up and none has a known vulnerability; 1 some have; 2 some
packages could not be looked up; the output names them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

CLEAN, VULNERABLE, UNKNOWN = 0, 1, 2
COMMAND = (
    *("-m", "pip_audit", "--requirement", "requirements.lock"),
    *("--require-hashes", "--disable-pip", "--progress-spinner", "off", "--format", "json"),
)


def verdict(output: str, trouble: str) -> tuple[int, list[str]]:
    """Return the exit code and the lines to print.

    Args:
        output: the standard output of pip-audit, JSON unless it failed.
        trouble: its standard error.
    """
    try:
        packages: list[dict[str, Any]] = json.loads(output)["dependencies"]
    except (json.JSONDecodeError, KeyError, TypeError):
        last = (trouble.strip().splitlines() or ["pip-audit said nothing"])[-1]
        return UNKNOWN, ["NOT AUDITED: the advisory database could not be asked:", last[:500]]
    found = [
        f"{package['name']} {package['version']}: {one['id']}, repaired in "
        f"{', '.join(one['fix_versions']) or 'no version yet'}"
        for package in packages
        for one in package.get("vulns", ())
    ]
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    lines = [*found]
    if skipped:
        lines.append(
            f"NOT AUDITED: {len(skipped)} of {len(packages)} packages; the advisory database did "
            f"not answer for {', '.join(skipped)}"
        )
    if found:
        return VULNERABLE, lines
    if skipped or not packages:
        return UNKNOWN, lines or ["NOT AUDITED: there is no package in requirements.lock"]
    return CLEAN, [f"{len(packages)} packages looked up: no known vulnerability"]


def main() -> int:
    """Run pip-audit and print the verdict."""
    run = subprocess.run(  # noqa: S603 - fixed arguments
        [sys.executable, *COMMAND], capture_output=True, text=True, check=False
    )
    code, lines = verdict(run.stdout, run.stderr)
    print(*lines, sep="\n")  # noqa: T201 - a command
    return code


if __name__ == "__main__":
    sys.exit(main())
