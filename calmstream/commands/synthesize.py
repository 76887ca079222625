"""Write made-up records whose tables are the estimated ones.

It costs no privacy. The same question gives the same records.
"""

from __future__ import annotations

import argparse

import numpy as np
import pyarrow as pa

from calmstream import arguments, result_options
from calmstream.consumer.read.formats import WRITERS
from calmstream.estimators.analysis.synthetic import SOURCES, TreeDistribution
from calmstream.estimators.domain import Codes, Domain
from calmstream.output import say

_ROWS = 1 << 16  # records that are made together

_USE = (
    "Made-up records: nobody's. {source}. Good for trying queries, models and dashboards. More "
    "records say nothing more: take numbers and errors from calmstream query"
)

USES = {
    "tree": _USE.format(
        source="Shares of single attributes, and of the pairs of the tree, are the estimates with "
        "their errors; other attributes depend on each other only through the tree"
    ),
    "model": _USE.format(
        source="Drawn from the hidden causes of the fitted model: all attributes depend on each "
        "other through them, and shares are the estimates but for what causes do not explain"
    ),
}
"""What the records are good for."""


def add(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, *arguments.RESULTS, "--windows")
    parser.add_argument("--records", type=arguments.positive, required=True, metavar="N")
    parser.add_argument(
        "--method",
        choices=tuple(SOURCES),
        default="tree",
        help="tree: draw from the Chow-Liu tree, which joins the attributes that depend on each "
        "other most; model: from the hidden causes of a noise-aware plan (default: tree)",
    )
    result_options.add_output(parser, tuple(WRITERS))


def run(args: argparse.Namespace) -> int:
    plan = arguments.load_plan(args.plan)
    result_options.choose_format(args)
    with result_options.history(args, plan) as history:
        counted = history.counted(args.windows)
    domain = plan.ordinary.domain
    source, use = SOURCES[args.method](counted.model, domain), USES[args.method]
    fields = [(name, pa.dictionary(pa.uint16(), pa.string())) for name in domain.names]
    schema = pa.schema(fields, metadata={"calmstream.synthetic": use})
    random = np.random.default_rng(0)
    with result_options.output(args) as (out, _), WRITERS[args.format](out, schema) as write:
        for start in range(0, args.records, _ROWS):
            codes = source.sample(min(_ROWS, args.records - start), random)
            write(_table(codes, domain, schema))
    edges = [
        f"{domain.names[one.parent]} - {domain.names[one.attribute]}"
        for one in (source.branches if isinstance(source, TreeDistribution) else ())
        if one.parent is not None
    ]
    say(f"{args.records:,} records of {counted.windows}", error=True)
    if args.method == "tree":
        say(f"tree: {', '.join(edges) or 'no pair'}", error=True)
    say(use, error=True)
    return 0


def _table(codes: Codes, domain: Domain, schema: pa.Schema) -> pa.Table:
    columns = [
        pa.DictionaryArray.from_arrays(column, pa.array(attribute.labels, pa.string()))
        for column, attribute in zip(codes.T.copy(), domain.attributes, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)
