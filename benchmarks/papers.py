"""The 50 rows of the four papers: what each says, where it is here, and its test.

``python -m benchmarks.papers`` writes papers.md. A place is the registry name of a method or
mechanism, or the end of a path; so is a test. A test fails when one of them goes.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from calmstream.estimators import methods
from calmstream.estimators.mechanisms import registry

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "benchmarks" / "papers.md"
PAPERS = {
    "CALM": "Zhang et al., CCS 2018",
    "Cormode": "Cormode, Kulkarni, Srivastava, SIGMOD 2018",
    "Castell": "Kikuchi, Domingo-Ferrer, Soria-Comas",
    "DP Marginals": "Gopi, Mahabadi, Yekhanin",
}
LEFT_OUT = "Left out: key-value data (Castell, V-B), which that paper names as an application only."
ROWS = """
CALM | 2.2.1 | GRR | grr | contract/test_mechanisms
CALM | 2.2.2 | OUE | oue | contract/test_mechanisms
CALM | 2.2.3 | adaptive oracle | mechanisms/adaptive.py | test_calm
CALM | 3 | full table FC | fc | test_methods_in_process
CALM | 3 | all marginals AM | am | test_methods_in_process
CALM | 3 | Fourier FT | ft | analysis/test_analysis
CALM | 4 | covering designs | numerics/covering.py | test_covering
CALM | 4, (7), (8) | errors and Algorithm 1 | papers/calm/size.py | test_calm
CALM | 4 | consistency | numerics/consistency.py | test_consistency
CALM | 4 | maximum entropy | numerics/maximum_entropy.py | test_maximum_entropy
CALM | 4 | the method | calm | papers/test_calm
CALM | Fig. 4 | bits | results/calm-fig4.md | benchmarks/test_papers
CALM | Fig. 5 | categories | results/calm-fig5.md | benchmarks/test_papers
CALM | abstract, 1 | SVM on marginals | accuracy/downstream.py | test_papers
Cormode | 3.1 | RR, BS, RRS, PS, PRR | accuracy/basics.py | benchmarks/test_papers
Cormode | 3.1, 5.1 | PRR's probabilities | sue, oue | methods/test_methods
Cormode | 4.2 | InpRR | inp-rr | methods/test_methods
Cormode | 4.2 | InpPS | inp-ps | test_methods_in_process
Cormode | 4.2 | InpHT | inp-ht | test_published_numbers
Cormode | 4.3 | MargRR | marg-rr | methods/test_methods
Cormode | 4.3 | MargPS | marg-ps | test_methods_in_process
Cormode | 4.3 | MargHT | marg-ht | test_methods_in_process
Cormode | Table 2, Fig. 3 | costs, correlations | accuracy/basics.py | benchmarks/test_papers
Cormode | 4.4, 5.4, Table 3 | InpEM | inp-em | test_likelihood
Cormode | Fig. 4 to 6, 9 | error by n, k, d, epsilon | accuracy/pieces.py | benchmarks/test_papers
Cormode | 6.1, Fig. 7 | test of independence | analysis/chi_square.py | test_independence
Cormode | 6.2, Fig. 8 | tree, joint distribution | analysis/synthetic.py | analysis/test_tree
Cormode | 6.2 | records, likelihood | analysis/synthetic.py | test_synthesize
Cormode | 7 | categories | characters | analysis/test_analysis
Cormode | B.2, Fig. 10 | InpOLH | inp-olh | statistical/test_mechanisms
Cormode | B.2, Fig. 10 | InpHTCMS | inp-htcms, hadamard-sketch | statistical/test_mechanisms
Castell | II, Definition 1 | any matrix P | castell/paper.py | test_castell
Castell | II | RR-Joint | rr-joint | test_castell_adult
Castell | II | RR-Independent | rr-independent | test_castell_adult
Castell | II | RR-Clusters | rr-clusters | test_castell_pilot
Castell | III-C, Algorithm 3 | RR-Ind-Joint | rr-ind-joint, product-grr | test_castell
Castell | III-D, C, Table III | hybrid, its thresholds | rr-hybrid | test_castell
Castell | III-E | truncated | rr-truncated | test_castell
Castell | III-G, H | Theorems 5, 6 | papers/castell/schemes.py | test_castell
Castell | Table V, VI, Fig. 3 to 7 | Adult, census, Nursery | castell/avd.py | test_castell_adult
Castell | Fig. 4, 8 to 11 | sizes, times, synthetic data, age | castell/paper.py | test_castell
Castell | B | worked example | papers/castell/schemes.py | test_castell
Castell | IV | LoPub | lopub, lopub-em, bloom-rr | test_lopub
DP Marginals | Algorithm 1 | levels of tuples | central/dp_marginals.py | central/test_marginals
DP Marginals | Algorithm 2 | Proposition 1.1 | central/noise.py | central/test_marginals
DP Marginals | Algorithm 1 | private quantile | central/quantile.py | central/test_noise
DP Marginals | Remark 1.1 | no spurious tuples | central/dp_marginals.py | central/test_marginals
DP Marginals | Theorem 1.1 | zCDP, with its square | central/accounting.py | test_accounting
DP Marginals | Remark 1.2 | shares of the budget | central/accounting.py | test_accounting
DP Marginals | Remark 1.3 | numerical composition | central/composition.py | test_composition
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One row; a place or test that does not exist, or is not the only one, is empty."""

    paper: str
    section: str
    what: str
    places: tuple[str, ...]
    test: str


def rows() -> list[Row]:
    names = {*methods.names(), *registry.names()}
    files = [
        path.relative_to(ROOT).as_posix()
        for folder in ("estimators", "benchmarks", "tests")
        for path in (ROOT / folder).rglob("*.*")
    ]

    def found(end: str) -> str:
        paths = [path for path in files if path.endswith(f"/{end}")]
        return end if end in names else paths[0] if len(paths) == 1 else ""

    lines = [[part.strip() for part in line.split("|")] for line in ROWS.strip().splitlines()]
    return [
        Row(paper, section, what, tuple(map(found, places.split(", "))), found(f"{test}.py"))
        for paper, section, what, places, test in lines
    ]


def page() -> str:
    lines = ["# The papers, row by row", "", "`python -m benchmarks.papers` writes this page.", ""]
    lines += [f"- {name}: {title}." for name, title in PAPERS.items()]
    lines += ["", "| | paper | section | what | here | test |", "|--:|---|---|---|---|---|"]
    for i, row in enumerate(rows(), 1):
        here = ", ".join(_link(place) for place in row.places)
        lines.append(
            f"| {i} | {row.paper} | {row.section} | {row.what} | {here} | {_link(row.test)} |"
        )
    lines += ["", LEFT_OUT]
    return "\n".join(lines) + "\n"


def _link(place: str) -> str:
    return f"[{Path(place).stem}](../{place})" if "/" in place else f"`{place}`"


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    PAGE.write_text(page(), encoding="utf-8")
