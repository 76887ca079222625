"""Repeat the measurements of Figs. 3, 5, 6 and 7 of the Castell paper.

The error is the paper's AVD: the largest absolute error of a marginal's cells, averaged over
attribute sets. ``python -m benchmarks.castell.avd`` adds missing points to
``benchmarks/results/castell.csv``.
"""

from __future__ import annotations

import os

# One thread per process. The variables must be set before numpy is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import csv
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields, replace
from functools import cache
from itertools import combinations
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

import numpy as np

from benchmarks.populations import ADULT, DATA
from calmstream.estimators.domain import Attribute, Attributes, Domain
from calmstream.estimators.methods.base import Model, Request
from calmstream.estimators.numerics.block_inverse import unmix
from calmstream.estimators.papers.castell.design import product_group
from calmstream.estimators.papers.castell.model import ProductModel
from calmstream.estimators.papers.castell.product_grr import channels
from calmstream.estimators.papers.lopub.bloom_rr import BITS, HASHES, BloomRR
from calmstream.estimators.papers.lopub.method import PENALTY, LoPubModel
from calmstream.estimators.randomness import SeededRandomness
from calmstream.estimators.tally import Tally
from calmstream.tables.reading import ReadingOptions
from calmstream.tables.records import RecordTable, read_table, read_texts

RESULTS = ROOT / "benchmarks" / "results" / "castell.csv"
SCHEMES = {
    "rr-ind-joint": "joint",
    "rr-independent": "independent",
    "rr-hybrid": "hybrid",
    "rr-truncated": "truncated",
}
"""The schemes of `ProductModel` by the name of their method. A scheme is a way to estimate from
the same reports."""

SUBSETS = 150
"""Largest number of attribute sets per point, evenly spaced. Data of 8 or 9 attributes has fewer
sets of one size, so all are used; the paper draws 20 to 50."""

RR_JOINT_W = 3  # largest w for the method RR-Joint, as in the paper

LOPUB_W = 3  # largest w for the method LoPub, whose time grows fast with w

EXPECTED_EPSILON = 1.0
"""Epsilon per attribute of the estimate from expected counts; see `Point.source`."""

SIZES = (100, 300, 1000, 3000, 10_000)  # numbers of records in Fig. 6, besides all records
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)  # values of epsilon per attribute in Fig. 7

USUAL_EPSILON = 4.0  # epsilon per attribute of the other figures

TABLE_VI = {
    "rr-ind-joint": (0.0004, 0.0023, 0.0129, 0.0635, 0.3384),
    "rr-independent": (0.0588, 0.0669, 0.0395, 0.0405, 0.0215),
    "rr-hybrid": (0.0004, 0.0023, 0.0129, 0.0405, 0.0215),
    "rr-truncated": (0.0004, 0.0019, 0.0068, 0.0182, 0.0223),
    "rr-joint": (0.0001, 0.0004),
    "lopub": (0.1262, 0.2832, 0.3560, 0.3891, 0.4576),
}
"""The paper's Table VI: w = 2 to 6, Adult at epsilon 4."""


