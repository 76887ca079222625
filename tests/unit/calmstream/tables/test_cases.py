"""Check the small tables that people have: each is right, or refused with cause and remedy."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from calmstream.cli import main
from calmstream.common.errors import InvalidInput
from calmstream.estimators.domain import Domain
from calmstream.tables.reading import ReadingOptions
from calmstream.tables.records import RecordTable, read_table
from calmstream.tables.table import MissingRule


@pytest.fixture
def cases(shared: Path) -> Path:
    if not (shared / "cases").is_dir():
        pytest.skip("the cases are not there")
    return shared / "cases"


def labels(table: RecordTable) -> dict[str, tuple[str, ...]]:
    return {attribute.name: attribute.labels for attribute in table.domain.attributes}


def share(table: RecordTable, name: str) -> float:
    return float(table.codes[:, table.domain.names.index(name)].mean())


PLAIN = {"region": ("Asia", "EU", "US"), "theme": ("dark", "light"), "crashed": ("no", "yes")}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("semicolons.csv", "separator: semicolon, as found"),
        ("tabs.tsv", "separator: tab, as found"),
        ("wide_text.csv", "encoding: UTF-16, by its mark"),
    ],
)
def test_separators_and_encodings_are_found_and_said(cases: Path, name: str, said: str) -> None:
    table = read_table(cases / name)
    assert labels(table) == PLAIN
    assert table.said == (said,)
    assert len(table.codes) == 300


def test_western_text_is_found_and_can_be_overruled(cases: Path) -> None:
    table = read_table(cases / "western.csv")
    assert list(labels(table)) == ["pays", "thème", "planté"]
    assert "Österreich" in labels(table)["pays"]
    assert "read as cp1252, so that line 1 has 'thème'" in table.said[0]
    other = read_table(cases / "western.csv", ReadingOptions(encoding="cp1250"))
    assert list(labels(other)) == ["pays", "thčme", "planté"]


@pytest.mark.parametrize(
    ("name", "names", "said"),
    [
        ("two_headers", "Which region?|Which theme?|Crashed?", "header: 2 rows"),
        ("repeated_names", "region|other|theme|other (2)", "2 and 4 are both named 'other'"),
        ("names_with_commas", "If you use it, how often?|Theme, if any", ""),
        ("comment_first", "region|theme", "left out: 1 line of comments before the table"),
    ],
)
def test_headers_are_found_and_what_was_found_is_said(
    cases: Path, name: str, names: str, said: str
) -> None:
    table = read_table(cases / f"{name}.csv")
    assert "|".join(labels(table)) == names
    assert not any("Response" in found for found in labels(table).values())
    assert said in "\n".join(table.said)


def test_columns_of_options_below_a_question_are_one_list(cases: Path) -> None:
    table = read_table(cases / "second_header_options.csv")
    options = [f"What do you use?={x}" for x in ("search", "share", "export")]
    assert list(labels(table)) == ["Region", *sorted(options)]
    rows = [line.split(",") for line in (cases / "second_header_options.csv").open()][2:]
    for j, option in enumerate(options, 1):
        assert share(table, option) == np.mean([bool(row[j].strip()) for row in rows])


def test_a_first_line_that_is_a_record_is_refused_with_the_remedy(cases: Path) -> None:
    with pytest.raises(InvalidInput, match=r"the first line looks like a record.*--header-rows 0"):
        read_table(cases / "no_header.csv")
    table = read_table(cases / "no_header.csv", ReadingOptions(header_rows=0))
    assert list(labels(table)) == ["column 1", "column 2", "column 3", "column 4"]
    assert len(table.codes) == 300


@pytest.mark.parametrize(
    ("name", "separator", "wrong"),
    [("multi_semicolon.csv", ";", "|"), ("multi_comma.csv", ",", ";")],
)
def test_several_answers_in_a_cell_are_found_and_a_wrong_separator_is_an_error(
    cases: Path, name: str, separator: str, wrong: str
) -> None:
    table = read_table(cases / name)
    cells = [line.split(",", 1)[1].strip('"\n') for line in (cases / name).open()][1:]
    for option in ("search", "share", "export"):
        truth = np.mean([option in map(str.strip, cell.split(separator)) for cell in cells])
        assert share(table, f"uses={option}") == truth
    assert "have several answers" in table.said[0]
    with pytest.raises(InvalidInput, match="no cell of 'uses' has"):
        read_table(cases / name, ReadingOptions(choices={"uses": wrong}))
    # A plan that knows the options finds the separator; one that knows others is refused.
    plan = Domain.from_json([{"name": "uses", "kind": "choices", "options": ["export", "search"]}])
    codes = read_table(cases / name, domain=plan).codes
    assert codes[:, 1].mean() == share(table, "uses=search")
    plan = Domain.from_json([{"name": "uses", "kind": "choices", "options": ["mail", "maps"]}])
    with pytest.raises(InvalidInput, match=r"0 of 229 cells of 'uses' match .*the separator"):
        read_table(cases / name, domain=plan)


def test_missing_cells_have_one_label_or_their_records_are_left_out(cases: Path) -> None:
    table = read_table(cases / "missing.csv")
    assert labels(table)["theme"] == ("dark", "light", "missing")
    missing = float((table.codes[:, 1] == 2).mean())
    assert next(c.missing for c in table.columns if c.column.name == "theme") == 300 * missing
    dropped = read_table(cases / "missing.csv", ReadingOptions(missing=MissingRule("drop")))
    assert labels(dropped) == PLAIN
    assert len(dropped.codes) == round(300 * (1 - missing))
    assert "records that lack something" in dropped.said[-1]
    kept = read_table(cases / "missing.csv", ReadingOptions(missing=MissingRule("keep")))
    assert {"NA", "N/A", "null", "missing"} <= set(labels(kept)["theme"])


def test_ids_and_dates_are_left_out_unless_they_are_asked_for(cases: Path) -> None:
    table = read_table(cases / "ids_and_dates.csv")
    assert list(labels(table)) == ["region", "theme"]
    (left,) = table.warnings
    assert "id (ids: 300 values in 300 records), when (dates or times" in left
    asked = read_table(cases / "ids_and_dates.csv", ReadingOptions(columns=["id", "when"]))
    assert list(labels(asked)) == ["id", "when"]


def test_a_long_tail_keeps_its_frequent_labels_and_other(cases: Path) -> None:
    table = read_table(cases / "long_tail.csv")
    assert labels(table)["city"][0] == "c1"
    assert labels(table)["city"][-1] == "other"
    assert "13 frequent ones of 117" in table.columns[0].why
    assert table.domain.attributes[0].other == 13


@pytest.mark.parametrize(
    ("name", "alike"),
    [
        ("spelling.csv", "'No', 'no'; 'Yes', 'yes', 'yes '"),
        ("bools.csv", "'1', 'TRUE', 'True'; '0', 'False'"),
    ],
)
def test_spellings_that_look_alike_are_pointed_out(cases: Path, name: str, alike: str) -> None:
    (warning,) = read_table(cases / name).warnings
    assert alike in warning


def test_five_thousand_digits_are_a_label(cases: Path) -> None:
    table = read_table(cases / "five_thousand_digits.csv")
    assert [len(label) for label in labels(table)["a"]] == [1, 1, 5000]
    assert "(5,000 characters)" in table.columns[0].why


def test_lists_of_json_lines_are_choices(cases: Path) -> None:
    table = read_table(cases / "lines.jsonl")
    assert list(labels(table))[2:] == ["uses=export", "uses=search", "uses=share"]
    rows = [json.loads(line)["uses"] for line in (cases / "lines.jsonl").open()]
    assert share(table, "uses=search") == np.mean(["search" in row for row in rows])


@pytest.mark.slow
def test_every_case_is_planned_and_evaluated_or_refused_in_one_line(
    cases: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = []
    for path in sorted(set(cases.iterdir()) - {cases / "README.md"}):
        out = tmp_path / f"{path.stem}.json"
        words = ["--epsilon", "1", "--k", "2"]
        code = main(["plan", str(path), *words, "--users", "100000", "--out", str(out)])
        shown = capsys.readouterr()
        assert max(map(len, shown.out.split("\n\n")[0].splitlines()[:9]), default=0) <= 200
        if code:
            assert (code, shown.err.count("\n"), out.exists()) == (2, 1, False)
            continue
        planned.append(path.name)
        more = ["--method", "calm", "--users", "2000", "--repeats", "1", "--json"]
        assert main(["evaluate", str(path), *words, *more]) == 0
        capsys.readouterr()
        domain = Domain.from_json(json.loads(out.read_text())["domain"])
        assert (read_table(path, domain=domain).codes == read_table(path).codes).all()
    assert len(planned) == 18
