"""Compare the speed of the checkout with that of the last release, by turns, in one run.

    make bench
    make bench-release ARGS="--only start"

The release's wheel is built from its tag and installed in an environment of its own, as is the
checkout's. The times are processor seconds of whole processes, the best of the rounds. Whatever
takes more than 1.25 times as long ends the run with 1.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from tests.support.wheels import ROOT, installed, wheel

MOST = 1.25

DEVICE = """
import numpy as np
from calmstream.estimators.mechanisms.registry import standard
from calmstream.estimators.randomness import SystemRandomness
for name in ("grr", "oue", "subset-selection"):
    standard(name, "1", 64).perturb(np.arange(200_000) % 64, SystemRandomness())
"""
WORK = {
    "start": ("-m", "calmstream", "--help"),
    "device": ("-c", DEVICE),
    "demo": ("-m", "calmstream", "demo", "--reports", "100000"),
}


def last_release() -> str:
    """Return the tag of the last release before the version of the checkout; empty if none is."""
    present = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    listed = ["git", "tag", "--merged", "HEAD", "--sort=-version:refname", "--list", "v[0-9]*"]
    tags = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return next((tag for tag in tags.split() if tag != f"v{present}"), "")


def seconds(python: Path, arguments: tuple[str, ...], folder: Path) -> float:
    def spent() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    before = spent()
    alone = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    alone.pop("PYTHONPATH", None)
    command = [python, *arguments]
    subprocess.run(command, cwd=folder, env=alone, capture_output=True, check=True)
    return spent() - before


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(WORK))
    parser.add_argument("--against", default=last_release(), metavar="TAG", help="or any commit")
    args = parser.parse_args()
    if not args.against:
        print("no release to compare with")
        return 0
    slower = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sides = [
            installed(wheel(folder, commit=args.against, version="0.0.1"), folder / "old"),
            installed(wheel(folder, version="0.0.2"), folder / "new"),
        ]
        pythons = [program.parent / "python" for program in sides]
        print(f"| processor seconds | {args.against} | checkout | ratio |\n|---|---:|---:|---:|")
        for what in args.only:
            rounds = [[seconds(p, WORK[what], folder) for p in pythons] for _ in range(args.rounds)]
            old, new = (min(times) for times in zip(*rounds, strict=True))
            print(f"| {what} | {old:.2f} | {new:.2f} | {new / old:.2f} |", flush=True)
            slower += [what] if new > MOST * old else []
    if slower:
        print(f"slower than {args.against} by more than {MOST}: {', '.join(slower)}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
