"""Show the store of a device in words.

Nothing is changed or sent.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

from calmstream import arguments
from calmstream.common.clock import utc, wall_clock
from calmstream.common.errors import InvalidInput
from calmstream.estimators.plan import Plan
from calmstream.output import say
from calmstream.producer.device.assignment import place
from calmstream.producer.device.history import MAX_SENT, Sent
from calmstream.producer.device.ledger import DeviceState
from calmstream.producer.device.policy import Policy, Status
from calmstream.producer.device.recorder import Recorder
from calmstream.producer.device.report import decoded
from calmstream.producer.device.reporter import Reporter
from calmstream.producer.device.store import FileStore, MemoryStore

_MOST_ENDS = 8  # lines that say until when past reports count
_WHY = {
    Status.WITHDRAWN: "the person has withdrawn",
    Status.REFUSED: "the device does not accept the plan now",
    Status.OVER: "the plan is over",
    Status.ALREADY_REPORTED: "it has reported, and the plan asks no more of it",
    Status.BUDGET_SPENT: "it has given what this plan and those before it may cost together",
    Status.SPAN_EPSILON: "another report would cost more than the device allows for now",
    Status.EVER_EPSILON: "another report would cost more than the device allows for ever",
}


def add(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    view = actions.add_parser("view", help="show what left, what it cost, and what may follow")
    view.add_argument(
        "--plan", action="append", default=[], metavar="FILE", dest="plans",
        help="a plan, signed or not, by which reports are put into words; may be repeated",
    )  # fmt: skip
    view.set_defaults(run=run_view)
    preview = actions.add_parser("preview", help="show what would leave next under a plan")
    for action in (view, preview):
        action.add_argument(
            "store", metavar="STORE", help="the file of a device's FileStore in Python"
        )
    preview.add_argument("plan", metavar="PLAN", help="a plan, signed or not")
    preview.set_defaults(run=run_preview)


def run_view(args: argparse.Namespace) -> int:
    state = _store(args.store).read()
    plans = {plan.digest: plan for plan in map(arguments.load_plan, args.plans)}
    say(f"Reports of this device: {len(state.history)} (the latest {MAX_SENT} are kept)")
    for sent in state.history:
        say("", *_left(sent, plans.get(sent.digest)))
    say("", *_may_cost(state, wall_clock() // 1000))
    return 0


def run_preview(args: argparse.Namespace) -> int:
    store, raw = _store(args.store), arguments.read_file(args.plan)
    kept = store.read_events()
    # A copy: a preview writes nothing.
    copy = MemoryStore(store.read())
    copy.update_events(lambda _: kept)
    recorder = Recorder(raw, copy, clock=wall_clock, allow_unsigned=True)
    plan, where = recorder.reporter.plan, place(recorder.reporter.plan, copy.read().secret)
    attributes = plan.groups[where.group].views[where.view].attributes
    say(
        f"Plan {plan.name}: {plan.purpose or 'no purpose stated'}",
        f"  A report is about {', '.join(plan.domain.names[j] for j in attributes)}; "
        "no other attribute is read.",
    )
    if plan.lineage in kept:
        record = recorder.record()
        for j in attributes:
            name = plan.domain.attributes[j].field
            say(f"  {name} is now {record.get(name, 'without a value')}")
    else:
        say("  This store keeps no values: the application gives them when it reports.")
    say(
        f"  It is changed at random before it leaves. It costs epsilon {plan.epsilon}.",
        f"  {_when(recorder.reporter, where.slot, wall_clock())}",
        *_may_cost(copy.read(), wall_clock() // 1000),
    )
    return 0


def _left(sent: Sent, plan: Plan | None) -> Iterator[str]:
    signed = sent.owner if sent.root else f"{sent.owner or 'nobody named'}, unsigned"
    purpose = sent.purpose or "no purpose stated"
    yield f"{utc(sent.when)}  {sent.plan} ({signed}): {purpose}"
    yield f"  about {', '.join(sent.attributes)}"
    if plan is not None and sent.value:
        yield f"  {decoded(plan, sent.value.encode())}"
    else:
        yield f"  {sent.value or f'{sent.value_bytes:,} bytes, not kept'}"
        if sent.value:
            yield f"  (--plan with the file of plan {sent.digest[:8]} puts it into words)"
    yield f"  it cost epsilon {sent.epsilon}; {sent.remains} was left"


def _may_cost(state: DeviceState, now: int) -> Iterator[str]:
    policy, owners = state.policy or Policy(), {sent.root: sent.owner for sent in state.history}
    present = state.totals.present(now)
    if state.withdrawn:
        yield "The person has withdrawn: nothing leaves."
    for root in sorted({*policy.roots, *owners}) or [""]:
        left = state.totals.remaining(policy, root, now)
        ever = "" if left.ever is None else f", and {max(left.ever, Decimal(0)):f} ever"
        who = owners.get(root) or (f"root {root[:8]}" if root else "unsigned plans")
        yield (
            f"{who} may still cost {max(left.span, Decimal(0)):f} for now{ever}: in any "
            f"{policy.span_days} days all reports together cost at most {policy.span_epsilon}."
        )
    ends = [(r.counts_from + policy.span_seconds, r.epsilon) for r in state.totals.recent]
    for end, epsilon in [each for each in ends if each[0] > present][:_MOST_ENDS]:
        yield f"  {epsilon} of it counts until {utc(end)}"


def _when(reporter: Reporter, slot: int, now: int) -> str:
    why = reporter.status(now)
    if why is Status.READY:
        return "It may leave now."
    plan, every = reporter.plan, reporter.plan.guarantee.windows
    following = max(plan.window_at(now) + 1, 0)
    first = following + (slot - following) % every
    # A device reports in windows of its slot only: these are the next two.
    for t in range(first, min(plan.windows, first + 2 * every), every):
        why = reporter.status(plan.window_start(t))
        if why is Status.READY:
            return f"It may leave from {utc(plan.window_start(t) // 1000)} on."
    return f"None will leave: {_WHY.get(why, why.value)}."


def _store(path: str) -> FileStore:
    if not Path(path).is_file():
        raise InvalidInput(f"{path}: no such file; give the file of the device's FileStore")
    return FileStore(path, create=False)