@dataclass(frozen=True, slots=True)
class Point:
    figure: str  # number of the figure in the paper
    # "measured" here; "printed" in the paper's Table VI; or "rounded": the estimate from the
    # *expected* randomised counts, without noise, rounded to whole records. The last one
    # agrees with the first row of Table VI and so explains it
    source: str
    dataset: str  # name of the data set in `table_of`
    method: str  # name of the method
    w: int  # number of attributes of a marginal
    n: int
    epsilon: float  # privacy parameter per attribute, as in the paper
    avd: float  # mean error over attribute sets and runs
    # standard deviation, over attribute sets, of the mean error of a set (the error bars of
    # the paper)
    deviation: float = 0.0
    stderr: float = 0.0  # standard error of ``avd`` over runs; 0 for one run
    sets: int = 0  # number of attribute sets
    runs: int = 0


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a figure, at which all methods are measured; fields as of `Point`."""

    figure: str
    dataset: str
    w: int
    n: int
    epsilon: float
    runs: int


CENSUS = ("Stratum", "Sex", "Race", "Hispanic", "Marstat", "Ownershg", "Yrsusa", "School")
"""The first eight columns of the census that have 2 to 64 values."""


@cache
def table_of(dataset: str) -> RecordTable:
    """Return a data set: Adult, Nursery, or the first eight columns of the 1980 census."""
    if dataset == "adult":
        return read_table(DATA / "adult.csv.gz", ReadingOptions(columns=ADULT))
    if dataset == "nursery":
        return read_table(DATA / "nursery.csv.gz")
    columns = read_texts(DATA / "ipums1980_us.csv.gz", CENSUS)
    domain = Domain(
        tuple(Attribute(n, tuple(sorted(set(column), key=int))) for n, column in columns.items())
    )
    return RecordTable(domain, domain.encode(columns))


def all_settings() -> Iterator[Setting]:
    epsilon = USUAL_EPSILON
    for w in range(1, 7):
        for loss in (epsilon, EXPECTED_EPSILON):
            yield Setting("3", "adult", w, len(table_of("adult").codes), loss, 5)
    for dataset in ("adult", "nursery", "ipums1980"):
        n = len(table_of(dataset).codes)
        for w in range(1, 7):
            yield Setting("5", dataset, w, n, epsilon, 5)
        for size in (*SIZES, n):
            yield Setting("6", dataset, 2, size, epsilon, 10)
        for per_attribute in EPSILONS:
            yield Setting("7", dataset, 2, n, per_attribute, 5)


def attribute_sets(d: int, w: int, limit: int = SUBSETS) -> list[Attributes]:
    """Return at most ``limit`` sets of w out of d attributes, evenly spaced among all sets."""
    every = list(combinations(range(d), w))
    return [every[i] for i in np.linspace(0, len(every) - 1, min(limit, len(every))).astype(int)]


def worst(domain: Domain, codes: np.ndarray, model: Model, attributes: Attributes) -> float:
    """Return the largest absolute error of a marginal's cells."""
    truth = domain.histogram(codes, attributes) / len(codes)
    return float(np.abs(model.marginal(attributes).table - truth).max())


def sample(setting: Setting, run: int) -> np.ndarray:
    """Return the records of one run: the whole table, or ``n`` distinct rows."""
    codes = table_of(setting.dataset).codes
    if setting.n == len(codes):
        return codes
    return codes[np.random.default_rng((31, run)).permutation(len(codes))[: setting.n]]


def castell_errors(
    setting: Setting, sets: Sequence[Attributes], run: int
) -> dict[str, list[float]]:
    """Return the errors of the methods in `SCHEMES`, which estimate from the same reports."""
    domain, codes = table_of(setting.dataset).domain, sample(setting, run)
    single = tuple((i,) for i in range(len(domain)))
    request = Request(domain, f"{setting.epsilon * len(domain):g}", setting.n, 2)
    tables = tuple(sets) + (single if setting.w > 1 else ())
    mechanism = product_group(request, single, tables)[1]
    values = domain.cells(codes, range(len(domain)))
    reports = mechanism.perturb(values, SeededRandomness(1000 + run))
    tally = Tally(np.array([setting.n]), mechanism.tally(reports, None, 1))
    errors = {}
    for method, scheme in SCHEMES.items():
        model = ProductModel(domain, mechanism, tally, scheme)
        errors[method] = [worst(domain, codes, model, s) for s in sets]
    return errors


def joint_error(setting: Setting, attributes: Attributes, run: int) -> float:
    """Return the error of RR-Joint, which spends w times the epsilon of one attribute."""
    full = table_of(setting.dataset)
    domain = Domain(tuple(full.domain.attributes[i] for i in attributes))
    codes = sample(setting, run)[:, list(attributes)]
    every = tuple(range(setting.w))
    request = Request(domain, f"{setting.epsilon * setting.w:g}", setting.n, setting.w)
    mechanism = product_group(request, (every,), (every,))[1]
    reports = mechanism.perturb(domain.cells(codes, every), SeededRandomness(2000 + run))
    tally = Tally(np.array([setting.n]), mechanism.tally(reports, None, 1))
    # The only group has all w attributes, so the scheme "joint" is RR-Joint here.
    return worst(domain, codes, ProductModel(domain, mechanism, tally, "joint"), every)


def lopub(setting: Setting, sets: Sequence[Attributes], run: int) -> list[float]:
    """Return the errors of LoPub's Lasso step; EM changes little, and needs each report."""
    domain, codes = table_of(setting.dataset).domain, sample(setting, run)
    d = len(domain)
    mechanism = BloomRR(f"{setting.epsilon * d:g}", domain.size(), domain.cardinalities, BITS,
                        HASHES, tuple(sets))  # fmt: skip
    values = domain.cells(codes, range(d))
    reports = mechanism.perturb(values, SeededRandomness(3000 + run))
    tally = Tally(np.array([setting.n]), mechanism.tally(reports, None, 1))
    model = LoPubModel(domain, mechanism, tally, PENALTY)
    return [worst(domain, codes, model, s) for s in sets]


