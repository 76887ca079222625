"""Which attributes depend on each other: all pairs, the Chow-Liu tree, and hidden causes."""

from __future__ import annotations

from typing import Any

from calmstream.common.errors import InvalidInput
from calmstream.consumer.read.causes import causes
from calmstream.consumer.read.formats import window_range
from calmstream.consumer.read.history import History
from calmstream.consumer.read.ranges import Windows
from calmstream.consumer.serve.plan_service import PlanService
from calmstream.estimators.analysis.association import chow_liu
from calmstream.estimators.analysis.report import associate, pairs_of


def associations(
    service: PlanService, history: History, windows: Windows, max_cells: int
) -> dict[str, Any]:
    """Return the JSON object.

    ``strength`` is Cramér's V with the noise's share removed, with the ``stderr`` of
    `PairAssociation`. ``p`` is that of the test of independence with the covariance of the cells; a
    method that shrinks its tables gives too large values, never too small ones. ``verdict`` is
    ``dependent`` where the test rejects independence at 5 %, else ``undecided``.
    """
    domain = service.plan.domain
    model, chosen = history.model(windows)
    finals = (service.results.final(w) for w in range(chosen.first, chosen.last + 1))
    reports = sum(final.reports for final in finals if final is not None)
    pairs, information = [], {}
    for pair in pairs_of(service.plan, max_cells):
        try:
            found = associate(model, domain, pair, max(reports, 1))
        except InvalidInput:
            continue  # the plan does not collect what the pair needs
        information[pair[0], pair[1]] = found.information
        pairs.append(
            {
                "attributes": [domain.names[i] for i in pair],
                "strength": found.strength,
                "stderr": found.stderr,
                "p": None if found.test is None else found.test.p_value,
                "verdict": "undecided" if found.stderr is None else "dependent",
            }
        )
    tree = chow_liu(domain.ordinary, information)
    return {
        "windows": [window_range(service.plan, chosen)],
        "reports": reports,
        "pairs": pairs,
        "causes": causes(domain, model),
        "tree": [[domain.names[e.first], domain.names[e.second], e.information] for e in tree],
    }
