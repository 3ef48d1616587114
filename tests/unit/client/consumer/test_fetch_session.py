"""Incremental fetch sessions: what is sent, and what becomes of the session (KIP-227)."""

from __future__ import annotations

from typing import Any

from ottla.client.consumer.fetch_session import FetchPlan, FetchSession, Wanted
from ottla.errors import FetchSessionIdNotFound, InvalidFetchSessionEpoch
from ottla.types import ZERO_UUID, TopicPartition, Uuid
from ottla.wire.messages.fetch import FetchRequest, FetchResponse

A, B = Uuid(b"a" * 16), Uuid(b"b" * 16)
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def wanted(topic_id: Uuid, offset: int) -> Wanted:
    return Wanted(topic_id, offset, 0, 1000)


def request(plan: FetchPlan, version: int = 17) -> FetchRequest:
    return plan.request(version, max_wait_ms=500, min_bytes=1, max_bytes=2000, isolation=1, rack="r")


def sent(plan: FetchPlan, version: int = 17) -> tuple[list[Any], list[Any]]:
    """What the request says: partitions with their offsets, and those to forget."""
    made = request(plan, version)
    return (
        [(topic.topic, one.partition, one.fetch_offset) for topic in made.topics for one in topic.partitions],
        [(topic.topic, topic.topic_id, one) for topic in made.forgotten_topics_data for one in topic.partitions],
    )


def opened(session: FetchSession, **places: Wanted) -> None:
    """Begin a session with these partitions."""
    plan = session.plan({TopicPartition(name[0], int(name[1])): one for name, one in places.items()})
    assert session.settle(plan, FetchResponse(session_id=77))


def test_the_first_fetch_asks_for_everything_and_the_next_for_what_has_changed() -> None:
    session = FetchSession(1, "test")
    first = session.plan({A0: wanted(A, 0), B0: wanted(B, 5)})
    assert (first.session_id, first.epoch, first.is_full) == (0, 0, True)
    assert sent(first) == ([("a", 0, 0), ("b", 0, 5)], [])
    made = request(first)
    assert (made.isolation_level, made.rack_id, made.max_bytes, made.min_bytes) == (1, "r", 2000, 1)
    assert session.settle(first, FetchResponse(session_id=77))

    second = session.plan({A0: wanted(A, 0), B0: wanted(B, 9)})
    assert (second.session_id, second.epoch) == (77, 1)
    assert sent(second) == ([("b", 0, 9)], [])
    assert session.settle(second, FetchResponse(session_id=77))

    third = session.plan({A1: wanted(A, 3), B0: wanted(B, 9)})
    assert third.epoch == 2
    assert sent(third) == ([("a", 1, 3)], [("a", A, 0)])
    assert set(third.wanted) == {A1, B0}


def test_a_session_that_the_broker_has_forgotten_begins_anew() -> None:
    session = FetchSession(1, "test")
    opened(session, a0=wanted(A, 0))
    plan = session.plan({A0: wanted(A, 1)})
    assert not session.settle(plan, FetchResponse(error_code=FetchSessionIdNotFound.code))
    again = session.plan({A0: wanted(A, 1)})
    assert (again.session_id, again.epoch) == (0, 0)
    assert sent(again) == ([("a", 0, 1)], [])


def test_after_a_failure_the_next_fetch_takes_the_old_sessions_place() -> None:
    session = FetchSession(1, "test")
    opened(session, a0=wanted(A, 0))
    session.plan({A0: wanted(A, 1)})
    session.fail()
    again = session.plan({A0: wanted(A, 1)})
    assert (again.session_id, again.epoch) == (77, 0)
    assert not session.settle(again, FetchResponse(error_code=InvalidFetchSessionEpoch.code))
    assert session.plan({A0: wanted(A, 1)}).epoch == 0


def test_a_broker_without_sessions_is_asked_for_everything_each_time() -> None:
    session = FetchSession(1, "test")
    for offset in range(3):
        plan = session.plan({A0: wanted(A, offset)})
        assert (plan.session_id, plan.epoch) == (0, 0)
        assert session.settle(plan, FetchResponse(session_id=0))
    assert session.close_plan() is None


def test_an_answer_of_another_session_is_not_used() -> None:
    session = FetchSession(1, "test")
    opened(session, a0=wanted(A, 0))
    plan = session.plan({A0: wanted(A, 1)})
    assert not session.settle(plan, FetchResponse(session_id=78))
    assert session.plan({A0: wanted(A, 1)}).epoch == 0


def test_a_topic_that_was_made_anew_is_forgotten_under_its_old_id() -> None:
    session = FetchSession(1, "test")
    opened(session, a0=wanted(A, 9))
    plan = session.plan({A0: wanted(B, 0)})
    assert sent(plan) == ([("a", 0, 0)], [("a", A, 0)])
    assert sent(plan, 12) == ([("a", 0, 0)], [])  # by name it would forget the new one


def test_a_session_speaks_of_topics_by_id_or_by_name_from_beginning_to_end() -> None:
    session = FetchSession(1, "test")
    opened(session, a0=wanted(A, 0))
    plan = session.plan({A0: wanted(A, 0), B0: wanted(ZERO_UUID, 0)})
    assert not plan.has_ids
    assert (plan.session_id, plan.epoch) == (77, 0)
    assert len(sent(plan)[0]) == 2


def test_epochs_begin_again_at_1() -> None:
    session = FetchSession(1, "test")
    opened(session, a0=wanted(A, 0))
    session.epoch = 0x7FFF_FFFF
    plan = session.plan({A0: wanted(A, 1)})
    assert session.settle(plan, FetchResponse(session_id=77))
    assert session.epoch == 1


def test_closing_ends_the_brokers_session() -> None:
    session = FetchSession(1, "test")
    opened(session, a0=wanted(A, 0))
    plan = session.close_plan()
    assert plan is not None
    assert (plan.session_id, plan.epoch) == (77, -1)
    assert sent(plan) == ([], [])
    assert session.close_plan() is None
