"""Run Private-PGM on the measurements that noise-aware gets: solvers with default settings.

`as_shipped` uses the package alone, for speed; `with_fast_inference` replaces its inference
(`benchmarks.pgm.inference`), for errors, as the package alone would take too long.
"""

from __future__ import annotations

import time
from typing import Any

import jax
import mbi
import numpy as np
from numpy.typing import NDArray

from benchmarks.pgm.inference import cliques_of, estimator_inputs, joint
from benchmarks.pgm.problem import TARGET_SIZES, Problem
from calmstream.estimators.domain import Attributes, Domain

Floats = NDArray[np.float64]

SOLVERS = {"mirror descent": mbi.estimation.MirrorDescent, "L-BFGS": mbi.estimation.LBFGS}
"""The package's solvers by the name in the results."""


def names(attributes: Attributes) -> tuple[str, ...]:
    """Return the attributes' names in the package's domain; sorting keeps their order."""
    return tuple(f"a{i:02d}" for i in attributes)


def domain_of(domain: Domain) -> mbi.Domain:
    return mbi.Domain(names(tuple(range(len(domain)))), domain.cardinalities)


def measurements_of(problem: Problem) -> list[mbi.LinearMeasurement]:
    """Return one table in counts with its standard deviation for each view."""
    n = problem.point.users
    return [
        mbi.LinearMeasurement(n * m.table, names(m.attributes), n * m.deviation)
        for m in problem.measurements
    ]


def as_shipped(problem: Problem, solver: str) -> float:
    """Return processor seconds of a fit and 50 three-way answers; the first call compiles."""
    domain, n = domain_of(problem.plan.domain), float(problem.point.users)
    started = time.process_time()
    model = SOLVERS[solver]().estimate(domain, measurements_of(problem), known_total=n)
    jax.block_until_ready(model.potentials)
    for target in problem.targets[3]:
        np.asarray(model.project(names(target)).values)
    return time.process_time() - started


def with_fast_inference(problem: Problem, solver: str) -> dict[str, Any]:
    """Return errors and seconds of the fit with our exact inference instead of the package's."""
    measured = problem.measurements
    cliques = cliques_of(problem.plan.domain.cardinalities, tuple(m.attributes for m in measured))
    started = time.process_time()
    estimator = SOLVERS[solver](marginal_oracle=cliques.marginals)
    inputs = estimator_inputs(cliques, measured, problem.point.users)
    model = estimator.estimate(cliques.domain, **inputs)
    whole = np.asarray(joint(cliques, model.potentials), np.float64)
    fitted = time.process_time()
    answers = {k: margins(whole, problem.targets[k]) for k in TARGET_SIZES}
    return {"errors": problem.errors(answers), "fit": fitted - started}


def margins(whole: Floats, targets: tuple[Attributes, ...]) -> list[Floats]:
    """Return marginal tables of a joint table: shape (cells,) each."""
    axes = range(whole.ndim)
    return [whole.sum(axis=tuple(i for i in axes if i not in target)).ravel() for target in targets]
