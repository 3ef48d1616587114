"""What a consumer reads, and the state of each partition."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from ottla.client.config import OffsetReset, ResetKind
from ottla.client.consumer.partition_state import PartitionState, Position, Status
from ottla.client.consumer.subscription_state import SubscriptionPattern, SubscriptionState, as_position
from ottla.client.errors import IllegalState
from ottla.client.group import OffsetAndMetadata
from ottla.types import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
EARLIEST = OffsetReset(ResetKind.EARLIEST)


def status(state: PartitionState) -> Status:
    """What it is now: mypy would take it for what it was at the last look."""
    return state.status


def test_the_ways_to_choose_exclude_each_other_until_unsubscribe() -> None:
    ways: dict[str, Callable[[SubscriptionState], None]] = {
        "topics": lambda state: state.subscribe_topics(["a"]),
        "pattern": lambda state: state.subscribe_pattern(re.compile("a")),
        "server pattern": lambda state: state.subscribe_server_pattern(SubscriptionPattern("a")),
        "partitions": lambda state: state.assign_by_user([A0]),
    }
    for first, choose in ways.items():
        for second, other in ways.items():
            state = SubscriptionState()
            choose(state)
            if first == second:
                other(state)
                continue
            with pytest.raises(IllegalState, match="mutually exclusive"):
                other(state)
            state.unsubscribe()
            other(state)


def test_a_partition_that_stays_assigned_keeps_its_state() -> None:
    state = SubscriptionState()
    state.assign_by_user([A0, A1])
    state.state(A0).seek(Position(7))
    kept = state.state(A0)
    state.assign_by_user([B0, A0])
    assert state.state(A0) is kept
    assert list(state.partitions) == [A0, B0]
    with pytest.raises(IllegalState, match="a-1"):
        state.state(A1)
    state.assign_by_user([A1])
    state.assign_by_user([A0])
    assert state.state(A0) is not kept
    assert state.state(A0).position is None


def test_a_pattern_matches_whole_names_and_tells_when_others_match() -> None:
    state = SubscriptionState()
    state.subscribe_pattern(re.compile("a.?"))
    assert state.match_topics(["ab", "a", "abc", "b"])
    assert state.topics == ("a", "ab")
    assert not state.match_topics(["b", "a", "ab"])
    assert state.match_topics(["a"])
    assert state.watched_topics() == {"a"}


def test_positions_are_those_of_partitions_that_have_one() -> None:
    state = SubscriptionState()
    state.assign_by_user([A0, A1, B0])
    state.state(A0).seek_validated(Position(3, 2))
    state.state(A1).seek_validated(Position(4))
    assert state.positions() == {A0: OffsetAndMetadata(3, "", 2), A1: OffsetAndMetadata(4)}
    assert as_position(OffsetAndMetadata(3, "note", 2)) == Position(3, 2)
    assert as_position(5) == Position(5)
    with pytest.raises(ValueError, match="negative"):
        as_position(-1)


# One partition


def test_a_position_with_an_epoch_is_confirmed_by_the_leader_first() -> None:
    state = PartitionState(A0)
    state.note_leader(5)
    state.seek(Position(10))
    assert status(state) is Status.FETCHING
    state.seek(Position(10, 4))
    assert status(state) is Status.AWAIT_VALIDATION
    state.seek_validated(Position(10, 4))
    assert status(state) is Status.FETCHING


def test_a_new_leader_has_to_confirm_what_was_read_from_the_old_one() -> None:
    state = PartitionState(A0)
    state.note_leader(5)
    state.seek_validated(Position(10, 5))
    state.note_leader(5)
    state.note_leader(4)
    assert (status(state), state.leader_epoch) == (Status.FETCHING, 5)
    state.note_leader(6)
    assert (status(state), state.leader_epoch) == (Status.AWAIT_VALIDATION, 6)
    state.seek_validated(Position(10))
    state.note_leader(7)
    assert status(state) is Status.FETCHING  # without an epoch there is nothing to ask about


def test_a_reset_takes_the_position_and_a_seek_takes_the_reset() -> None:
    state = PartitionState(A0)
    state.seek(Position(10))
    state.preferred_replica = 3
    state.request_reset(EARLIEST)
    assert (status(state), state.position, state.preferred_replica) == (Status.AWAIT_RESET, None, -1)
    assert not bool(state.is_fetchable)
    state.seek(Position(11))
    assert (status(state), state.reset) == (Status.FETCHING, None)
    assert bool(state.is_fetchable)
    state.is_paused = True
    assert not bool(state.is_fetchable)


def test_lag_is_what_lies_before_the_end_that_can_be_read() -> None:
    state = PartitionState(A0)
    assert state.lag(is_read_committed=False) is None
    state.seek(Position(10))
    state.high_watermark, state.last_stable_offset = 25, 15
    assert state.lag(is_read_committed=False) == 15
    assert state.lag(is_read_committed=True) == 5
    state.seek(Position(30))
    assert state.lag(is_read_committed=False) == 0
