"""The ledger complains about every broken promise of a coordinator, and about nothing that may happen."""

from __future__ import annotations

import pytest

from ottla.sim.history import Violation
from ottla.sim.ledger import NO_OFFSET, Copy, Fate, Ledger, TransactionHistory

GROUP = "group"


class Clock:
    now_ms = 0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(clock: Clock) -> Ledger:
    ledger = Ledger(lambda: clock.now_ms)
    ledger.add_group(GROUP, 2, is_transactional=True)
    return ledger


def begun(ledger: Ledger, *offsets: int, client: str = "worker") -> tuple[TransactionHistory, list[Copy]]:
    """A transaction that copies these offsets of partition 0."""
    transaction = ledger.begin(client, GROUP)
    copies = [Copy(GROUP, transaction.number, 0, offset) for offset in offsets]
    transaction.copies.update(copies)
    transaction.offsets = {0: max(offsets) + 1}
    return transaction, copies


def fetched(ledger: Ledger, offset: int, before: dict[int, int] | None = None) -> None:
    ledger.on_offset_fetched("auditor", GROUP, 0, offset, ledger.before_fetch(GROUP) if before is None else before)


# Offsets


def test_a_copy_is_read_as_it_was_written() -> None:
    copy = Copy(GROUP, 7, 3, 12)
    assert Copy.decode(copy.encode()) == copy
    with pytest.raises(Violation, match="nobody sent"):
        Copy.decode(b"something else")


def test_a_committed_offset_may_not_go_back(ledger: Ledger) -> None:
    fetched(ledger, NO_OFFSET)
    for offset in (5, 9):
        ledger.on_commit_sent(GROUP, {0: offset})
        ledger.on_commit_acknowledged(GROUP, {0: offset})
    fetched(ledger, 9)
    with pytest.raises(Violation, match=r"has committed 5 .* and it was 9"):
        fetched(ledger, 5)
    with pytest.raises(Violation, match="has committed -1"):
        fetched(ledger, NO_OFFSET)


def test_a_fetch_may_be_answered_with_what_was_so_when_it_was_sent(ledger: Ledger) -> None:
    ledger.on_commit_sent(GROUP, {0: 5})
    ledger.on_commit_acknowledged(GROUP, {0: 5})
    before = ledger.before_fetch(GROUP)
    ledger.on_commit_sent(GROUP, {0: 9})
    ledger.on_commit_acknowledged(GROUP, {0: 9})
    fetched(ledger, 5, before)


def test_an_offset_that_nobody_committed_may_not_be_there(ledger: Ledger) -> None:
    with pytest.raises(Violation, match="which nobody asked for"):
        fetched(ledger, 3)


def test_a_commit_without_an_answer_may_be_there_or_not_until_it_was_seen(ledger: Ledger) -> None:
    ledger.on_commit_sent(GROUP, {0: 5})
    ledger.on_commit_lost(GROUP, {0: 5})
    fetched(ledger, NO_OFFSET)
    fetched(ledger, 5)
    with pytest.raises(Violation, match=r"has committed -1 .* and it was 5"):
        fetched(ledger, NO_OFFSET)


def test_a_commit_that_was_given_up_may_come_late(ledger: Ledger) -> None:
    ledger.on_commit_sent(GROUP, {0: 5})
    ledger.on_commit_lost(GROUP, {0: 5})
    ledger.on_commit_sent(GROUP, {0: 9})
    ledger.on_commit_acknowledged(GROUP, {0: 9})
    fetched(ledger, 5)


def test_a_refused_commit_may_not_be_there(ledger: Ledger) -> None:
    ledger.on_commit_sent(GROUP, {0: 5})
    ledger.on_commit_refused(GROUP, {0: 5})
    with pytest.raises(Violation, match="which nobody asked for"):
        fetched(ledger, 5)


def test_no_record_is_skipped_by_all_members(ledger: Ledger) -> None:
    ledger.on_delivered("a", GROUP, 0, 0, 4)
    ledger.on_delivered("b", GROUP, 0, 2, 6)
    with pytest.raises(Violation, match="goes on at 8"):
        ledger.on_delivered("a", GROUP, 0, 8, 9)


# Transactions


def test_a_transaction_may_be_read_when_its_commit_was_asked_for(ledger: Ledger) -> None:
    transaction, (copy,) = begun(ledger, 0)
    with pytest.raises(Violation, match="is open"):
        ledger.on_read("reader", 0, 10, copy)
    ledger.on_ending(transaction, is_commit=True)
    ledger.on_read("reader", 0, 10, copy)


def test_an_aborted_transaction_may_not_be_read(ledger: Ledger) -> None:
    transaction, (copy,) = begun(ledger, 0)
    ledger.on_ending(transaction, is_commit=False)
    with pytest.raises(Violation, match="is aborted"):
        ledger.on_read("reader", 0, 10, copy)


