"""Words that nobody listed, from a table of devices to ``calmstream query --candidates``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import orjson
import pytest

from calmstream.broker.in_process.broker import InProcessBroker
from calmstream.broker.transport import Broker
from calmstream.commands import query
from calmstream.common.errors import InvalidInput
from calmstream.consumer.read.formats import FORMATS
from calmstream.consumer.read.history import History
from calmstream.consumer.read.question import Question
from calmstream.consumer.read.words import WordShares, word_shares
from calmstream.estimators.domain import Domain
from calmstream.estimators.plan import Plan
from calmstream.estimators.randomness import SeededRandomness
from calmstream.local_service import LocalService
from calmstream.pages import answer as page
from calmstream.producer.simulation.produce import produce
from calmstream.tables.records import read_table
from calmstream.terminal import Console
from tests.support.plans import draft
from tests.support.serving import serving

Asked = tuple[Plan, History, Broker]
DEVICES, DEADLINE = 30_000, 240.0
DOMAIN = [
    {"name": "version", "labels": ["41", "42"]},
    {"name": "crash", "kind": "hashed", "buckets": 32, "hashes": 8},
]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    window = 20
    plan, _ = draft(
        Domain.from_json(DOMAIN), epsilon="8", users=DEVICES, name="words",
        start=int(time.time()), window=window, grace=2, skew=2,
    )  # fmt: skip
    random = np.random.default_rng(1)
    texts = random.choice(["null pointer", "größe", ""], size=DEVICES, p=[0.2, 0.1, 0.7])
    versions = np.where(texts == "größe", 42, random.choice([41, 42], size=DEVICES))
    table = tmp_path_factory.mktemp("words") / "devices.csv"
    rows = zip(versions.tolist(), texts.tolist(), strict=True)
    table.write_text("version,crash\n" + "".join(f"{v},{t}\n" for v, t in rows))
    codes = read_table(table, domain=plan.domain, randomness=SeededRandomness(1)).codes
    broker = InProcessBroker()
    service = LocalService(plan, broker, "test")
    service.start()
    try:
        produce(plan, broker, service.names, codes, batch_size=1000)
        with History(plan, broker, namespace="test") as history:
            end = time.monotonic() + DEADLINE
            while history.newest() is None and time.monotonic() < end:
                assert service.failure is None
                time.sleep(0.2)
                history.refresh()
            yield plan, history, broker
    finally:
        service.stop()


LIST = ["", "null pointer", "gro\u0308\u00dfe", *(f"absent {i}" for i in range(998))]


def shares(asked: Asked, **more: object) -> WordShares:
    _, history, _ = asked
    return word_shares(history, "crash", LIST, **more)  # type: ignore[arg-type]


def test_words_of_a_list_have_their_shares(asked: Asked) -> None:
    found = shares(asked)
    assert found.labels[0][:2] == ("null pointer", "gro\u0308\u00dfe")
    assert np.flatnonzero(found.seen).tolist() == [0, 1]
    assert np.abs(found.table[:2] - [0.2, 0.1]) == pytest.approx([0, 0], abs=0.02)
    assert found.reports > DEVICES / 2
    assert shares(asked, windows="current").table[:2] == pytest.approx([0.2, 0.1], abs=0.03)
    with pytest.raises(InvalidInput, match="ask for words of crash"):
        asked[1].ask(["version", "crash#0"])
    assert asked[1].ask(["version"]).reports > DEVICES / 10


def test_words_within_the_labels_of_another_attribute(asked: Asked) -> None:
    found = shares(asked, given=["version"])
    assert found.attributes == ("version", "crash")
    assert found.seen[:, :2].tolist() == [[True, False], [True, True]]
    # Of those with version 42: .45 of all without "größe", and all that have it.
    assert found.table[:, 0] == pytest.approx([0.2 / 0.9, 0.1 / 0.55], abs=0.03)
    assert found.table[1, 1] == pytest.approx(0.1 / 0.55, abs=0.03)


def test_answers_for_people_and_programs(asked: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    found = shares(asked, given=["version"])
    page.show_words(Console(width=80), found)
    said = capsys.readouterr().out
    assert "version 42" in said
    assert "null pointer" in said
    assert "2 of 1,000 candidates seen" in said
    assert "absent" not in said
    document = orjson.loads(FORMATS["json"](found))
    assert sum(document["seen"]) == 3
    assert len(document["limits"]) == 2
    rows = FORMATS["csv"](found).decode().splitlines()
    assert rows[0] == "version,crash,value,stderr,flags"
    assert sum(row.endswith(" seen") for row in rows) == 3


def test_words_over_http(asked: Asked) -> None:
    plan, _, broker = asked
    question = {"text": "crash", "candidates": "\n".join(LIST[:100]), "given": "version"}
    with serving(plan, broker) as server:
        whole = server.get("").json()
        assert [one["name"] for one in whole["attributes"]] == ["version"]
        assert whole["hashed"] == [{"name": "crash", "given": ["version"]}]
        found = server.get("/words", params=question)
        assert found.status_code == 200
        assert sum(found.json()["seen"]) == 3
        assert found.headers["etag"] == server.get("/words", params=question).headers["etag"]
        for wrong, status in (
            ({"text": "version"}, 422),
            ({"candidates": ""}, 422),
            ({"candidates": "x" * 1025}, 422),
            ({"given": "crash#0"}, 422),
            ({"candidates": "x\n" * 9_000}, 431),
        ):
            assert server.get("/words", params=question | wrong).status_code == status, wrong


def test_lists_that_cannot_be_asked(asked: Asked, tmp_path: Path) -> None:
    path = tmp_path / "names.txt"
    for raw, why in (
        (b"\xff\xfe", "not UTF-8"),
        (b"x" * 2_000, "candidate 1"),
        (b"\n\n", "0 candidates"),
    ):
        path.write_bytes(raw)
        with pytest.raises(InvalidInput, match=why):
            Question(("crash",), candidates=query._candidates(f"crash={path}")[1]).check(asked[0])
    with path.open("wb") as file:
        file.truncate(1 << 40)  # it has no data: no disk and no memory holds so much
    with pytest.raises(InvalidInput, match="over 64 MB"):
        query._candidates(f"crash={path}")
    for text in ("crash", "crash=", f"crash={tmp_path}/none"):
        with pytest.raises(InvalidInput, match=r"expected|No such file"):
            query._candidates(text)
