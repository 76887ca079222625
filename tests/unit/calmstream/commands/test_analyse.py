from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np

from calmstream.commands import analyse
from calmstream.commands.analyse import NO_CAUSE, joint, render_causes, render_tree
from calmstream.estimators.analysis.report import causes
from calmstream.estimators.cause import Cause, LabelShift
from calmstream.estimators.domain import Attribute, Domain
from tests.unit.calmstream.conftest import printed

DOMAIN = Domain(
    (Attribute("a", ("x", "y")), Attribute("b", ("l", "m", "n")), Attribute("c", ("o", "p")))
)
TABLES = {
    (0, 1): np.array([[0.4, 0.1, 0.0], [0.1, 0.1, 0.3]]),
    (1, 2): np.array([[0.25, 0.25], [0.1, 0.1], [0.15, 0.15]]),
    (0, 2): np.array([[0.3, 0.2], [0.2, 0.3]]),
}


class Tables:
    """A model of these tables, whose cells have independent errors."""

    def __init__(self, variance: np.ndarray | float = 0.01) -> None:
        self._variance = variance

    def marginal(self, attributes: tuple[int, ...]) -> SimpleNamespace:
        if len(attributes) == 2:
            table = TABLES[attributes]
            variance = np.broadcast_to(self._variance, table.shape)
        else:
            pair = (0, 1) if attributes[0] < 2 else (1, 2)
            axis = 1 - pair.index(attributes[0])
            table = TABLES[pair].sum(axis=axis)
            variance = np.broadcast_to(self._variance, TABLES[pair].shape).sum(axis=axis)
        return SimpleNamespace(table=table.ravel(), stderr=np.sqrt(variance).ravel())


def test_the_product_of_the_shares_has_the_tables_of_the_edges() -> None:
    by_name = {one["attribute"]: one for one in joint(Tables(), DOMAIN)}  # type: ignore[arg-type]
    assert {name: one["given"] for name, one in by_name.items()} == {"a": None, "b": "a", "c": "a"}
    first = np.array(by_name["a"]["table"][0])
    np.testing.assert_allclose(first, [0.5, 0.5])
    for child, pair in (("b", (0, 1)), ("c", (0, 2))):
        np.testing.assert_allclose(first[:, None] * by_name[child]["table"], TABLES[pair])


def test_errors_of_shares_are_those_of_many_draws() -> None:
    """Check the errors of b given a, whose cells have independent errors of 0.01 and 0.02."""
    deviation = np.array([[0.01, 0.02, 0.01], [0.02, 0.01, 0.02]])
    model = Tables(deviation**2)
    first, second = joint(model, Domain(DOMAIN.attributes[:2]))  # type: ignore[arg-type]
    random = np.random.default_rng(1)
    tables = TABLES[0, 1] + deviation * random.normal(size=(40_000, 2, 3))
    shares = tables / tables.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(second["stderr"], shares.std(axis=0), rtol=0.05)
    np.testing.assert_allclose(first["stderr"], [tables.sum(axis=2).std(axis=0)], rtol=0.05)


def test_people_see_percent() -> None:
    shown = printed(render_tree(joint(Tables(), DOMAIN)), width=120)  # type: ignore[arg-type]
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert "b (%, ± 95 %), given a l m n" in lines
    assert "x 80.0 ± 45.0 20.0 ± 33.3 0.0 ± 39.2" in lines


TEST = {"statistic": 12.3, "critical": 45.6, "p_value": 0.7, "dependent": False}


def shown(test: dict[str, object] | None) -> str:
    pair = {"attributes": ["a0", "a1"], "mutual_information": 0.1, "cramers_v": 0.2}
    found = {"pairs": [pair | ({"chi_square": test} if test else {})], "tree": []}
    return printed(analyse.render(found), width=200)


def header(text: str) -> list[str]:
    (line,) = (line for line in text.splitlines() if "pair" in line and "information" in line)
    return re.split(r"  +", line.strip())


def test_columns_of_the_test_are_left_out_where_no_pair_was_tested() -> None:
    assert header(shown(None)) == ["pair", "information", "Cramér's V"]


def test_the_verdict_has_a_column_only_if_some_pair_is_dependent() -> None:
    columns = ["pair", "information", "Cramér's V", "chi-square", "critical", "p"]
    assert header(shown(TEST)) == columns
    text = shown(TEST | {"dependent": True})
    assert header(text) == columns
    assert "dependent" in text


PEOPLE = Domain((Attribute("married", ("no", "yes")), Attribute("age", ("17-30", "31+"))))


class Explaining:
    def marginal(self, _: object) -> None: ...

    def mixture(self) -> None: ...

    def causes(self) -> tuple[Cause, ...]:
        shifts = LabelShift(0, 1, 0.1, 0.9, 0.02), LabelShift(1, 0, 0.7, 0.2, 0.05)
        return (Cause(0.4, 0.02, 0.95, shifts),)


def said(model: Any) -> str:
    return printed(render_causes(causes(PEOPLE, model)))


def test_labels_stand_with_their_shares_without_and_with_the_cause() -> None:
    text = said(Explaining())
    assert "1. 36 to 44 % of all, in 95 % of the model's draws" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["married:", "yes", "10", "90", "±", "4"] in rows
    assert ["age:", "17-30", "70", "20", "±", "10"] in rows


def test_a_model_without_causes_says_that_there_are_none() -> None:
    assert NO_CAUSE in said(object())
