"""All devices, in all languages, compute the same group, view and slot."""

import numpy as np

from calmstream.estimators.plan import Guarantee
from calmstream.producer.device.assignment import Place, group_of, new_secret, place, places
from tests.support.producer import make_plan


def test_places_of_many_devices_are_those_of_each() -> None:
    plan = make_plan(guarantee=Guarantee("w-event", 7), windows=14)
    secrets = [new_secret() for _ in range(1000)]
    flat, slot = places(plan, secrets)
    group = group_of(plan, flat)
    view = flat - np.array(plan.first_view)[group]
    found = zip(group.tolist(), view.tolist(), slot.tolist(), strict=True)
    assert [place(plan, secret) for secret in secrets] == [Place(*each) for each in found]
    assert len(set(zip(flat.tolist(), slot.tolist(), strict=True))) == 4 * 7
    assert [each.shape for each in places(plan, [])] == [(0,), (0,)]
