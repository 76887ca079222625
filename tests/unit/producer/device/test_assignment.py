"""Check how a device's secret decides its group, view and time slot.

All devices, in all languages and releases, must compute the same.
"""

from fractions import Fraction

from calmstream.estimators.plan import Guarantee
from calmstream.producer.device.assignment import (
    GROUP,
    SLOT,
    Place,
    group_of,
    keyed_word,
    new_secret,
    parts,
    place,
    places,
)
from tests.support.producer import LINEAGE, make_plan

SECRET = bytes(range(16))


def test_the_word_never_changes_between_releases() -> None:
    # Computed with openssl; a release that moved devices would break totals across windows.
    assert keyed_word(SECRET, LINEAGE, GROUP) == 0x38E2BAFAB9FA2750
    assert keyed_word(SECRET, LINEAGE, SLOT) == 0xA09FC6FBD907C6F0


def test_a_word_is_mapped_to_its_share_exactly() -> None:
    for total in (1, 3, 11, 2**32 + 15, 2**62):
        word = keyed_word(SECRET, LINEAGE, GROUP)
        assert parts([SECRET], LINEAGE, GROUP, total) == [int(Fraction(word * total, 2**64))]


def test_places_of_many_devices_are_those_of_each() -> None:
    plan = make_plan(guarantee=Guarantee("w-event", 7), windows=14)
    secrets = [new_secret() for _ in range(1000)]
    flat, slot = places(plan, secrets)
    seen = {place(plan, secret) for secret in secrets}
    assert seen == {
        Place(group_of(plan, f), f - int(plan.first_view[group_of(plan, f)]), s)
        for f, s in zip(flat.tolist(), slot.tolist(), strict=True)
    }
    assert len(seen) == 4 * 7
    assert [each.shape for each in places(plan, [])] == [(0,), (0,)]


def test_a_place_depends_on_secret_and_lineage_only() -> None:
    plan = make_plan()
    child = make_plan(start=plan.expires, name="child", epsilon="0.5")
    secrets = [new_secret() for _ in range(200)]
    assert [place(plan, s) for s in secrets] == [place(child, s) for s in secrets]
    other = make_plan(lineage="f" * 32)
    assert [place(plan, s) for s in secrets] != [place(other, s) for s in secrets]
