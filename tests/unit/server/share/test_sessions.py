"""`ottla/server/share/sessions.py`: turns, what is told again, and members whose connection is gone."""

from __future__ import annotations

import pytest

from ottla.errors import InvalidShareSessionEpoch, ShareSessionLimitReached, ShareSessionNotFound
from ottla.server.context import Connection
from ottla.server.share import ShareContext, ShareSessions
from ottla.types import Uuid
from ottla.world import Address
from tests.unit.replica.node import TestNode

A, B = (Uuid(bytes(16)), 0), (Uuid(bytes(16)), 1)


class Play:
    """Sessions, and what they tell of members that have gone."""

    def __init__(self, slots_max: int = 10) -> None:
        self.left: list[tuple[str, str, int]] = []
        self.gone: list[str] = []
        self.dispatcher = TestNode().dispatcher
        self.sessions = ShareSessions(
            lambda: slots_max,
            lambda group, member, some: self.left.append((group, member, len(some))),
            self.gone.append,
        )

    def connect(self) -> Connection:
        return Connection(self.dispatcher, "PLAINTEXT", Address("127.0.0.1", 4711))

    def open(
        self, member: str, epoch: int, wanted: tuple[tuple[Uuid, int], ...] = (), connection: Connection | None = None
    ) -> ShareContext:
        return self.sessions.open(
            ("g", member), epoch, wanted, (), connection or self.connect(), has_acknowledgements=False
        )


def test_a_partition_is_told_of_when_it_is_new_has_records_or_has_or_had_an_error() -> None:
    play = Play()
    play.open("m", 0, (A,))
    turn = play.open("m", 1, (B,))
    assert turn.wanted == [A, B]
    assert not turn.note(A, has_records=False, has_error=False)
    assert turn.note(B, has_records=False, has_error=False)
    assert not turn.note(B, has_records=False, has_error=False)
    assert turn.note(A, has_records=False, has_error=True)
    assert turn.note(A, has_records=False, has_error=False)
    assert turn.note(A, has_records=True, has_error=False)


def test_partitions_that_had_records_move_behind_the_others() -> None:
    play = Play()
    play.open("m", 0, (A, B))
    play.open("m", 1).note(A, has_records=True, has_error=False)
    assert play.open("m", 2).wanted == [B, A]


def test_a_request_that_another_has_overtaken_is_out_of_turn() -> None:
    play = Play()
    play.open("m", 0, (A,))
    turn = play.open("m", 1)
    turn.check_turn()
    play.open("m", 2)
    with pytest.raises(InvalidShareSessionEpoch):
        turn.check_turn()


def test_there_are_no_more_sessions_than_allowed_and_a_member_that_begins_anew_takes_its_own_place() -> None:
    play = Play(slots_max=1)
    play.open("m", 0, (A,))
    play.open("m", 0, (B,))
    with pytest.raises(ShareSessionLimitReached):
        play.open("n", 0, (A,))
    assert len(play.sessions) == 1


def test_a_member_whose_connection_is_gone_gives_back_what_it_has_and_the_last_one_ends_the_group() -> None:
    play = Play()
    first, second = play.connect(), play.connect()
    play.open("m", 0, (A, B), first)
    play.open("n", 0, (A,), second)
    first.close()
    assert play.left == [("g", "m", 2)]
    assert play.gone == []
    second.close()
    assert play.left == [("g", "m", 2), ("g", "n", 1)]
    assert play.gone == ["g"]
    with pytest.raises(ShareSessionNotFound):
        play.open("m", 1)


def test_an_old_connection_does_not_end_the_session_that_its_member_has_begun_on_a_new_one() -> None:
    play = Play()
    old, new = play.connect(), play.connect()
    play.open("m", 0, (A,), old)
    play.open("m", 0, (A,), new)
    old.close()
    assert play.left == []
    assert play.open("m", 1).wanted == [A]


def test_sessions_that_are_begun_again_and_again_on_one_connection_leave_nothing_behind() -> None:
    play = Play()
    connection = play.connect()
    for _ in range(50):
        play.open("m", 0, (A,), connection)
    connection.close()
    assert play.left == [("g", "m", 1)]
    assert len(play.sessions) == 0
