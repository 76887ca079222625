"""``calmstream synthesize``: made-up records with the published tables."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import closing, suppress

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from calmstream import arguments, result_options
from calmstream.common.errors import InvalidInput
from calmstream.connect import kafka
from calmstream.consumer.read.history import History
from calmstream.estimators.analysis.report import pairs_of
from calmstream.estimators.analysis.tree import MAX_CELLS, TreeDistribution, tree_distribution
from calmstream.estimators.domain import Domain
from calmstream.estimators.marginal import Floats
from calmstream.estimators.methods.base import Model
from calmstream.estimators.plan import Plan
from calmstream.pages.export import WRITERS

Codes = NDArray[np.uint16]
_ROWS = 1 << 16
"""Records that are made together."""

USE = (
    "Made-up records: nobody's. Shares of single attributes, and of the pairs of the tree, are the "
    "estimates with their errors; other attributes depend on each other only through the tree. "
    "Good for trying queries, models and dashboards. More records say nothing more: take numbers "
    "and errors from calmstream query"
)
"""What the records are good for."""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write made-up records whose tables are the estimated ones: drawn from the joint "
        "distribution of the Chow-Liu tree, which joins the attributes that depend on each other "
        "most. It costs no privacy. The same question gives the same records."
    )
    result_options.add_results(parser)
    parser.add_argument("--records", type=arguments.positive, required=True, metavar="N")
    result_options.add_windows(parser)
    result_options.add_output(parser, tuple(WRITERS), "csv")


def run(args: argparse.Namespace) -> int:
    """Fit the tree and write records of it."""
    plan = arguments.load_plan(args.plan)
    result_options.choose_format(args)
    with (
        closing(kafka(args.bootstrap)) as broker,
        History(
            plan, broker, namespace=args.namespace, output_namespace=args.output_namespace
        ) as history,
    ):
        model, windows = history.model(args.windows)
    tree = fit(model, plan)
    fields = [(name, pa.dictionary(pa.uint16(), pa.string())) for name in plan.domain.names]
    schema = pa.schema(fields, metadata={"calmstream.synthetic": USE})
    with result_options.output(args) as out, WRITERS[args.format](out.binary, schema) as writer:
        for codes in _sampled(tree, args.records):
            writer.write_table(_table(codes, plan.domain, schema))
    names = plan.domain.names
    edges = [
        f"{names[one.parent]} - {names[one.attribute]}"
        for one in tree.branches
        if one.parent is not None
    ]
    made = f"{args.records:,} records of {windows}\ntree: {', '.join(edges) or 'no pair'}\n{USE}"
    print(made, file=sys.stderr)  # noqa: T201 - the interface
    return 0


def fit(model: Model, plan: Plan) -> TreeDistribution:
    def table(*attributes: int) -> Floats:
        found = np.maximum(model.marginal(attributes).table, 0.0)
        return found.reshape(plan.domain.shape(attributes))

    singles = [table(i) for i in range(len(plan.domain))]
    pairs = {}
    for first, second in pairs_of(plan, MAX_CELLS):
        with suppress(InvalidInput):  # the plan does not collect what the pair needs
            pairs[first, second] = table(first, second)
    return tree_distribution(singles, pairs)


def _sampled(tree: TreeDistribution, records: int) -> Iterator[Codes]:
    random = np.random.default_rng(0)
    for start in range(0, records, _ROWS):
        yield tree.sample(min(_ROWS, records - start), random)


def _table(codes: Codes, domain: Domain, schema: pa.Schema) -> pa.Table:
    columns = [
        pa.DictionaryArray.from_arrays(column, pa.array(attribute.labels, pa.string()))
        for column, attribute in zip(codes.T.copy(), domain.attributes, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)
