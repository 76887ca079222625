"""Try attacks that once succeeded, and print what happens now with a verdict.

    python -m benchmarks.attacks [--only WORDS]

Each attack runs in a process of its own and prints one line: the attack, held or BROKEN, and what
happened. An attack that cannot run because the product lacks the defence counts as broken. The exit
code is 0 if all attacks are held.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys

SECONDS = 400.0
MODULES = ("workers", "central", "edge", "readers")
MARK = "verdict:"


def names() -> list[tuple[str, str]]:
    """Return (module, attack) of all attacks, in the order of their numbers."""
    found = []
    for module in MODULES:
        found += [
            (module, attack)
            for attack in importlib.import_module(f"benchmarks.attacks.{module}").ATTACKS
        ]
    return sorted(found, key=lambda pair: (int(pair[1].split()[0][1:]), pair[1]))


def attempt(module: str, attack: str) -> tuple[bool, str]:
    """Run one attack in a process of its own; return whether it was held off, and what happened."""
    words = [sys.executable, "-m", "benchmarks.attacks", "--child", module, attack]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False, f"no end within {SECONDS:g} s"
    for line in done.stdout.splitlines():
        if line.startswith(MARK):
            held, what = json.loads(line.removeprefix(MARK))
            return held, what
    said = [line for line in done.stderr.splitlines() if line.strip()] or ["nothing"]
    return False, f"the process ends with {done.returncode}: {said[-1][:160]}"


def child(module: str, attack: str) -> int:
    """Run one attack in this process; write the verdict to standard output."""
    verdict = importlib.import_module(f"benchmarks.attacks.{module}").ATTACKS[attack]()
    print(MARK + json.dumps([verdict.held, " ".join(verdict.what.split())]), flush=True)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only attacks that begin with this, such as A1")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return child(*args.child)
    verdicts = []
    for module, attack in names():
        if attack.startswith(args.only):
            held, what = attempt(module, attack)
            verdicts.append(held)
            print(f"{attack:42} {'held' if held else 'BROKEN':7} {what}", flush=True)
    print(f"{sum(verdicts)} of {len(verdicts)} held")
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
