"""What analysts do with marginals: association, tests of independence, dependence trees."""

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
