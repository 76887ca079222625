"""The table of the papers' rows: nothing that it names is gone, and no method is left out."""

from __future__ import annotations

import importlib.metadata
import re

import numpy as np
import pytest

from benchmarks.accuracy import show
from benchmarks.accuracy.basics import error, pearson, published, sampled_cell
from benchmarks.accuracy.downstream import chances, columns
from benchmarks.accuracy.measure import RESULTS, Ledger
from benchmarks.accuracy.show import APPLICATIONS, STYLES
from benchmarks.papers import PAGE, PAPERS, ROOT, page, rows
from calmstream.estimators.analysis.synthetic import Branch, Mixture, TreeDistribution
from calmstream.estimators.domain import Domain

README = ROOT / "benchmarks" / "README.md"


def test_the_page_is_what_the_program_writes() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_row_has_its_place_and_its_test() -> None:
    found = rows()
    assert len(found) == 50
    assert {row.paper for row in found} == set(PAPERS)
    assert [row.what for row in found if not all((*row.places, row.test))] == []


def test_every_method_of_the_papers_has_a_row() -> None:
    points = importlib.metadata.entry_points(group="calmstream.methods")
    guests = {p.name for p in points if ".papers." in p.value}
    assert guests - {place for row in rows() for place in row.places} == set()


@pytest.mark.parametrize("figure", [*STYLES, *APPLICATIONS])
def test_the_page_of_a_figure_is_what_its_results_say(figure: str) -> None:
    assert (RESULTS / f"{figure}.md").read_text(encoding="utf-8") == show.page(
        figure, Ledger(figure)
    )


def test_likelihoods_are_probabilities_of_all_records() -> None:
    """Check both distributions by enumeration: the same one as a tree, and as a mixture."""
    first, given = np.array([0.3, 0.7]), np.array([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]])
    tree = TreeDistribution([Branch(0, None, first[None]), Branch(1, 0, given)])
    mixture = Mixture(first, [np.eye(2), given])
    codes = np.array([[a, b] for a in range(2) for b in range(3)], np.uint16)
    assert chances(tree, codes) == pytest.approx((first[:, None] * given).ravel())
    assert chances(mixture, codes) == pytest.approx(chances(tree, codes), rel=1e-5)


def test_a_sampled_cell_has_its_stated_variance() -> None:
    """Check RRS on an empty cell by simulation: a device reports the bit of one cell of L."""
    cells, n, runs, odds = 4, 1000, 20_000, 3.0
    random, lie = np.random.default_rng(5), 1 / (1 + odds)
    asked = random.binomial(n, 1 / cells, runs)
    ones = random.binomial(asked, lie)
    estimates = cells / n * (ones - lie * asked) / (1 - 2 * lie)
    assert n * estimates.var() == pytest.approx(sampled_cell(np.log(odds), cells), rel=0.05)


def test_table_2_is_measured() -> None:
    """Check one error against its formula: 2^d cells of a bit each, n · variance 3.23 a cell."""
    assert error("inp-rr", 4, 2) == pytest.approx((2**4 * 3.23) ** 0.5, rel=0.1)
    assert published("inp-rr", 4, 2) == (16, 32)
    assert pearson(np.array([[0.4, 0.1], [0.1, 0.4]])) == pytest.approx(0.6)


def test_every_program_of_the_readme_answers_help() -> None:
    names = set(re.findall(r"python -m (benchmarks(?:\.[a-z_]+)+)", README.read_text()))
    assert len(names) > 10
    for name in names:
        path = ROOT / name.replace(".", "/")
        source = (
            path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__main__.py"
        )
        assert "ArgumentParser(" in source.read_text(), name


def test_an_svm_sees_all_attributes_but_the_last() -> None:
    seen = columns(Domain.binary(3), np.array([[0, 1, 1], [1, 1, 0]], np.uint16))
    assert seen.tolist() == [[1, 0, 0, 1], [0, 1, 0, 1]]
