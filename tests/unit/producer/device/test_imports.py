"""Check what a device loads: little, and nothing of the estimators."""

from __future__ import annotations

from pathlib import Path

from tests.support.producer import START
from tests.support.runs import python
from tests.support.signed import Operator
from tests.support.wheels import service_modules

ROOT = Path(__file__).parents[4]
MODULES, LINES = 20, 2_500  # after the import of a reporter
MODULES_IN_USE, LINES_IN_USE = 58, 7_000  # after a report under a signed plan
ESTIMATORS = ("methods", "noise_aware", "numerics", "analysis", "changes", "tally", "planning")

IMPORT = "from calmstream import FileStore, Policy, Reporter"
REPORT = f"""{IMPORT}
import sys
from pathlib import Path
reporter = Reporter(
    Path(sys.argv[1]).read_bytes(), FileStore(sys.argv[2]), clock=lambda: {START * 1000},
    policy=Policy(roots=[sys.argv[3]]),
)
assert reporter.report({{}}) is not None
assert not {service_modules()} & set(sys.modules)
"""


def loaded(script: str, *arguments: str) -> dict[str, int]:
    script += (
        "\nimport sys"
        "\nfor name, module in sorted(sys.modules.items()):"
        "\n    if name.partition('.')[0] == 'calmstream':"
        "\n        print(name, module.__file__)"
    )
    done = python("-c", script, *arguments, seconds=120, cwd=ROOT)
    pairs = (line.split(maxsplit=1) for line in done.stdout.splitlines())
    return {name: len(Path(file).read_text().splitlines()) for name, file in pairs}


def test_a_reporter_is_imported_with_few_modules() -> None:
    found = loaded(IMPORT)
    assert len(found) <= MODULES, found
    assert sum(found.values()) <= LINES, found


def test_a_device_loads_the_mechanisms_of_its_plan_and_no_estimator(tmp_path: Path) -> None:
    operator = Operator()
    (tmp_path / "plan").write_bytes(operator.sign(operator.plan()))  # GRR and OUE
    found = loaded(REPORT, str(tmp_path / "plan"), str(tmp_path / "state"), operator.root)
    assert len(found) <= MODULES_IN_USE, found
    assert sum(found.values()) <= LINES_IN_USE, found
    rooms = {name.partition("calmstream.")[2] for name in found}
    assert not [r for r in rooms if r.startswith(("consumer", "broker", "producer.gateway"))]
    assert not [r for r in rooms if r.startswith(tuple(f"estimators.{e}" for e in ESTIMATORS))]
    assert not {"estimators.mechanisms.bloom_rr", "estimators.mechanisms.olh"} & rooms
