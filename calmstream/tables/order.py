"""The order of labels that have one: numbers, ranges such as 18-24, and the words of scales."""

from __future__ import annotations

import re
from collections.abc import Sequence

_WORDS = """
strongly disagree < disagree < somewhat disagree < slightly disagree
  < neither agree nor disagree < neither agree or disagree < neither < neutral < undecided
  < not sure
  < slightly agree < somewhat agree < agree < strongly agree;
very dissatisfied < dissatisfied < somewhat dissatisfied < neither satisfied nor dissatisfied
  < neither < neutral < somewhat satisfied < satisfied < very satisfied < extremely satisfied;
never < almost never < rarely < seldom < occasionally < sometimes < often < frequently
  < usually < very often < almost always < always;
never < yearly < monthly < weekly < daily;
very unlikely < unlikely < somewhat unlikely < neither < neutral < somewhat likely < likely
  < very likely;
very poor < poor < fair < average < good < very good < excellent;
very bad < bad < fair < ok < good < very good;
not at all < a little < slightly < somewhat < moderately < quite a bit < very < extremely;
not at all important < not important < slightly important < somewhat important
  < moderately important < important < very important < extremely important;
none < very low < low < moderate < middle < medium < high < very high;
very easy < easy < neutral < difficult < very difficult;
xxs < xs < s < m < l < xl < xxl < xxxl;
small < medium < large;
beginner < intermediate < advanced < expert;
monday < tuesday < wednesday < thursday < friday < saturday < sunday;
mon < tue < wed < thu < fri < sat < sun;
january < february < march < april < may < june < july < august < september < october
  < november < december;
jan < feb < mar < apr < may < jun < jul < aug < sep < oct < nov < dec
"""
_SCALES = [[" ".join(x.split()) for x in line.split("<")] for line in _WORDS.split(";")]
"""Scales of words, from low to high; a column may use some of the words of one."""

_NUMBER = re.compile(r"(\d[\d,]*(?:\.\d+)?)\s*([km])?\b", re.IGNORECASE | re.ASCII)
_STEP = re.compile(r"\s*(\d{1,2})(?:\s*$|\s*[-–:.)=]\s*[^\W\d])")
"""A step of a scale, such as ``1 - not at all`` or, between its ends, ``2``."""

_BELOW = re.compile(
    r"^\s*(<|less than|under|below|up to|fewer than|younger than|at most|≤)", re.IGNORECASE
)
_ABOVE = re.compile(
    r"^\s*(>|more than|over|above|at least|older than|≥)|(\+|or more|or older|and over|and older"
    r"|and above|or above|and up|plus)\s*\w*\s*$",
    re.IGNORECASE,
)
_RANGE = re.compile(r"\d\s*[km]?\s*(-|–|—|to|\.\.)\s*[$€£]?\s*\d", re.IGNORECASE)
_UNITS = {"": 1.0, "k": 1e3, "m": 1e6}


def order_of(labels: Sequence[str]) -> tuple[str, ...] | None:
    """Return labels in their order, from low to high; None where they have none that is known."""
    folded = {label: " ".join(label.casefold().split()) for label in labels}
    if len(labels) < 3 or len(set(folded.values())) < len(labels):
        return None
    for scale in _SCALES:
        if all(text in scale for text in folded.values()):
            return tuple(sorted(labels, key=lambda label: scale.index(folded[label])))
    steps = [_STEP.match(label) for label in labels]
    numbers = {label: int(step[1]) for label, step in zip(labels, steps, strict=True) if step}
    if len(set(numbers.values())) == len(labels):
        return tuple(sorted(labels, key=numbers.__getitem__))
    ranges = sum(bool(_RANGE.search(label)) for label in labels)
    ends = sum(bool(_BELOW.search(label) or _ABOVE.search(label)) for label in labels)
    if not ranges and ends < 2:
        return None
    places = {label: _place(label) for label in labels}
    known = [place for place in places.values() if place is not None]
    if len(set(known)) < len(labels):
        return None
    return tuple(sorted(labels, key=lambda label: places[label] or (0.0, 0)))


def _place(label: str) -> tuple[float, int] | None:
    """Return the first number of a label, and whether it means below, from or above it."""
    found = _NUMBER.search(label)
    if found is None:
        return (0.0, -1) if label.strip().casefold() in ("none", "no", "never", "zero") else None
    number, unit = float(found[1].replace(",", "")), found[2]
    if (
        unit is None
        and (end := _NUMBER.search(label, found.end()))
        and number < float(end[1].replace(",", ""))
    ):
        unit = end[2]  # of 1-10k
    scaled = number * _UNITS[(unit or "").casefold()]
    if _RANGE.search(label):
        return scaled, 0
    return scaled, -1 if _BELOW.search(label) else int(bool(_ABOVE.search(label)))
