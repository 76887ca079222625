"""Install what `make release` made in empty environments, and use it.

    make install-test
    make install-test ARGS=--short     # one Python, the wheel alone; the npm package

With every Python from 3.11 on that is found: the wheel alone is a device, which takes a signed plan
and refuses a changed one; with ``[service]``, of the newest and of the lowest dependencies, it is a
device and `calmstream demo` runs. An empty project of Node does what the device does. Nothing is
taken from the checkout but examples of signed plans.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "signed-examples.json"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")

DEVICE = """
import base64, json, sys
from calmstream import FileStore, PlanRefused, Policy, Reporter, history, set_policy
import calmstream.producer.device.reporter
cases = json.load(open(sys.argv[1]))["envelopes"]
case = next(c for c in cases if c["name"] == "accepted")
store, raw = FileStore("device.json"), base64.b64decode(case["envelope"])
set_policy(store, Policy.from_json(case["policy"]))
reporter = Reporter(raw, store, clock=lambda: case["now"] * 1000)
assert reporter.report({"colour": "red"}, keep=True) is not None
assert len(history(FileStore("device.json"))) == 1
try:
    Reporter(raw.replace(b"Example Ltd", b"Example Lte"), store)
except PlanRefused as refused:
    print(calmstream.__file__, refused.reason.value)
else:
    raise SystemExit("a changed plan was accepted")
"""

NODE = """
import { readFileSync } from "node:fs";
import { history, PlanRefused, Reporter, setPolicy } from "calmstream-edge";
import { FileStore } from "calmstream-edge/node";
const cases = JSON.parse(readFileSync(process.argv[2])).envelopes;
const given = cases.find((each) => each.name === "accepted");
const store = new FileStore("device"), raw = Buffer.from(given.envelope, "base64");
await setPolicy(store, given.policy);
const reporter = await Reporter.open(raw, store, { clock: () => given.now * 1000 });
if (!(await reporter.report({ colour: "red" }, { keep: true }))) throw new Error("no report");
const changed = Buffer.from(raw.toString().replace("Example Ltd", "Example Lte"));
let refused = false;
const opened = Reporter.open(changed, store);
await opened.catch((error) => { refused = error instanceof PlanRefused; });
if (!refused) throw new Error("a changed plan was accepted");
"""


def run(*command: str | Path, folder: Path) -> None:
    kept = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=folder, env=kept, capture_output=True, text=True, timeout=1800, check=False
    )
    if done.returncode:
        raise SystemExit(
            f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
        )


def pythons() -> Iterator[tuple[str, str]]:
    """Yield version and path of every Python that is found."""
    for version in PYTHONS:
        built = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
        here = sys.executable if f"{sys.version_info[0]}.{sys.version_info[1]}" == version else None
        for found in (here, *map(str, built), shutil.which(f"python{version}")):
            if (
                found
                and subprocess.run(
                    [found, "-c", "import venv, ensurepip"], capture_output=True, check=False
                ).returncode
                == 0
            ):
                yield version, found
                break


def installed(folder: Path, python: str, what: str, *options: str) -> Path:
    """Install into an empty environment; return its Python."""
    run(python, "-m", "venv", folder / "environment", folder=folder)
    own = folder / "environment" / "bin" / "python"
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", str(own)]
    run(*uv, *options, what, folder=folder)
    (folder / "device.py").write_text(DEVICE)
    run(own, "device.py", EXAMPLES, folder=folder)
    return own


def with_python(python: str, wheel: Path, *, service: bool, lowest: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        what = f"{wheel}[service]" if service else str(wheel)
        options = ("--resolution", "lowest-direct") if lowest else ()
        own = installed(Path(name), python, what, *options)
        if service:
            run(own, "-m", "calmstream", "demo", "--reports", "20000", folder=Path(name))


def with_node(package: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "package.json").write_text('{"private": true, "type": "module"}')
        run("npm", "install", "--silent", "--no-audit", package, folder=folder)
        (folder / "device.mjs").write_text(NODE)
        run("node", "--no-warnings", "device.mjs", EXAMPLES, folder=folder)


def with_image(image: Path) -> None:
    run("docker", "load", "--input", image, folder=ROOT)
    tag = f"calmstream:{image.name.removesuffix('.tar.gz').rpartition('-')[2]}"
    run("docker", "run", "--rm", tag, "demo", "--reports", "20000", folder=ROOT)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--dist", type=Path, default=ROOT / "dist")
    parser.add_argument("--short", action="store_true")
    args = parser.parse_args()
    dist = args.dist.resolve()
    (wheel,) = dist.glob("*.whl")

    def said(what: str, began: float) -> None:
        print(f"{what:40} {time.monotonic() - began:6.0f} s", flush=True)

    found = list(pythons())
    for version, python in found[:1] if args.short else found:
        for service, lowest in (
            ((False, False),) if args.short else ((False, False), (True, False), (True, True))
        ):
            began = time.monotonic()
            with_python(python, wheel, service=service, lowest=lowest)
            kind = ("wheel alone", "[service], newest", "[service], lowest")[service + lowest]
            said(f"Python {version}, {kind}", began)
    for package in dist.glob("*.tgz"):
        if shutil.which("npm"):
            began = time.monotonic()
            with_node(package)
            said("npm package", began)
    for image in () if args.short else dist.glob("*image*.tar.gz"):
        began = time.monotonic()
        with_image(image)
        said("image", began)
    there = {version for version, _ in found}
    missing = [f"Python {version}" for version in PYTHONS[:3] if version not in there]
    missing += [] if list(dist.glob("*image*.tar.gz")) else ["the image: dist has none"]
    print(f"not tested: {', '.join([*missing, 'musl, macOS, Windows, ARM'])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
