"""The file of the privacy budget: paid before a release, refused where spent or damaged."""

from __future__ import annotations

import multiprocessing
import os
from dataclasses import replace
from pathlib import Path

import pytest

from calmstream.common.errors import FatalError
from calmstream.consumer.central.budget_account import BudgetAccount
from calmstream.estimators.central.ledger import BudgetSpent
from tests.support import central

PLAN = replace(central.PLAN, releases=3)


def fresh(path: Path) -> BudgetAccount:
    account = BudgetAccount(path, PLAN)
    account.create()
    return account


def _die_after_paying(path: Path) -> None:
    BudgetAccount(path, PLAN).pay("0")
    os._exit(17)  # between the payment and any record of the release


def test_a_crash_between_release_and_record_leaves_the_budget_spent(tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    fresh(path)
    child = multiprocessing.get_context("spawn").Process(target=_die_after_paying, args=(path,))
    child.start()
    child.join(60)
    assert child.exitcode == 17
    account = BudgetAccount(path, PLAN)
    with pytest.raises(BudgetSpent, match="was begun and may be published"):
        account.pay("0")
    account.pay("1")
    account.pay("2")
    with pytest.raises(BudgetSpent, match="is spent"):
        account.pay("3")


def test_a_payment_that_cannot_be_made_durable_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = fresh(tmp_path / "budget.json")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("calmstream.common.files.os.fsync", full)
    with pytest.raises(FatalError, match="nothing is released"):
        account.pay("0")
    monkeypatch.undo()
    assert account.read().entries == {}


def test_a_missing_account_stops_everything(tmp_path: Path) -> None:
    with pytest.raises(FatalError, match="nothing is released without one"):
        BudgetAccount(tmp_path / "none.json", PLAN).pay("0")
    with pytest.raises(FatalError, match="cannot lock"):
        BudgetAccount(tmp_path / "no" / "none.json", PLAN).pay("0")


def test_a_damaged_account_stops_everything_and_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    account = fresh(path)
    path.write_bytes(b"{}")
    with pytest.raises(FatalError, match="nothing is released"):
        account.pay("0")
    assert path.read_bytes() == b"{}"


def test_an_existing_account_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    fresh(path).pay("0")
    with pytest.raises(FatalError, match="already"):
        fresh(path)
    assert set(BudgetAccount(path, PLAN).read().entries) == {"0"}


def test_an_account_serves_its_own_plan_only(tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    fresh(path)
    with pytest.raises(FatalError, match=f"belongs to plan {PLAN.digest[:8]}.*nothing is released"):
        BudgetAccount(path, central.PLAN).read()


def _pay(path: Path, release: str) -> bool:
    try:
        BudgetAccount(path, PLAN).pay(release)
    except BudgetSpent:
        return False
    return True


def test_two_aggregators_cannot_spend_the_same_budget(tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    fresh(path)
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        paid = pool.starmap(_pay, [(path, str(w)) for w in range(9)])
    assert sum(paid) == len(BudgetAccount(path, PLAN).read().entries) == 3
