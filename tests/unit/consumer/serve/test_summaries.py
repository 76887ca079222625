"""Statistics over HTTP, against those of the command line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from calmstream.consumer.read.formats import FORMATS
from calmstream.consumer.read.summary import summary
from calmstream.estimators.domain import Domain
from tests.support.publisher import Bench, published_plan
from tests.support.serving import Serving, asking, filled, serving_bench

DOMAIN = Domain.from_dictionary(
    [
        {"name": "ms", "kind": "number", "unit": "ms", "edges": [0, 10, 30]},
        {"name": "region", "labels": ["EU", "US"]},
        {"name": "apps", "kind": "choices", "options": ["mail"]},
    ]
)


@pytest.fixture(scope="module")
def bench() -> Bench:
    return filled(published_plan(groups=3, domain=DOMAIN, summaries=("mean",)))


@pytest.fixture(scope="module")
def serving(bench: Bench) -> Iterator[Serving]:
    with serving_bench(bench) as found:
        yield found


@pytest.mark.parametrize(
    "question",
    [
        {"attributes": "ms"},
        {"attributes": "ms", "statistics": "q0.25,share:0..10", "windows": "latest"},
        {"attributes": "ms,region", "given": "region", "windows": "0..1"},
        {"attributes": "apps=mail,region", "given": "region", "statistics": "share:yes"},
        {"attributes": "ms,apps=mail", "given": "apps=mail", "group": "apps=mail=yes|no"},
    ],
)
def test_they_are_those_of_the_history(
    serving: Serving, bench: Bench, question: dict[str, str]
) -> None:
    statistics = question.get("statistics", "mean,median").split(",")
    with asking(bench) as history:
        expected = summary(
            history,
            question["attributes"].split(","),
            question.get("windows", "total"),
            statistics=statistics,
            given=[name for name in question.get("given", "").split(",") if name],
            group=question.get("group", ""),
        )
    found = serving.get("/summaries", params=question)
    assert found.status_code == 200, found.text
    assert found.content == FORMATS["json"](expected)
    again = serving.get(
        "/summaries", params=question, headers={"if-none-match": found.headers["etag"]}
    )
    assert again.status_code == 304


def test_a_plan_describes_its_numbers(serving: Serving) -> None:
    whole = serving.get("").json()
    number, region, option = whole["attributes"]
    assert number == {
        "name": "ms", "labels": ["0..10", "10..30"], "kind": "number", "unit": "ms",
        "edges": [0.0, 10.0, 30.0], "rounding": "bin", "below": False, "above": False,
    }  # fmt: skip
    assert region == {"name": "region", "labels": ["EU", "US"]}
    assert option["kind"] == "option"
    assert whole["summaries"] == ["mean"]


@pytest.mark.parametrize(
    ("question", "status", "why"),
    [
        ({"attributes": "ms", "statistics": "mean,,q0.5"}, 400, "expected 1 to 16 names"),
        ({"attributes": "ms", "statistics": "mean," * 20 + "mean"}, 400, "expected 1 to 16 names"),
        ({"attributes": "ms", "statistics": "share:5..10"}, 422, "only partly within"),
        ({"attributes": "ms", "windows": "9"}, 404, "window"),
        ({"attributes": "ms", "quantile": "1"}, 400, "unknown parameter"),
    ],
)
def test_questions_without_an_answer_are_refused_with_the_reason(
    serving: Serving, question: dict[str, str], status: int, why: str
) -> None:
    found = serving.get("/summaries", params=question)
    assert found.status_code == status
    assert why in found.json()["detail"]
