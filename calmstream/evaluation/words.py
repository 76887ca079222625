"""Measures the shares of words of a local table, for ``calmstream evaluate``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from calmstream.estimators.analysis.words import bucket_shares, decode, kind_of
from calmstream.estimators.hashed import text_bytes
from calmstream.estimators.marginal import Z95
from calmstream.estimators.plan import Plan
from calmstream.evaluation.population import Study, collect, local_plan

MOST_WORDS = 1000  # candidates: so many of the commonest words, and as many that nobody has


def evaluate_words(study: Study) -> Iterator[dict[str, Any]]:
    """Draw devices, collect, and compare the shares of words with the true ones.

    The first method decides the plan; shares of words depend on no method. Points and coverage are
    as in `Result`.
    """
    for method, request in replace(study, methods=study.methods[:1]).requests():
        yield from _results(study, local_plan(method, request))


def _results(study: Study, plan: Plan) -> Iterator[dict[str, Any]]:
    columns = {column.name: column for column in study.table.file}
    rows = study.random(4).integers(len(study.table.codes), size=plan.users)
    noise = np.random.SeedSequence((study.seed, 5))
    tallies = collect(plan, study.table.codes[rows], noise, exact=False)
    for name in plan.domain.hashed:
        column = columns[name]
        counts = np.bincount(column.places[rows], minlength=len(column.values))
        raw = [text_bytes(value) for value in column.values]
        common = [i for i in np.argsort(-counts).tolist() if raw[i] is not None and counts[i]]
        known = [raw[i] or b"" for i in common[:MOST_WORDS]]
        absent = [text + b" \x01" for text in known]
        truth = np.pad(counts[common[:MOST_WORDS]] / plan.users, (0, len(absent)))
        (estimates,) = bucket_shares(plan, tallies, name)
        found = decode(estimates, kind_of(plan, name).all_buckets([*known, *absent]))
        errors = np.abs(found.shares - truth)
        yield {
            "attribute": name,
            "epsilon": float(plan.epsilon),
            "n": plan.users,
            "words": len(known),  # candidates that devices have
            "seen": int(found.seen[: len(known)].sum()),  # of these
            "false": int(found.seen[len(known) :].sum()),  # candidates seen that nobody has
            "points": 100 * Z95 * float(np.sqrt(np.square(errors).mean())),
            "coverage": float((errors <= Z95 * found.stderr).mean()),
        }
