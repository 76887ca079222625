"""Check how a device's secret decides its group, view and time slot.

All devices, in all languages and releases, must compute the same.
"""

import hashlib
import hmac
from fractions import Fraction

import numpy as np

from calmstream.estimators.plan import Guarantee
from calmstream.producer.device.assignment import (
    GROUP,
    SLOT,
    Place,
    group_of,
    keyed_word,
    new_secret,
    place,
)
from calmstream.producer.simulation.places import keyed_words, places, thresholds
from tests.support.producer import LINEAGE, make_plan

SECRET = bytes(range(16))


def test_a_word_is_the_documented_hmac() -> None:
    message = b"calmstream/1/group/" + bytes.fromhex(LINEAGE)
    expected = hmac.new(SECRET, message, hashlib.sha256).digest()[:8]
    assert keyed_word(SECRET, LINEAGE, GROUP) == int.from_bytes(expected, "big")


def test_the_word_never_changes_between_releases() -> None:
    # Computed with openssl; a release that moved devices would break totals across windows.
    assert keyed_word(SECRET, LINEAGE, GROUP) == 0x38E2BAFAB9FA2750
    assert keyed_word(SECRET, LINEAGE, SLOT) == 0xA09FC6FBD907C6F0


def test_vectorised_words_are_the_scalar_ones() -> None:
    secrets = np.frombuffer(b"".join(new_secret() for _ in range(50)), np.uint8).reshape(50, 16)
    words = keyed_words(secrets, LINEAGE, SLOT)
    assert words.dtype == np.uint64
    assert words.tolist() == [keyed_word(bytes(s), LINEAGE, SLOT) for s in secrets]
    assert keyed_words(secrets[:0], LINEAGE, SLOT).tolist() == []


def test_every_share_holds_its_words_to_within_one() -> None:
    for shares in ([1], [1, 1, 1], [1, 2**32, 7, 7], list(range(1, 300))):
        cumulative = np.cumsum(shares)
        bounds = [0, *map(int, thresholds(cumulative)), 2**64]
        for share, low, high in zip(shares, bounds, bounds[1:], strict=False):
            assert abs((high - low) - Fraction(share << 64, int(cumulative[-1]))) < 1


def test_the_threshold_is_where_the_multiplication_steps() -> None:
    cumulative = [3, 10, 11]
    for part, word in enumerate(map(int, thresholds(cumulative))):
        assert word * 11 >> 64 == cumulative[part]
        assert (word - 1) * 11 >> 64 == cumulative[part] - 1


def test_scalar_and_vectorised_places_agree() -> None:
    plan = make_plan(guarantee=Guarantee("w-event", 7), windows=14)
    secrets = np.random.default_rng(5).integers(0, 256, (3000, 16), np.uint8)
    where = places(plan, secrets)
    places_seen = set()
    for i, secret in enumerate(secrets):
        expected = place(plan, secret.tobytes())
        group = group_of(plan, int(where.flat[i]))
        view = int(where.flat[i] - plan.first_view[group])
        assert Place(group, view, int(where.slot[i])) == expected
        places_seen.add(expected)
    assert len(places_seen) == 4 * 7


def test_a_place_depends_on_secret_and_lineage_only() -> None:
    plan = make_plan()
    child = make_plan(start=plan.expires, name="child", epsilon="0.5")
    secrets = [new_secret() for _ in range(200)]
    assert [place(plan, s) for s in secrets] == [place(child, s) for s in secrets]
    other = make_plan(lineage="f" * 32)
    assert [place(plan, s) for s in secrets] != [place(other, s) for s in secrets]


def test_group_of_flat_views() -> None:
    plan = make_plan()
    assert [group_of(plan, flat) for flat in range(4)] == [0, 1, 2, 2]
    assert group_of(plan, np.arange(4)).tolist() == [0, 1, 2, 2]
