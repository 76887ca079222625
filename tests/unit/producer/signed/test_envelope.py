"""Check the format of envelopes and certificates: what is written is read, and nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import replace

import orjson
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from calmstream.producer.signed.certificate import MAX_STATEMENT_BYTES, Statement, read_statement
from calmstream.producer.signed.envelope import MAX_ENVELOPE_BYTES, read_envelope
from tests.support.signed import Operator

OPERATOR = Operator()
PLAN = OPERATOR.plan()
ENVELOPE = OPERATOR.sign(PLAN)


def test_what_is_written_is_read() -> None:
    assert read_envelope(ENVELOPE) == OPERATOR.envelope(PLAN)
    assert read_envelope(orjson.dumps(orjson.loads(ENVELOPE), option=orjson.OPT_INDENT_2))
    assert read_statement(OPERATOR.statement.to_bytes()) == OPERATOR.statement


def test_the_signed_messages_are_those_of_the_page() -> None:
    document = orjson.loads(ENVELOPE)
    statement = base64.b64decode(document["certificate"]["statement"])
    plan = base64.b64decode(document["plan"])
    hashed = hashlib.sha256(statement).digest()
    stated = orjson.loads(statement)
    root = Ed25519PublicKey.from_public_bytes(bytes.fromhex(stated["root"]))
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(stated["key"]))
    by_root = base64.b64decode(document["certificate"]["signature"])
    by_key = base64.b64decode(document["signature"])
    root.verify(by_root, b"calmstream/certificate/1\0" + hashed)
    key.verify(by_key, b"calmstream/plan/1\0" + hashed + hashlib.sha256(plan).digest())
    with pytest.raises(InvalidSignature):
        key.verify(by_key, b"calmstream/plan/1\0" + hashlib.sha256(plan).digest())


def changed(*path: str, to: object) -> Callable[[], bytes]:
    def make() -> bytes:
        document = orjson.loads(ENVELOPE)
        place = document
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] = to
        return orjson.dumps(document)

    return make


def dropped(name: str) -> bytes:
    return orjson.dumps({k: v for k, v in orjson.loads(ENVELOPE).items() if k != name})


MALFORMED: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "not JSON": lambda: ENVELOPE[:-1],
    "more after it": lambda: ENVELOPE + b"x",
    "byte order mark": lambda: b"\xef\xbb\xbf" + ENVELOPE,
    "not UTF-8": lambda: ENVELOPE.replace(b"signed-1", b"signed-\xff"),
    "a list": lambda: b"[" + ENVELOPE + b"]",
    "another version": changed("v", to="signed-2"),
    "a number as version": changed("v", to=1),
    "no plan": lambda: dropped("plan"),
    "another field": changed("x", to="y"),
    "a field twice": lambda: ENVELOPE.replace(b'{"certificate"', b'{"v":"signed-1","certificate"'),
    "a field twice and one less": lambda: ENVELOPE.replace(b'"v":', b'"plan":'),
    "an escaped name": lambda: ENVELOPE.replace(b'"v"', b'"\\u0076"'),
    "an escaped slash": lambda: changed("plan", to="ab//")().replace(b"//", b"\\/\\/"),
    "base64 without padding": changed("signature", to="A" * 86),
    "base64 with unused bits": changed("signature", to="A" * 85 + "B=="),
    "base64 for addresses": changed("signature", to="_" * 86 + "=="),
    "base64 with a space": changed("signature", to=" " + "A" * 85 + "=="),
    "base64 beyond ASCII": changed("plan", to="ä"),
    "a short signature": changed("signature", to=base64.b64encode(bytes(63)).decode()),
    "a long signature": changed("signature", to=base64.b64encode(bytes(65)).decode()),
    "null as plan": changed("plan", to=None),
    "a text as certificate": changed("certificate", to="x"),
    "a field more in the certificate": changed("certificate", "x", to="y"),
    "a number in the certificate": changed("certificate", "statement", to=7),
    "a short root signature": changed("certificate", "signature", to="AAAA"),
    "too large": lambda: ENVELOPE + b" " * MAX_ENVELOPE_BYTES,
    "brackets": lambda: b"[" * (1 << 20),
    "braces": lambda: b'{"a":' * (1 << 20),
}


@pytest.mark.parametrize("make", MALFORMED.values(), ids=MALFORMED.keys())
def test_nothing_else_is_an_envelope(make: Callable[[], bytes]) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        read_envelope(make())
    assert len(str(refused.value)) < 200


def stated(**changes: object) -> bytes:
    document = orjson.loads(OPERATOR.statement.to_bytes()) | changes
    kept = {name: value for name, value in document.items() if value is not None}
    return orjson.dumps(kept, option=orjson.OPT_SORT_KEYS)


STATEMENTS = {
    "not JSON": b"{",
    "a list": b"[]",
    "spaces": orjson.dumps(orjson.loads(stated()), option=orjson.OPT_INDENT_2),
    "unsorted": orjson.dumps(dict(reversed(orjson.loads(stated()).items()))),
    "a field twice": stated().replace(b'"owner"', b'"owner":"x","owner"'),
    "another field": stated(x="y"),
    "no owner": stated(owner=None),
    "an empty owner": stated(owner=""),
    "a long owner": stated(owner="ö" * 129),
    "a control character": stated(owner="a\x1b[2J"),
    "a control character beyond ASCII": stated(owner="a\x85"),
    "another direction": stated(owner="a\u202eb"),
    "another version": stated(v="certificate-2"),
    "capitals": stated(key="A" * 64),
    "a short key": stated(key="a" * 62),
    "a negative date": stated(not_before=-1),
    "a date as a fraction": stated(not_before=1.5),
    "a date as a text": stated(not_before="1"),
    "true as a date": stated(not_before=True),
    "a late date": stated(not_after=(1 << 40) + 1),
    "dates in the wrong order": stated(not_before=5, not_after=4),
    "too long": stated(owner="x" * MAX_STATEMENT_BYTES),
}


@pytest.mark.parametrize("raw", STATEMENTS.values(), ids=STATEMENTS.keys())
def test_nothing_else_is_a_statement(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_statement(raw)


def test_the_bounds_of_a_statement_are_included() -> None:
    largest = replace(OPERATOR.statement, owner="𝄞" * 128, not_before=0, not_after=1 << 40)
    assert read_statement(largest.to_bytes()) == largest
    one = Statement(OPERATOR.root, OPERATOR.root, "x", 7, 7)
    assert [one.valid_at(t) for t in (6, 7, 8)] == [False, True, False]
