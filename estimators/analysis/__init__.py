"""Analysis of published marginals: association, tests of independence, trees, forged reports.

All functions take tables, counts or plans and return numbers; none changes what is published.
`poisoning` detects forged reports in counts (docs/methods/poisoning.md).
"""

from calmstream.estimators.analysis.association import conditional, mutual_information
from calmstream.estimators.analysis.chi_square import Independence, independence, statistic
from calmstream.estimators.analysis.report import analyse
from calmstream.estimators.analysis.tree import Edge, chow_liu
from calmstream.estimators.numerics.dependence import cramers_v

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
