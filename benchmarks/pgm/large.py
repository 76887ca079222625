"""Try one fit of Private-PGM in this process, which may run out of memory or time.

``python -m benchmarks.pgm.large BYTES SECONDS SOLVER DATASET D EPSILON LOG_USERS VIEWS``

The first two arguments limit the memory and the processor time of the process; the others name the
point (`benchmarks.pgm.problem.Point`). The program prints the size that the package predicts for
its main data structure, the junction tree, as one line of JSON. Then it fits.
`benchmarks.pgm.measure` starts it and reports how it ended.
"""

from __future__ import annotations

import resource
import sys

import mbi
import orjson

from benchmarks.pgm.fit import as_shipped, domain_of, measurements_of
from benchmarks.pgm.problem import Point, draw


def main() -> None:
    """Print the predicted size, then fit."""
    memory, seconds, solver, dataset, d, epsilon, log_users, views = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 10))
    point = Point(dataset, int(d), epsilon, int(log_users), views)
    problem = draw(point, point.plan(), 0)
    cliques = [m.clique for m in measurements_of(problem)]
    summary = mbi.summarize(domain_of(problem.plan.domain), cliques, bytes_per_cell=4)
    predicted = {
        "treewidth": summary.treewidth,
        "largest_clique_cells": summary.largest_jtree_node_size,
        "tree_cells": summary.total_jtree_cells,
        "bytes": summary.memory_bytes,
        "limit": int(memory),
    }
    print(orjson.dumps(predicted).decode(), flush=True)
    as_shipped(problem, solver)


if __name__ == "__main__":
    main()
