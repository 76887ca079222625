"""Pictures of the page for the documentation: ``make page-pictures``."""

from __future__ import annotations

from pathlib import Path

from tests.support.adult_results import NAMESPACE, Results
from tests.support.serving import serving
from tests.support.typescript.package import PAGE

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"
WINDOWS = 48
PICTURES = (
    ("page-overview@1440-light", "overview"),
    ("page-table@1440-light", "tables?attributes=income,marital-status&given=income"),
    ("page-time@1440-dark", "time?attributes=relationship"),
    ("page-associations@1440-dark", "associations"),
    ("page-changes@1440-light", "changes"),
    ("page-overview@390-dark", "overview"),
    ("page-table@390-light", "tables?attributes=education"),
)
"""Names with their look, and views."""


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    program = PAGE.built() / "test" / "shots.tool.mjs"
    results = Results(WINDOWS, "noise-aware")
    with serving(results.plan, results.broker, namespace=NAMESPACE) as server:
        shots = [f"{name}={server.address}/#/census/{view}" for name, view in PICTURES]
        PAGE.run(str(program), str(FOLDER), *shots)


if __name__ == "__main__":
    main()
