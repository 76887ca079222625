"""Analysis of published marginals: association, tests of independence, trees, forged reports.

All functions take tables, counts or plans and return numbers; none changes what is published.
`poisoning` detects forged reports in counts, `leverage` computes how far they can change a table
(docs/methods/poisoning.md). docs/concepts.md explains the terms.
"""

from estimators.analysis.association import conditional, mutual_information
from estimators.analysis.chi_square import Independence, independence, statistic
from estimators.analysis.report import analyse
from estimators.analysis.tree import Edge, chow_liu
from estimators.numerics.dependence import cramers_v

__all__ = [
    "Edge",
    "Independence",
    "analyse",
    "chow_liu",
    "conditional",
    "cramers_v",
    "independence",
    "mutual_information",
    "statistic",
]
