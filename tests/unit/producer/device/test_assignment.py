"""All devices, in all languages, compute the same group, view and slot."""

from calmstream.estimators.plan import Guarantee
from calmstream.producer.device.assignment import (
    Place,
    group_of,
    new_secret,
    place,
    places,
)
from tests.support.producer import make_plan


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