def test_what_a_dead_client_has_begun_may_not_be_read_and_what_it_asked_to_commit_may(ledger: Ledger) -> None:
    asked, (readable,) = begun(ledger, 0)
    ledger.on_ending(asked, is_commit=True)
    _, (hidden,) = begun(ledger, 1)
    ledger.on_given_up("worker")
    ledger.on_read("reader", 0, 10, readable)
    with pytest.raises(Violation, match="is aborted"):
        ledger.on_read("reader", 0, 11, hidden)


def test_a_refused_transaction_may_not_have_been_read(ledger: Ledger) -> None:
    transaction, (copy,) = begun(ledger, 0)
    ledger.on_ending(transaction, is_commit=True)
    ledger.on_read("reader", 0, 10, copy)
    with pytest.raises(Violation, match="was not committed, and was shown"):
        ledger.on_refused(transaction)


def test_a_source_record_may_be_copied_once_only(ledger: Ledger) -> None:
    for place, _ in enumerate(("first", "second")):
        transaction, (copy,) = begun(ledger, 0)
        ledger.on_ending(transaction, is_commit=True)
        if place == 0:
            ledger.on_read("reader", 0, 10, copy)
    with pytest.raises(Violation, match=r"to \(0, 10\) and to \(1, 4\)"):
        ledger.on_read("reader", 1, 4, copy)


def test_what_was_shown_once_is_shown_again_at_its_offset(ledger: Ledger) -> None:
    transaction, (one, other) = begun(ledger, 0, 1)
    ledger.on_ending(transaction, is_commit=True)
    ledger.on_read("reader", 0, 10, one)
    ledger.on_read_through("reader", 0, 12, {10})
    with pytest.raises(Violation, match="is not shown"):
        ledger.on_read_through("reader", 0, 12, set())
    with pytest.raises(Violation, match="and was"):
        ledger.on_read("reader", 0, 10, other)


def test_in_the_end_every_committed_record_is_there_and_every_source_record_once(ledger: Ledger) -> None:
    transaction, (one, other) = begun(ledger, 0, 1)
    ledger.on_ending(transaction, is_commit=True)
    assert "no copy of 0" in str(ledger.missing({0: 2, 1: 0}))
    ledger.on_read("reader", 0, 10, one)
    assert "1 of its 2 records" in str(ledger.missing({0: 2, 1: 0})), "a transaction is there as a whole or not at all"
    ledger.on_read("reader", 0, 11, other)
    assert ledger.missing({0: 2, 1: 0}) is None
    assert transaction.fate is Fate.IN_DOUBT
    ledger.on_committed(transaction)
    assert ledger.has_consumed(GROUP, {0: 2, 1: 0})
    assert not ledger.has_consumed(GROUP, {0: 3, 1: 0})


# Producers and members


def test_a_producer_is_fenced_once_a_newer_one_was_told_its_epoch(ledger: Ledger) -> None:
    ledger.on_producer("id", (4, 0))
    assert not ledger.is_fenced("id", (4, 0))
    ledger.on_producer("id", (4, 3))
    ledger.on_producer("id", (4, 2))
    assert ledger.is_fenced("id", (4, 2))
    with pytest.raises(Violation, match="was producer 4 and is now 5"):
        ledger.on_producer("id", (5, 0))


def test_a_partition_has_one_owner_until_its_session_is_over(ledger: Ledger, clock: Clock) -> None:
    ledger.claim(GROUP, "a", [0, 1], until_ms=100)
    with pytest.raises(Violation, match="given to b of group and a still has it"):
        ledger.claim(GROUP, "b", [1], until_ms=200)
    ledger.release(GROUP, "a", kept=[0])
    ledger.claim(GROUP, "b", [1], until_ms=200)
    clock.now_ms = 100
    ledger.claim(GROUP, "b", [0], until_ms=200)


def test_an_older_offset_is_allowed_only_down_to_what_a_replaced_coordinator_must_know() -> None:
    ledger = Ledger(lambda: 0)
    ledger.add_group("g", 1, is_transactional=False)
    for offset in (5, 10, 20):
        ledger.on_commit_sent("g", {0: offset})
        ledger.on_commit_acknowledged("g", {0: offset})
    before = ledger.before_fetch("g")
    ledger.on_offset_fetched("auditor", "g", 0, 10, before, floors=[{0: 10}])
    assert ledger.stale_count == 1
    with pytest.raises(Violation, match="has committed 5"):
        ledger.on_offset_fetched("auditor", "g", 0, 5, before, floors=[{0: 10}])
    with pytest.raises(Violation, match="has committed 10"):
        ledger.on_offset_fetched("auditor", "g", 0, 10, before)
