"""Use of marginals: association, tests of independence, dependence trees, forged reports.

All functions take tables, counts or plans and return numbers; none changes what is published.
`poisoning` and `leverage` describe the effect of forged reports (docs/methods/poisoning.md).
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
