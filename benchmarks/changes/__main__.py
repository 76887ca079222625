"""How often tests of change are wrong, and how often they find a change.

    python -m benchmarks.changes run [CELLS]     measures what is missing
    python -m benchmarks.changes table           writes benchmarks/results/changes.md

Cells: ``size/...`` null windows of one mechanism or of a plan; ``alarms/...`` all tables of a plan;
``power/...`` shifted windows beside the prediction;
``kind/...`` shifts of margins and of dependence. Devices are drawn from data sets.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from pathlib import Path

from benchmarks.changes.cells import CELLS, measure
from benchmarks.changes.table import page
from benchmarks.study import Study

RESULTS = Path(__file__).resolve().parents[1] / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("run", "table"))
    parser.add_argument("prefix", nargs="?", default="", help="only cells with this beginning")
    args = parser.parse_args()
    study = Study(RESULTS / "changes.jsonl")
    if args.action == "run":
        done = study.read()
        for name in CELLS:
            if name.startswith(args.prefix) and name not in done and study.claim(name):
                study.put(name, measure(name))
                print(name, flush=True)
    else:
        (RESULTS / "changes.md").write_text(page(study.read()))


if __name__ == "__main__":
    main()
