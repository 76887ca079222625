"""Repeat the attacks of a security review and report whether the product resists each one.

    python -m benchmarks.attacks [--only A10]

Each attack runs in a separate process and prints one line: the name of the attack, ``held`` (the
product resists) or ``BROKEN`` (the attack succeeds), and what happened. An attack that cannot run
because the product lacks the defence counts as broken. The exit code is 0 if the product resists
all attacks.

The name of an attack begins with the number of the finding that it repeats, A1 to A15; a finding
may have several attacks.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys

SECONDS = 400.0
"""Time limit of one attack. The slowest ones start a broker and send a flood of records."""

MODULES = ("workers", "central", "edge", "readers", "http")
"""Modules with attacks; each has a table ``ATTACKS`` of attacks by name."""

MARK = "verdict:"  # prefix of the line by which the process of an attack returns its verdict


def names() -> list[tuple[str, str]]:
    attacks = []
    for module in MODULES:
        attacks += [
            (module, attack)
            for attack in importlib.import_module(f"benchmarks.attacks.{module}").ATTACKS
        ]
    return sorted(attacks, key=lambda pair: (int(pair[1].split()[0][1:]), pair[1]))


def attempt(module: str, attack: str) -> tuple[bool, str]:
    """Run one attack in a separate process; return whether the product resists, and a sentence."""
    words = [sys.executable, "-m", "benchmarks.attacks", "--child", module, attack]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False, f"no end within {SECONDS:g} s"
    for line in done.stdout.splitlines():
        if line.startswith(MARK):
            held, what = json.loads(line.removeprefix(MARK))
            return held, what
    errors = [line for line in done.stderr.splitlines() if line.strip()] or ["nothing"]
    return False, f"the process ends with {done.returncode}: {errors[-1][:160]}"


def child(module: str, attack: str) -> int:
    """Run one attack in this process and write the verdict, as JSON, to standard output."""
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
