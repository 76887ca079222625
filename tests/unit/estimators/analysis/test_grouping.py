from __future__ import annotations

import numpy as np
import pytest

from calmstream.common.errors import InvalidInput
from calmstream.estimators.analysis.grouping import REST, Grouping, of_mapping, parse
from calmstream.estimators.domain import Attribute, Domain

REGION = Attribute("region", ("EU", "US", "Asia", "other"), other=3)
AGE = Attribute("age", ("17-25", "26-30", "31-50", "51+", "unknown"))
YEARS = Attribute("years", tuple(str(n) for n in range(-2, 10)))
LEVEL = Attribute("level", ("low", "mid", "high", "top"))
DOMAIN = Domain((REGION, AGE, YEARS, LEVEL))


def groups(grouping: Grouping, attribute: Attribute) -> dict[str, str]:
    assert grouping.member.shape == (len(grouping.labels), attribute.cardinality)
    assert np.array_equal(grouping.member.sum(axis=0), np.ones(attribute.cardinality))
    return {
        name: " ".join(attribute.labels[c] for c in np.flatnonzero(row))
        for name, row in zip(grouping.labels, grouping.member, strict=True)
    }


@pytest.mark.parametrize(
    ("text", "attribute", "found"),
    [
        ("region=EU|US,other", REGION, {"EU": "EU", "US,other": "US other", REST: "Asia"}),
        ("region=EU , US|Asia,other", REGION, {"EU , US": "EU US", "Asia,other": "Asia other"}),
        (
            "age=17-30|31-50|51+",
            AGE,
            {"17-30": "17-25 26-30", "31-50": "31-50", "51+": "51+", REST: "unknown"},
        ),
        ("age=31+", AGE, {"31+": "31-50 51+", REST: "17-25 26-30 unknown"}),
        ("years=-2-0|3|4+", YEARS, {"-2-0": "-2 -1 0", "3": "3", "4+": "4 5 6 7 8 9", REST: "1 2"}),
        ("level=low..high|top", LEVEL, {"low..high": "low mid high", "top": "top"}),
    ],
)
def test_groups_are_read(text: str, attribute: Attribute, found: dict[str, str]) -> None:
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
        ("region=EU||US", "a group without labels"),
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


ODD = Domain(
    (
        Attribute("apps=mail", ("no", "yes")),
        Attribute("apps", ("x = 3", "a|b", "c,d", "e;f", 'say "hi"', " padded", "plain")),
        Attribute("a;b=c", ("1", "2")),
    )
)


@pytest.mark.parametrize(
    ("text", "position", "labels", "first"),
    [
        ("apps=mail=yes|no", 0, ("yes", "no"), [1]),
        ("apps = x = 3|plain", 1, ("x = 3", "plain", REST), [0]),
        ('apps="a|b"|"c,d","e;f"|plain', 1, ("a|b", '"c,d","e;f"', "plain", REST), [1]),
        ('apps="say ""hi"""', 1, ('say "hi"', REST), [4]),
        ('apps=say "hi"|x = 3', 1, ('say "hi"', "x = 3", REST), [4]),
        ('apps=" padded" , plain', 1, ('" padded" , plain', REST), [5, 6]),
        ('"a;b=c"=2', 2, ("2", REST), [1]),
    ],
)
def test_names_and_labels_with_separators_stand_in_quotes(
    text: str, position: int, labels: tuple[str, ...], first: list[int]
) -> None:
    (found,) = parse(f"{text};", ODD).items()
    assert found[0] == position
    assert found[1].labels == labels
    assert np.flatnonzero(found[1].member[0]).tolist() == first


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('apps="a|b', "a quote is not closed"),
        ('apps="a|b"x', "a text follows a quote"),
        ('apps="plan"', "has no label 'plan'"),
        ("apps=a|b", "has no label 'a'"),
    ],
)
def test_quotes_that_have_no_meaning_are_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        parse(text, ODD)
