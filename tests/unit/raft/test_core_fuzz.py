"""Whatever others send, in whatever order, the core answers or ignores it, and keeps its promises."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ottla.raft import ReplicaKey, SnapshotId
from ottla.raft import messages as made
from ottla.raft.events import (
    Appended,
    Event,
    Flushed,
    LogChange,
    Received,
    RequestFailed,
    Resign,
    Responded,
    Send,
    ShutDown,
    Started,
    Tick,
    WriteElection,
    Written,
)
from ottla.raft.quorum_state import Election
from ottla.types import METADATA_TOPIC_ID, ZERO_UUID
from ottla.wire import Message
from ottla.wire.messages.fetch import EpochEndOffset
from ottla.wire.messages.fetch import SnapshotId as FetchedId
from ottla.wire.messages.fetch_snapshot import SnapshotId as AskedId
from tests.unit.raft.play import CLUSTER, DIRECTORIES, LISTENER, Play

OPENINGS = (
    "voters=1,2,3",
    "voters=1,2,3 epoch=3 leader=2 log=5@1,9@3",
    "voters=1,2,3 epoch=4 voted=1 log=5@1,9@3 flushed=4",
    "voters=1,2,3 epoch=4 leader=1 snapshots=3@1 log=5@1,9@3",
    "voters=2,3 epoch=3 leader=2 log=5@1,9@3 broker",
    "voters= bootstrap broker",
    "voters=1:A,2:B,3:B kraft=1 listed=log epoch=3 voted=2:B log=5@1,9@3",
    "voters=1",
)


class Fuzz:
    """Random events for a core, most of them nearly right."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.play = Play()
        self.play.execute(f"open {self.chance.choice(OPENINGS)}")
        self.core, self.log = self.play.core, self.play.log
        self.sent: list[Send] = []
        self.written: Election | None = self.core._written
        self.high_watermark = -1
        self.answered: set[int] = set()
        self.asked = 0
        self.is_over = False

    def run(self, count: int) -> None:
        self.step(Started())
        for _ in range(count):
            if self.is_over:
                return
            self.play.now_ms += self.chance.choice((0, 0, 1, 20, 200, 1000, 3000))
            self.step(self.event())

    def step(self, event: Event) -> None:
        ready = self.core.step(event, self.play.now_ms)
        for effect in ready.persist:
            if isinstance(effect, WriteElection):
                assert self.written is None or effect.election.is_at_or_after(self.written)
                self.written = effect.election
            self.play.persist(effect)
        assert self.written is None or self.written.epoch <= self.core.epoch, "an epoch is written before it is used"
        self.sent = [*self.sent[-5:], *ready.requests]
        for answer in ready.answers:
            assert isinstance(answer.token, int)
            assert answer.token not in self.answered, "a request is answered once"
            self.answered.add(answer.token)
        if ready.high_watermark is not None:
            assert ready.high_watermark > self.high_watermark
            assert ready.high_watermark <= self.log.end_offset
            self.high_watermark = ready.high_watermark
        assert ready.deadline_ms > self.play.now_ms or ready.fault, "nothing that is due is left undone"
        self.is_over = ready.fault is not None
        if any(isinstance(effect, LogChange) for effect in ready.persist):
            self.step(Written(self.chance.random() < 0.9))

    def event(self) -> Event:
        chance = self.chance
        kind = chance.randrange(20)
        if kind < 4:
            return Tick()
        if kind < 10:
            self.asked += 1
            return Received(self.asked, self.request(), chance.choice((0, 1, 2, 12, 15, 17, 18)), LISTENER)
        if kind < 17 and self.sent:
            send = chance.choice(self.sent)
            if chance.random() < 0.15:
                return RequestFailed(send.request_id, chance.random() < 0.2)
            return Responded(send.request_id, self.response(send.request))
        if kind == 17 and self.core.is_leader:
            self.log.append(self.log.end_offset + chance.randrange(1, 4), self.core.epoch)
            return Appended()
        if kind == 18:
            self.log.flushed_offset = self.log.end_offset
            return Flushed(self.log.end_offset)
        return Resign() if chance.random() < 0.95 else ShutDown()

    def number(self) -> int:
        """About where the log and the epochs are, or anywhere."""
        end, epoch = self.log.end_offset, self.core.epoch
        return self.chance.choice((epoch, epoch, epoch + 1, epoch - 1, end, end, end + 1, end - 1, 0, -1, 3, 1 << 40))

    def epoch(self) -> int:
        epoch = self.core.epoch
        return self.chance.choice((epoch, epoch, epoch, epoch + 1, epoch - 1, 0, -1, 1 << 30))

    def key(self) -> ReplicaKey:
        return ReplicaKey(self.chance.choice((1, 2, 2, 3, 3, 4, -1)), self.chance.choice(list(DIRECTORIES.values())))

    def request(self) -> Message:
        chance = self.chance
        cluster = chance.choice((CLUSTER, CLUSTER, CLUSTER, "other"))
        epoch, key = self.epoch(), self.key()
        request: Any
        match chance.randrange(5):
            case 0:
                request = made.vote_request(
                    cluster, epoch, key, self.key(), last_epoch=self.epoch(), end_offset=self.number(),
                    is_pre_vote=chance.random() < 0.5,
                )  # fmt: skip
            case 1:
                listeners = chance.choice(({}, self.play.listeners("2"), {"OTHER": self.play.listeners("2")[LISTENER]}))
                request = made.begin_quorum_epoch_request(cluster, epoch, key.id, listeners, self.key())
            case 2:
                successors = [self.key() for _ in range(chance.randrange(3))]
                request = made.end_quorum_epoch_request(cluster, epoch, key.id, successors)
            case 3:
                request = made.fetch_request(
                    cluster, epoch, key, offset=self.number(), last_epoch=self.epoch(), high_watermark=self.number(),
                    bytes_max=self.number(),
                )  # fmt: skip
                request.max_wait_ms = chance.choice((500, 500, 0, -1))
            case _:
                id = SnapshotId(self.number(), self.epoch())
                request = made.fetch_snapshot_request(
                    cluster, epoch, key, id, position=self.number(), bytes_max=self.number()
                )
        if chance.random() < 0.1:
            request.topics = chance.choice(([], request.topics * 2))
        elif chance.random() < 0.1:
            request.topics[0].partitions = chance.choice(([], request.topics[0].partitions * 2))
        return request  # type: ignore[no-any-return]

    def response(self, request: Message) -> Message:
        chance = self.chance
        if chance.random() < 0.1:
            return made.error_response(request, chance.choice((8, 35, 42, 104, -1, 999)))
        code = chance.choice((0, 0, 0, 0, 0, 6, 8, 42, 74, 76, 98, 125, 999))
        leader = (
            chance.choice((-1, -1, 1, 2, 2, 3, 9)),
            self.epoch(),
            chance.choice((None, self.play.listeners("2")[LISTENER])),
        )
        answer: Any
        match type(request).__name__:
            case "VoteRequest":
                answer = made.vote_response(leader, code, version=2, is_granted=chance.random() < 0.6)
            case "BeginQuorumEpochRequest":
                answer = made.begin_quorum_epoch_response(leader, code, version=1)
            case "EndQuorumEpochRequest":
                answer = made.end_quorum_epoch_response(leader, code, version=1)
            case "FetchRequest":
                answer, partition = made.fetch_response(
                    leader, code, version=18, high_watermark=self.number(), log_start_offset=self.number()
                )
                match chance.randrange(6):
                    case 0:
                        partition.diverging_epoch = EpochEndOffset(self.epoch(), self.number())
                    case 1:
                        partition.snapshot_id = FetchedId(self.number(), self.epoch())
                    case 2 | 3:
                        end = self.log.end_offset
                        partition.records = f"{end}..{end + 2}@{max(self.core.epoch, self.log.last_epoch)}".encode()
                    case 4 if chance.random() < 0.2:
                        answer.responses[0].topic_id = chance.choice((ZERO_UUID, METADATA_TOPIC_ID))
            case _:
                asked: Any = made.only_partition(request)
                answer, part = made.fetch_snapshot_response(leader, code, version=1)
                same = AskedId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
                part.snapshot_id = chance.choice((same, same, same, AskedId(self.number(), self.epoch())))
                part.position = chance.choice((asked.position, asked.position, self.number()))
                part.unaligned_records = bytes(chance.choice((0, 10, 50)))
                part.size = chance.choice((100, 20, self.number()))
                if chance.random() < 0.2:
                    part.current_leader = None
        return answer  # type: ignore[no-any-return]


@pytest.mark.parametrize("part", range(4))
def test_nothing_that_others_send_breaks_the_core(part: int) -> None:
    for seed in range(part * 250, (part + 1) * 250):
        try:
            Fuzz(seed).run(80)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
