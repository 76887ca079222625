"""Check ARCHITECTURE.md: its length, and that its packages and drawn imports are the real ones."""

from __future__ import annotations

import re
from itertools import pairwise, product

import grimp

from tests.support.docs import ROOT

TEXT = (ROOT / "ARCHITECTURE.md").read_text()
PACKAGES = ("estimators", "broker", "producer", "consumer", "calmstream")
DATA_FOLDERS = {"schemas", "data"}
Arrows = set[tuple[str, str]]


def rooms(package: str) -> set[str]:
    folders = (path.parent for path in (ROOT / package).glob("*/__init__.py"))
    return {folder.name for folder in folders if not folder.is_symlink()} - DATA_FOLDERS


def drawn() -> dict[str, Arrows]:
    (drawing,) = re.findall(r"```mermaid\nflowchart TD\n(.*?)```", TEXT, re.DOTALL)
    labels = dict(re.findall(r"(\w+)\[(\w+)\]", drawing))
    found = {}
    for package, body in re.findall(r"subgraph (\w+)\n(.*?)\n  end", drawing, re.DOTALL):
        arrows: Arrows = set()
        for line in re.sub(r"\[\w+\]", "", body).splitlines():
            steps = [[labels.get(n, n) for n in re.findall(r"\w+", s)] for s in line.split("-->")]
            arrows |= {pair for ends in pairwise(steps) for pair in product(*ends)}
        found[package] = arrows
    return found


def place(module: str) -> list[str]:
    """Return the folder at the top and the room of a module, as far as it has them."""
    inner = module.removeprefix("calmstream.").split(".")
    return inner[:2] if inner[0] in PACKAGES else ["calmstream", *inner[:1]]


def imported() -> dict[str, Arrows]:
    """Return the arrows between rooms of one package that modules really have, by package."""
    graph = grimp.build_graph("calmstream")
    by_package: dict[str, Arrows] = {package: set() for package in PACKAGES}
    for module in graph.modules:
        for target in graph.find_modules_directly_imported_by(module):
            ends = [place(module), place(target)]
            if ends[0][0] == ends[1][0] and all(e[-1] in rooms(e[0]) for e in ends):
                by_package[ends[0][0]].add((ends[0][1], ends[1][1]))
    return {package: {a for a in arrows if a[0] != a[1]} for package, arrows in by_package.items()}


def closed(arrows: Arrows) -> Arrows:
    """Return the arrows with all that follow from them."""
    reachable = set(arrows)
    while more := {(a, d) for a, b in reachable for c, d in reachable if b == c} - reachable:
        reachable |= more
    return reachable


def test_the_drawing_shows_the_imports_between_rooms() -> None:
    real = imported()
    for package, arrows in drawn().items():
        assert arrows <= real[package], "drawn, but not imported"
        assert real[package] <= closed(arrows), "imported, but not drawn"
    assert set(drawn()) == set(PACKAGES)


def test_every_room_is_named() -> None:
    for package in PACKAGES:
        for room in rooms(package):
            assert f"`{package}/{room}`" in TEXT, f"{package}/{room}"
