# ruff: noqa: T201 - people read what it prints
"""Fuzz decoders, plans, files and HTTP servers with coverage of the product's code (Atheris).

    make fuzz-coverage                            # ten minutes
    make fuzz-coverage ARGS="--seconds 60"
    make fuzz-coverage ARGS="--only plan,http --keep"

Each target (`targets.py`) has its part of the time, and begins with the inputs in ``corpus`` and
the examples of the documentation. ``--keep`` writes the inputs that reached new code to ``corpus``,
which tests read. The first input that breaks a promise ends its target; it lies in ``build/fuzz``.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from random import Random

from tests.fuzz.corpus import CORPUS, inputs

MOST_BYTES = 60_000  # of one target's corpus, uncompressed: the smallest inputs stay

INSTRUMENTED = {
    "batch": "estimators.wire",
    "report": "estimators.wire",
    "log": "broker.record_batches",
    "topics": "estimators.wire estimators.central.release_reading consumer.subscribe.assembler",
    "plan": "estimators.plan estimators.domain estimators.mechanisms producer.device.read_plan",
    "envelope": "producer.signed producer.device.read_plan",
    "store": "producer.device.state_json producer.device.policy producer.device.totals",
    "spool": "producer.gateway.durable",
    "http": "common.http producer.gateway.http consumer.serve",
}
"""Targets, and the modules whose coverage guides them: Atheris takes seconds to prepare one."""

JSON = ("report", "topics", "plan", "store")
"""Targets whose inputs are a byte and a JSON document: their fields are changed, too."""

WORDS = ("HTTP/1.1", "GET ", "POST ", "content-length: ", "transfer-encoding: chunked\\x0d\\x0a")
ROOT = Path(__file__).parents[2]
FOUND = ROOT / "build" / "fuzz"
STATE = re.compile(r"#(\d+)\s+(\w+).*?cov: (\d+)")


def child(name: str, arguments: list[str]) -> None:
    """Run libFuzzer in this process."""
    import atheris

    with atheris.instrument_imports(include=["calmstream"], exclude=_others(name)):
        from tests.fuzz import targets
        from tests.support.attacks.typed_mutants import VALUES, changed, paths

    target = targets.TARGETS[name][0]

    def run(raw: bytes) -> None:
        if len(raw) > 1:
            target(raw)

    def mutated(raw: bytes, most: int, seed: int) -> bytes:
        """Change a field of a JSON document in one of two cases, and bytes in the other one."""
        dice = Random(seed)
        try:
            document = json.loads(raw[1:]) if dice.random() < 0.5 else None
            ways = list(paths(document))
            value = dice.choice((*VALUES, *(_at(document, way) for way in ways[:40])))
            made = raw[:1] + json.dumps(changed(document, dice.choice(ways), value)).encode()
            return made[:most]
        except (ValueError, IndexError, TypeError, RecursionError):
            return bytes(atheris.Mutate(raw, len(raw)))

    mutator = {"custom_mutator": mutated} if name in JSON else {}
    atheris.Setup([sys.argv[0], *arguments], run, **mutator)
    atheris.Fuzz()


def _others(name: str) -> list[str]:
    wanted = tuple(f"calmstream.{module}" for module in INSTRUMENTED[name].split())
    found = ["calmstream"]
    for package in ("estimators", "common", "broker", "producer", "consumer"):
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found.append(".".join(("calmstream", *parts)).removesuffix(".__init__"))
    own = [path.stem for path in (ROOT / "calmstream").glob("*.py")]
    found += [f"calmstream.{module}" for module in own]
    return [module for module in found if not module.startswith(wanted)]


def _at(value: object, path: tuple[str | int, ...]) -> object:
    for step in path:
        value = value[step]  # type: ignore[index]
    return value


def fuzz(name: str, seconds: int, *, keep: bool) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        grown = Path(folder, "corpus")
        grown.mkdir()
        for number, raw in enumerate(inputs(name)):
            (grown / f"{number:05}").write_bytes(raw)
        words = Path(folder, "words")
        words.write_text("".join(f'"{word}"\n' for word in WORDS))
        FOUND.mkdir(parents=True, exist_ok=True)
        limits = ["-timeout=60", "-rss_limit_mb=4096", "-max_len=20000", "-len_control=0"]
        where = [f"-artifact_prefix={FOUND}/{name}-", f"-dict={words}", "-print_final_stats=1"]
        done = _child(name, f"-max_total_time={seconds}", *limits, *where, str(grown))
        states = STATE.findall(done.stderr)
        begin = next((cov for _, what, cov in states if what == "INITED"), "?")
        runs, _, end = states[-1] if states else ("0", "", "?")
        kept = len(list(grown.iterdir()))
        print(f"{name:10} {int(runs):9,} inputs, {begin} -> {end} edges, {kept} kept", flush=True)
        if done.returncode:
            said = (done.stdout + done.stderr).splitlines()
            print("\n".join(line[:500] for line in said if line[:1] != "#" and "INFO" not in line))
            return False
        if keep:
            _keep(name, grown)
    return True


def _child(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.fuzz", "--child", name, "--", *arguments]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)


def _keep(name: str, grown: Path) -> None:
    """Write the inputs that reached new code; examples have numbers as names, and are not kept."""
    found = sorted((p.stat().st_size, p) for p in grown.iterdir() if len(p.name) > len("00000"))
    room = MOST_BYTES
    with zipfile.ZipFile(CORPUS / f"{name}.zip", "w") as packed:
        for size, path in found:
            room -= size
            if room >= 0:
                about = zipfile.ZipInfo(path.name)
                packed.writestr(about, path.read_bytes(), zipfile.ZIP_DEFLATED)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=int, default=600, help="of all targets together")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(INSTRUMENTED))
    parser.add_argument("--keep", action="store_true", help="write what was found to corpus")
    args = parser.parse_args()
    each = max(args.seconds // len(args.only), 1)
    well = [fuzz(name, each, keep=args.keep) for name in args.only]
    from tests.fuzz.targets import stop_servers

    stop_servers()  # their threads would outlive this function
    return 0 if all(well) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[4:])
    else:
        sys.exit(main())