def uniform(setting: Setting, sets: Sequence[Attributes]) -> list[float]:
    table = table_of(setting.dataset)
    truths = (table.domain.histogram(table.codes, s) / len(table.codes) for s in sets)
    return [float(np.abs(truth - 1.0 / truth.size).max()) for truth in truths]


def rounded(setting: Setting, sets: Sequence[Attributes]) -> list[float]:
    """Return the errors of the estimate from expected counts that are rounded to whole records."""
    table = table_of(setting.dataset)
    d, n = len(table.domain), len(table.codes)
    single = tuple((i,) for i in range(d))
    request = Request(table.domain, f"{setting.epsilon * d:g}", n, 2)
    mechanism = product_group(request, single, single)[1]
    errors = []
    for s in sets:
        truth = table.domain.histogram(table.codes, s).reshape(table.domain.shape(s)) / n
        # The expected frequencies of the randomised values, then the estimate from their counts.
        factors, mixed = channels(mechanism, s), truth
        for f in factors:
            mixed = f.gap * mixed + f.q * mixed.sum(axis=f.axes, keepdims=True)
        estimate = unmix(np.rint(n * mixed) / n, factors)
        errors.append(float(np.abs(estimate - truth).max()))
    return errors


def measure(setting: Setting) -> list[Point]:
    sets = attribute_sets(len(table_of(setting.dataset).domain), setting.w)
    runs = [castell_errors(setting, sets, run) for run in range(setting.runs)]
    points = [_point(setting, name, [run[name] for run in runs]) for name in SCHEMES]
    points.append(_point(setting, "uniform", [uniform(setting, sets)]))
    if setting.figure == "3" and setting.w <= RR_JOINT_W:
        joint = [[joint_error(setting, s, run) for s in sets] for run in range(setting.runs)]
        points.append(_point(setting, "rr-joint", joint))
    if setting.figure == "3" and 1 < setting.w <= LOPUB_W:
        # Two runs only, because a run takes long.
        points.append(_point(setting, "lopub", [lopub(setting, sets, run) for run in range(2)]))
    if setting.figure == "3" and setting.epsilon == EXPECTED_EPSILON:
        point = _point(setting, "rr-ind-joint", [rounded(setting, sets)])
        points.append(replace(point, source="rounded"))
    return points


def _point(setting: Setting, method: str, errors: Sequence[Sequence[float]]) -> Point:
    """Return the point of errors of shape (runs, sets)."""
    values = np.array(errors)
    runs, sets = values.shape
    return Point(
        setting.figure, "measured", setting.dataset, method, setting.w, setting.n, setting.epsilon,
        avd=float(values.mean()),
        deviation=float(values.mean(axis=0).std(ddof=1)) if sets > 1 else 0.0,
        stderr=float(values.mean(axis=1).std(ddof=1)) / runs**0.5 if runs > 1 else 0.0,
        sets=sets, runs=runs,
    )  # fmt: skip


def printed() -> Iterator[Point]:
    """Yield the paper's Table VI as points of Fig. 3."""
    n = len(table_of("adult").codes)
    for method, row in TABLE_VI.items():
        for w, avd in enumerate(row, start=2):
            yield Point("3", "printed", "adult", method, w, n, USUAL_EPSILON, avd)


def read(path: Path = RESULTS) -> list[Point]:
    if not path.exists():
        return []
    kinds: dict[str, Callable[[str], object]] = {"str": str, "int": int, "float": float}
    with path.open(newline="") as file:
        return [
            Point(*(kinds[str(f.type)](row[f.name]) for f in fields(Point)))  # type: ignore[arg-type]
            for row in csv.DictReader(file)
        ]


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    RESULTS.parent.mkdir(exist_ok=True)
    points = read()
    done = {(p.figure, p.dataset, p.w, p.n, p.epsilon) for p in points if p.source == "measured"}
    with RESULTS.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if not points:
            writer.writerow(f.name for f in fields(Point))
            writer.writerows(map(_row, printed()))
        for setting in all_settings():
            if (setting.figure, setting.dataset, setting.w, setting.n, setting.epsilon) in done:
                continue
            started = time.perf_counter()
            writer.writerows(map(_row, measure(setting)))
            file.flush()
            seconds = time.perf_counter() - started
            sys.stdout.write(f"{setting} {seconds:.1f} s\n")
            sys.stdout.flush()


def _row(point: Point) -> list[object]:
    return [f"{v:.6g}" if isinstance(v, float) else v for v in astuple(point)]


if __name__ == "__main__":
    main()
