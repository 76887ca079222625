"""Groups of labels, as people write them."""

from __future__ import annotations

import numpy as np
import pytest

from estimators.analysis.grouping import REST, Grouping, of_mapping, parse, ungrouped
from estimators.domain import Attribute, Domain
from estimators.errors import InvalidInput

REGION = Attribute("region", ("EU", "US", "Asia", "other"), other=3)
AGE = Attribute("age", ("17-25", "26-30", "31-50", "51+", "unknown"))
YEARS = Attribute("years", tuple(str(n) for n in range(-2, 10)))
LEVEL = Attribute("level", ("low", "mid", "high", "top"))
DOMAIN = Domain((REGION, AGE, YEARS, LEVEL))


def groups(grouping: Grouping, attribute: Attribute) -> dict[str, list[str]]:
    """Return the labels of each group by its name."""
    assert grouping.member.shape == (len(grouping.labels), attribute.cardinality)
    assert np.array_equal(grouping.member.sum(axis=0), np.ones(attribute.cardinality))
    return {
        name: [attribute.labels[c] for c in np.flatnonzero(row)]
        for name, row in zip(grouping.labels, grouping.member, strict=True)
    }


@pytest.mark.parametrize(
    ("text", "attribute", "found"),
    [
        ("region=EU|US,other", REGION, {"EU": ["EU"], "US,other": ["US", "other"], REST: ["Asia"]}),
        (
            "region=EU , US | Asia , other",
            REGION,
            {"EU , US": ["EU", "US"], "Asia , other": ["Asia", "other"]},
        ),
        (
            "age=17-30|31-50|51+",
            AGE,
            {"17-30": ["17-25", "26-30"], "31-50": ["31-50"], "51+": ["51+"], REST: ["unknown"]},
        ),
        ("age=31+", AGE, {"31+": ["31-50", "51+"], REST: ["17-25", "26-30", "unknown"]}),
        (
            "years=-2-0|3|4+",
            YEARS,
            {
                "-2-0": ["-2", "-1", "0"],
                "3": ["3"],
                "4+": ["4", "5", "6", "7", "8", "9"],
                REST: ["1", "2"],
            },
        ),
        ("level=low..high|top", LEVEL, {"low..high": ["low", "mid", "high"], "top": ["top"]}),
    ],
)
def test_groups_are_read(text: str, attribute: Attribute, found: dict[str, list[str]]) -> None:
    position = DOMAIN.attributes.index(attribute)
    assert groups(parse(text, DOMAIN)[position], attribute) == found


def test_several_attributes_are_separated_by_semicolons() -> None:
    found = parse("region=EU|US ; level=low,mid|high,top;", DOMAIN)
    assert sorted(found) == [0, 3]
    assert parse("", DOMAIN) == {}
    same = of_mapping({"region": "EU|US"}, DOMAIN)[0]
    assert same.labels == found[0].labels
    assert np.array_equal(same.member, found[0].member)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("region", "expected ATTRIBUTE=LABEL"),
        ("city=A|B", "no attribute 'city'"),
        ("region=EU;region=US", "'region' is grouped twice"),
        ("region=EU|Mars", "no label 'Mars'; it has EU, US, Asia, other"),
        ("region=EU|US,EU", "'EU' is named twice"),
        ("region=EU||US", "no label ''"),
        ("region=1-3", "'1-3' has no label"),
        ("age=20-40", "the label '17-25' is only partly within 20-40"),
        ("age=60+", "the label '51\\+' is only partly within 60\\+"),
        ("level=high..low", "no label 'high..low'"),
    ],
)
def test_other_texts_are_refused_in_one_line(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as refused:
        parse(text, DOMAIN)
    assert "\n" not in str(refused.value)


def test_without_groups_every_label_stays() -> None:
    assert ungrouped(LEVEL).identity
    assert not parse("level=low|mid,high,top", DOMAIN)[3].identity
