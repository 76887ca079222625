"""Measure one repeat of one point of a figure (`Piece`), and store results (`Ledger`)."""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from benchmarks.accuracy.pieces import OWN_SEED, Piece
from benchmarks.accuracy.populations import devices
from calmstream.common.errors import InvalidInput
from calmstream.estimators import methods
from calmstream.estimators.marginal import sse, total_variation
from calmstream.estimators.methods.base import LinearAnswers, Request
from calmstream.evaluation.population import collect, local_plan

RESULTS = Path(__file__).resolve().parents[1] / "results"


def measure(piece: Piece, repeat: int) -> dict[str, Any]:
    """Return the mean errors over the targets, "raw" of unbiased tables; or why it is refused."""
    drawn = devices(*piece.population, repeat)
    method = methods.get(piece.method)
    # A sketch of seed s has the hash functions s to s + 4, so closer seeds share some of them.
    given = {n: 5 * repeat if v == OWN_SEED else v for n, v in piece.parameters.items()}
    request = Request(drawn.domain, piece.epsilon, piece.users, piece.k, given)
    try:
        plan = local_plan(method, request)
    except InvalidInput as refusal:
        return {"refused": str(refusal)}
    digest = hashlib.sha256(piece.key.encode()).digest()
    seed = np.random.SeedSequence((int.from_bytes(digest[:8], "big"), repeat))
    started = time.perf_counter()
    # Tallies are drawn from their distribution. That is not possible for reports of whole records
    # with more than 2^16 values; then every report is simulated.
    large = plan.mechanisms[0].name == "product-grr" and drawn.domain.size() > 1 << 16
    tallies = collect(plan, drawn.codes, seed, exact=not large)
    model = method.fit(plan, tallies)
    targets = drawn.targets(piece.k, piece.targets)
    truths = [drawn.truth(target) for target in targets]
    published = [model.marginal(target).table for target in targets]
    errors: dict[str, Any] = _errors(published, truths)
    if isinstance(model, LinearAnswers) and piece.method != "calm":
        raw = [model.unclipped(target) for target in targets]
        errors |= {f"{name}_raw": value for name, value in _errors(raw, truths).items()}
    return errors | {"seconds": round(time.perf_counter() - started, 3)}


def _errors(tables: Iterable[np.ndarray], truths: Iterable[np.ndarray]) -> dict[str, float]:
    pairs = list(zip(tables, truths, strict=True))
    return {
        "sse": float(np.mean([sse(a, b) for a, b in pairs])),
        "tv": float(np.mean([total_variation(a, b) for a, b in pairs])),
    }


class Ledger:
    """The results of one figure: a line for each piece and repeat, appended when it is measured."""

    def __init__(self, figure: str, folder: Path = RESULTS) -> None:
        self.path = folder / f"{figure}.jsonl"
        self._results: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
        if self.path.exists():
            for line in self.path.read_bytes().splitlines():
                entry = orjson.loads(line)
                self._results[entry["key"]][entry["repeat"]] = entry["result"]

    def has(self, key: str, repeat: int) -> bool:
        """Return whether a repeat has a result; a piece that was refused once has all."""
        repeats = self._results.get(key, {})
        return repeat in repeats or any("refused" in result for result in repeats.values())

    def add(self, key: str, repeat: int, result: dict[str, Any]) -> None:
        line = {"key": key, "repeat": repeat, "result": rounded(result)}
        self._results[key][repeat] = line["result"]
        with self.path.open("ab") as file:
            file.write(orjson.dumps(line) + b"\n")

    def results(self, key: str) -> list[dict[str, Any]]:
        repeats = self._results.get(key, {})
        return [repeats[repeat] for repeat in sorted(repeats)]


def rounded(result: dict[str, Any]) -> dict[str, Any]:
    """Round numbers to five significant digits."""
    return {k: float(f"{v:.5g}") if isinstance(v, float) else v for k, v in result.items()}
