"""Check whether the tests notice small defects in the source (mutation testing).

A *mutant* is one small change of the source, made in a copy of the tree (``finder.py``). At first
all tests that need no Kafka run, and ``--cache`` stores which test executes which line, until a
Python file changes. Then each mutant runs against the tests that concern it: it is *killed* if one
fails that passes without it, or if they do not end in time; *not covered* if only subprocesses
execute its line. ``--resume`` continues with the mutants that have no verdict.

``--replay`` runs the mutants of earlier results in the present source; a mutant is identified by
its function, kind, text and occurrence. ``--moved`` names a JSON file: an earlier path, or
``path::Name``, to the present one or a list of them. A mutant whose function is in none of these
files is *gone*; one whose function lost its text is *changed*.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.mutation.finder import Mutant, content, find_again, matches, sample
from benchmarks.mutation.session import Copy

ROOT = Path(__file__).resolve().parents[2]

AREAS = {
    "engine": ["consumer/tally/**/*.py", "consumer/publish/*.py"],
    "wire": ["estimators/wire/*.py"],
    "mechanisms": ["estimators/mechanisms/*.py"],
    "edge": ["producer/device/*.py", "producer/gateway/*.py"],
}
"""Patterns of the files of each area. The sample has equally many mutants of each area."""

TEST_SECONDS = 15.0
"""Longest time that the tests of one mutant take together, as measured without the mutant."""

LIMIT_SECONDS = 60.0
"""Time limit of one mutant: for its tests, and for the start of two test sessions."""

FIRST_TESTS = 25
"""Number of tests in the first of two sessions; it kills most mutants, so the second is rare."""

LEARN_SECONDS = 5400.0
"""Time limit of the session with all tests, which is slow because it observes every line."""


class Judge:
    """Runs mutants in a copy against the tests that a session with all tests has shown."""

    def __init__(self, copy: Copy, known: Any) -> None:
        self._copy, self._lines, self._names = copy, known["lines"], list(known["seconds"])
        unfit = {*known["failed"], *known["skipped"]}
        self._seconds = {t: took for t, took in known["seconds"].items() if t not in unfit}
        self._sound: set[str] = set()

    def judge(self, mutant: Mutant) -> dict[str, Any]:
        began = time.monotonic()
        tests, left_out = self._tests(mutant)
        verdict, killer = ("survived" if tests else "not covered"), ""
        while tests:
            source = (self._copy.tree / mutant.file).read_bytes()
            mutated = source[: mutant.start] + mutant.new.encode() + source[mutant.end :]
            self._copy.put(mutant.file, mutated)
            try:
                verdict, killer = self._run(tests)
            finally:
                self._copy.put(mutant.file, source)
            if verdict == "survived" or self._is_sound(killer, tests):
                break
            # The failure is not the mutant's, so the other tests decide.
            tests = [t for t in tests if t != killer] if killer else tests[: len(tests) // 2]
            verdict, killer = "survived", ""
        result = {"verdict": verdict, "test": killer, "tests": len(tests), "left_out": left_out}
        return {**mutant.record(), **result, "seconds": round(time.monotonic() - began, 1)}

    def _tests(self, mutant: Mutant) -> tuple[list[str], int]:
        """Choose tests: those that execute the line, then others of their files, fastest first."""
        found = self._executed(mutant.file, mutant.own) or self._executed(
            mutant.file, mutant.header
        )
        if found == {-1} or not mutant.in_function:
            found = self._executed(mutant.file, (1, sys.maxsize))
        direct = self._seconds.keys() & {self._names[i] for i in found - {-1}}
        files = {test.split("::")[0] for test in direct}
        others = {test for test in self._seconds if test.split("::")[0] in files} - direct
        chosen: list[str] = []
        left = TEST_SECONDS
        for some in (direct, others):
            for test in sorted(some, key=lambda t: (self._seconds[t], t)):
                left -= self._seconds[test]
                if left >= 0 or not chosen:
                    chosen.append(test)
        return chosen, len(direct | others) - len(chosen)

    def _executed(self, file: str, span: tuple[int, int]) -> set[int]:
        """Return the numbers of the tests that execute a line of the span; -1 means an import."""
        lines = self._lines[file].items()
        return {i for line, some in lines if span[0] <= int(line) <= span[1] for i in some}

    def _run(self, tests: list[str]) -> tuple[str, str]:
        deadline = time.monotonic() + LIMIT_SECONDS
        for part in filter(None, (tests[:FIRST_TESTS], tests[FIRST_TESTS:])):
            code, noted = self._copy.session(deadline - time.monotonic(), part, [])
            if code is None:
                return "timeout", ""
            if code not in (0, 5):
                return "killed", next(iter(noted["failed"]), "")
        return "survived", ""

    def _is_sound(self, killer: str, tests: list[str]) -> bool:
        """Return whether the failed test (all, if none is named) passes without the mutant."""
        if killer in self._sound:
            return True
        sound = self._run([killer] if killer else tests)[0] == "survived"
        if sound and killer:
            self._sound.add(killer)
        return sound


def learn(copy: Copy, cache: Path, files: list[str]) -> Any:
    """Return which test executes which line, from the cache or by a session with all tests."""
    if cache.exists():
        known = json.loads(cache.read_text())
        if known["digest"] == copy.digest and set(files) <= known["lines"].keys():
            return known
    print("learning which test executes which line", file=sys.stderr, flush=True)
    code, known = copy.session(LEARN_SECONDS, [], files)
    if code not in (0, 1):
        sys.exit(f"the tests did not run to their end (exit code {code}); run pytest to see why")
    for test in known["failed"]:
        print(f"left out, it fails without any mutant: {test}", file=sys.stderr)
    known["digest"] = copy.digest
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.write_text(json.dumps(known))
    return known


def table(results: list[Any]) -> str:
    """Return the totals by area in Markdown; mutants that no test executes count as survived."""
    lines = [
        "| area | mutants | killed | survived | of these not covered | gone | changed |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for area in (*dict.fromkeys(result["area"] for result in results), "all"):
        some = Counter(r["verdict"] for r in results if area in (r["area"], "all"))
        lost, bare = some["killed"] + some["timeout"], some["not covered"]
        ends = f"{some['gone']} | {some['changed']}"
        lines.append(
            f"| {area} | {some.total()} | {lost} | {some['survived'] + bare} | {bare} | {ends} |"
        )
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.mutation", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--count", type=int, default=200, help="mutants")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--files", nargs="+", metavar="GLOB", default=[], help="instead of AREAS")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache" / "mutation-lines.json")
    parser.add_argument("--out", type=Path, default=ROOT / ".cache" / "mutation.json")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="go on with these results")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run these mutants again")
    parser.add_argument("--moved", type=Path, metavar="MAP", help="paths since --replay's FILE")
    return parser.parse_args()


def draw(asked: argparse.Namespace) -> tuple[list[Mutant | dict[str, Any]], list[str]]:
    """Return the mutants to run, records of those gone or changed, and the files to observe."""
    if not asked.replay:
        areas = {file: area for area, globs in AREAS.items() for file in matches(ROOT, globs)}
        if asked.files:
            areas = {file: areas.get(file, "other") for file in matches(ROOT, asked.files)}
        return [*sample(ROOT, areas, asked.count, asked.seed)], list(areas)
    records = json.loads(asked.replay.read_text())
    moved = json.loads(asked.moved.read_text()) if asked.moved else {}
    again = find_again(ROOT, records, moved)
    drawn: list[Mutant | dict[str, Any]] = [
        {**record, "verdict": now, "test": ""} if isinstance(now, str) else now
        for record, now in zip(records, again, strict=True)
    ]
    return drawn, sorted({mutant.file for mutant in drawn if isinstance(mutant, Mutant)})


def identity(mutant: Mutant | dict[str, Any]) -> tuple[Any, ...]:
    """Return what identifies a mutant or its record: the file and `content`."""
    record = mutant.record() if isinstance(mutant, Mutant) else mutant
    return record["file"], *content(record)


def main() -> None:
    asked = arguments()
    drawn, files = draw(asked)
    out = asked.resume or asked.out
    if out == asked.replay:
        sys.exit(f"{out} holds the earlier results; name another file by --out")
    results = json.loads(out.read_text()) if asked.resume else []
    done = {identity(record) for record in results}
    todo = [mutant for mutant in drawn if identity(mutant) not in done]
    if len(todo) + len(results) != len(drawn):
        sys.exit(f"{out} holds mutants of another sample or source; start again without --resume")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        copy = Copy(ROOT, Path(folder).resolve())
        judge = Judge(copy, learn(copy, asked.cache, files))
        for mutant in todo:
            last = judge.judge(mutant) if isinstance(mutant, Mutant) else mutant
            results.append(last)
            out.write_text(json.dumps(results, indent=1) + "\n")
            place = f"{last['file']}:{last['line']}:{last['column']} {last['kind']}"
            count = f"{len(results)}/{len(drawn)}"
            print(f"{count} {last['verdict']}: {place}", file=sys.stderr, flush=True)
    print(table(results))


if __name__ == "__main__":
    main()
