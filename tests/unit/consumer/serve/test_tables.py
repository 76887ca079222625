"""Tables, windows, series and associations over HTTP, against the history's own answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calmstream.consumer.read.formats import FORMATS
from calmstream.consumer.serve.questions import QUESTIONS
from calmstream.consumer.serve.results import Results
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.estimators.wire.snapshot import Kind
from tests.support.publisher import Bench
from tests.support.serving import Serving, asking, filled, serving_bench

DEFAULTS = {"attributes": "a0,a2"}


@pytest.fixture(scope="module")
def bench() -> Bench:
    return filled()


@pytest.fixture(scope="module")
def serving(bench: Bench) -> Iterator[Serving]:
    with serving_bench(bench) as found:
        yield found


def test_a_plan_is_listed_and_described(serving: Serving, bench: Bench) -> None:
    (short,) = serving.client.get("/v1/plans").json()["plans"]
    whole = serving.get("").json()
    assert short["newest"] == 2
    assert {k: v for k, v in whole.items() if k in short} == {
        k: v for k, v in short.items() if k != "newest"
    }
    assert whole["attributes"][0] == {"name": "a0", "labels": ["0", "1"]}
    assert whole["published"] == [["a0"], ["a0", "a1"]]
    assert whole["loss"]["report"] == "1"
    assert whole["guarantee"] == "once"
    assert serving.client.get(f"/v1/plans/{bench.plan.digest}").json() == whole


def test_windows_are_those_that_are_final(serving: Serving) -> None:
    found = serving.get("/windows").json()
    assert found["newest"] == 2
    assert found["kept"] == [[0, 2]]
    assert found["early"] is None
    assert [one["window"] for one in found["finals"]] == [0, 1, 2]
    assert found["finals"][0]["reports"] == 1200
    assert found["finals"][0]["rejected"] == {"late": 6}
    assert [o["window"] for o in serving.get("/windows?limit=1").json()["finals"]] == [2]


def test_early_counts_are_those_of_the_newest_window(serving: Serving) -> None:
    results, shown = Results(), []
    (manifest,) = serving.service.results.last(1)
    steps = [(5, Kind.EARLY), (6, Kind.EARLY), (5, Kind.EARLY), (5, Kind.FINAL), (6, Kind.FINAL)]
    for window, kind in steps:
        results.take(Snapshot(replace(manifest, window=window, kind=kind), {}))
        shown.append(results.early and results.early.window)
    assert shown == [5, 6, 6, 6, None]


@pytest.mark.parametrize(
    "question",
    [
        {"attributes": "a0"},
        {"attributes": "a2,a0", "windows": "latest"},
        {"attributes": "a0,a1,a2", "windows": "0..1", "given": "a1"},
        {"attributes": "a1", "windows": "1", "group": "a1=1|0"},
        {"attributes": "a1", "windows": "2", "minus": "0..1"},
    ],
)
def test_a_table_is_the_answer_of_the_history(
    serving: Serving, bench: Bench, question: dict[str, str]
) -> None:
    given = [name for name in question.get("given", "").split(",") if name]
    group = question.get("group", "")
    names, windows = question["attributes"].split(","), question.get("windows", "total")
    with asking(bench) as history:
        if "minus" in question:
            answer = history.difference(names, windows, question["minus"], group=group, given=given)
        else:
            answer = history.ask(names, windows, group=group, given=given)
    for name, make in FORMATS.items():
        found = serving.get("/tables", params={**question, "format": name})
        assert found.status_code == 200, found.text
        assert found.content == make(answer)
        attached = found.headers.get("content-disposition", "")
        assert attached == (
            f'attachment; filename="{bench.plan.name}.csv"' if name == "csv" else ""
        )


def test_an_unchanged_table_is_not_sent_again(serving: Serving) -> None:
    first = serving.get("/tables", params=DEFAULTS)
    etag = first.headers["etag"]
    again = serving.get("/tables", params=DEFAULTS, headers={"if-none-match": f'"x", W/{etag}'})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == etag
    for changed in ({"windows": "1"}, {"given": "a0"}, {"format": "csv"}, {"attributes": "a0"}):
        other = serving.get(
            "/tables", params={**DEFAULTS, **changed}, headers={"if-none-match": etag}
        )
        assert other.status_code == 200
        assert other.headers["etag"] != etag


def test_a_head_request_has_no_body(serving: Serving) -> None:
    path = f"/v1/plans/{serving.service.plan.name}"
    for address in (path, f"{path}/tables?attributes=a0"):
        found = serving.client.head(address)
        assert (found.status_code, found.content) == (200, b"")


def test_a_series_has_the_published_tables(serving: Serving, bench: Bench) -> None:
    published = {(s.window, s.kind): s for s in bench.shown()}
    found = serving.get("/series", params={"attributes": "a1,a0", "windows": "last:2"}).json()
    assert not found["truncated"]
    assert [one["window"] for one in found["windows"]] == [1, 2]
    for one in found["windows"]:
        for kind, shown in ((Kind.FINAL, one), (Kind.CURRENT, one["current"])):
            record = published[one["window"], kind].record("a0", "a1")
            table = np.array(record.table).reshape(2, 2).T.ravel()
            assert shown["table"] == table.tolist()
            assert shown["reports"] == record.reports


def test_other_series_are_computed(serving: Serving) -> None:
    for question in (
        {"attributes": "a2", "windows": "0..2"},
        {"attributes": "a0,a1", "given": "a1", "windows": "0..2"},
    ):
        found = serving.get("/series", params=question).json()
        assert [one["window"] for one in found["windows"]] == [0, 1, 2]
        for one in found["windows"]:
            single = serving.get("/tables", params={**question, "windows": one["window"]}).json()
            assert one["table"] == single["table"]
            assert one["stderr"] == single["stderr"]
            assert found["labels"] == single["labels"]
            assert found["attributes"] == single["attributes"]


def test_associations_name_every_pair(serving: Serving) -> None:
    found = serving.get("/associations").json()
    pairs = [tuple(one["attributes"]) for one in found["pairs"]]
    assert pairs == [("a0", "a1"), ("a0", "a2"), ("a1", "a2")]
    assert all(0.0 <= one["strength"] <= 1.0 for one in found["pairs"])
    for one in found["pairs"]:
        assert (one["stderr"] is not None) == (one["verdict"] == "dependent")
        assert one["stderr"] is None or 0.0 < one["stderr"] < 1.0
    assert len(found["tree"]) == 2
    assert found["reports"] == 3600
    assert found["causes"] == []  # the attributes are independent


def test_changes_are_those_of_the_history(serving: Serving) -> None:
    found = serving.get("/changes", params={"window": "2", "against": "0..1"}).json()
    assert (found["against"]["first"], found["against"]["last"]) == (0, 1)
    assert found["reports"] == [1200, 2400]
    assert found["tested"] == len([t for t in found["tables"] if t["p"] is not None])
    newest = serving.get("/changes")
    again = serving.get("/changes", headers={"If-None-Match": newest.headers["etag"]})
    assert again.status_code == 304
    assert newest.json()["window"]["first"] == newest.json()["against"]["last"] + 1


@pytest.mark.parametrize(
    ("path", "status", "problem", "detail"),
    [
        ("/changes?window=0", 404, "not_final", "no window is before window 0"),
        ("/changes?window=1&against=0..1", 400, "malformed", "windows apart"),
        ("/tables", 400, "malformed", "attributes: name at least one"),
        ("/tables?attributes=", 400, "malformed", "attributes: name at least one"),
        ("/tables?attributes=a0,", 400, "malformed", "expected names separated by commas"),
        ("/tables?attributes=a0,a1&given=a0,a1", 422, "refused", "given: name some, not all"),
        ("/tables?attributes=a0&colour=red", 400, "malformed", "unknown parameter 'colour'"),
        ("/tables?attributes=a0&windows=0&windows=1", 400, "malformed", "more than once"),
        ("/tables?attributes=a0&windows=soon", 400, "malformed", "expected current, total, latest"),
        ("/tables?attributes=a0&format=pdf", 400, "malformed", "expected one of json, csv, arrow"),
        ("/windows?limit=0", 400, "malformed", "limit: "),
        ("/tables?attributes=a0&windows=3", 404, "not_final", "the newest final window is 2"),
        ("/tables?attributes=b", 422, "refused", "no attribute 'b'; there are a0, a1, a2"),
        ("/series?attributes=a0&group=a1=0|1", 422, "refused", "'a1' is not among"),
        ("/series?attributes=a0&windows=last:0", 400, "malformed", "no final window is in this"),
        ("/nothing", 404, "not_found", None),
    ],
)
def test_bad_questions_get_a_reason(
    serving: Serving, path: str, status: int, problem: str, detail: str | None
) -> None:
    found = serving.get(path)
    assert found.status_code == status, found.text
    assert found.headers["content-type"] == "application/problem+json"
    body = orjson.loads(found.content)
    assert body["type"] == f"urn:calmstream:problem:{problem}"
    assert body["status"] == status
    assert body["title"]
    if detail is not None:
        assert detail in body["detail"]


def test_an_unknown_plan_is_named(serving: Serving) -> None:
    found = serving.client.get("/v1/plans/other/windows")
    assert found.status_code == 404
    assert found.json()["detail"] == "there is no plan 'other'"


def test_a_table_with_too_many_cells_is_refused(bench: Bench) -> None:
    with serving_bench(bench, max_cells=4) as small:
        assert small.get("/tables", params={"attributes": "a0,a1"}).status_code == 200
        found = small.get("/tables", params={"attributes": "a0,a1,a2"})
        assert found.status_code == 413
        assert "a table of 8 cells; at most 4" in found.json()["detail"]
        assert small.get("/series", params={"attributes": "a0,a1,a2"}).status_code == 413


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    address=st.sampled_from(["windows", "series", *QUESTIONS]),
    asked=st.dictionaries(
        st.sampled_from(["attributes", "windows", "window", "minus", "group", "given", "limit"]),
        st.sampled_from(["a0", "a1,a0", "last:2", "0..1", "1", "a0=0|1"]) | st.text(max_size=12),
    ),
)
def test_no_question_is_a_defect(serving: Serving, address: str, asked: dict[str, str]) -> None:
    found = serving.get(f"/{address}", params=asked)
    assert found.status_code in {200, 400, 404, 422}, found.text
