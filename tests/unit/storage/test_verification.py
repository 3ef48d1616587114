"""Transactions that wait to be verified."""

from __future__ import annotations

from ottla.storage.verification import VerificationGuard, VerificationState


def test_no_two_guards_are_the_same() -> None:
    guards = {VerificationGuard() for _ in range(10)}
    assert len(guards) == 10


def test_the_lowest_sequence_of_an_epoch_is_kept() -> None:
    state = VerificationState(0, 5, 1, supports_epoch_bump=True)
    state.saw(7, 1)
    assert state.lowest_sequence == 5
    state.saw(3, 1)
    assert state.lowest_sequence == 3


def test_a_newer_epoch_counts_its_sequences_anew_and_an_older_one_not_at_all() -> None:
    state = VerificationState(0, 5, 1, supports_epoch_bump=False)
    state.saw(8, 2)
    assert (state.producer_epoch, state.lowest_sequence) == (2, 8)
    state.saw(0, 1)
    assert (state.producer_epoch, state.lowest_sequence) == (2, 8)
