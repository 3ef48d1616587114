"""A partition's leadership, by transcript: what happens to a partition that node 1 leads, and what it does about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.config import LogConfig
from ottla.errors import KafkaError, error_class
from ottla.metadata import BrokerImage, PartitionImage
from ottla.replica.follower import NEVER_MS, FetchTime
from ottla.replica.leadership import (
    AdvanceHighWatermark,
    AlterPartition,
    BeginEpoch,
    Effect,
    IsrAnswer,
    IsrChange,
    IsrShrinking,
    IsrUpdated,
    IsrUpdateFailed,
    Leadership,
    MoveLowWatermark,
)
from ottla.types import ZERO_UUID
from tests.support.transcript import check, transcripts

ERRORS = {error_class(code).name: error_class(code) for code in range(-1, 130) if code}


class Bounds:
    """A log that is nothing but its bounds."""

    def __init__(self) -> None:
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = 0
        self.config = LogConfig()


class Play:
    """Node 1's side of one partition, with the brokers that the metadata knows."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.brokers: dict[int, BrokerImage] = {}
        self.log = Bounds()
        self.leadership = Leadership(1, self.brokers.get, lag_max_ms=10_000)
        self.sent: list[IsrChange] = []
        self.sessions: dict[int, FetchTime] = {}

    def execute(self, command: str) -> list[str]:
        name, *words = command.split()
        given = dict(word.split("=") for word in words if "=" in word)
        plain = [word for word in words if "=" not in word]
        try:
            shown = getattr(self, f"do_{name}")(*plain, **given)
        except KafkaError as error:
            return [f"{error.name}: {error}"]
        return [*shown, self.state()]

    def state(self) -> str:
        it = self.leadership
        if not it.is_leader:
            return f"-- follows {it.leader_id} in epoch {it.leader_epoch}"
        pending = "" if it.pending is None else f" pending={ids(it.pending.isr)} maximal={ids(it.maximal_isr)}"
        ends = ",".join(f"{id}@{one.log_end_offset}" for id, one in it.followers.items())
        return (
            f"-- isr={ids(it.isr)}{pending} partition_epoch={it.partition_epoch} end={self.log.log_end_offset} "
            f"high_watermark={self.log.high_watermark} followers={ends}"
        )

    def show(self, effects: Sequence[Effect]) -> list[str]:
        lines = []
        for effect in effects:
            match effect:
                case BeginEpoch(epoch):
                    lines.append(f"begin epoch {epoch}")
                case AdvanceHighWatermark(offset):
                    assert self.log.high_watermark < offset <= self.log.log_end_offset
                    self.log.high_watermark = offset
                    lines.append(f"high watermark {offset}")
                case AlterPartition(change):
                    self.sent.append(change)
                    members = ",".join(f"{replica}({epoch})" for replica, epoch in change.members)
                    lines.append(
                        f"ask for isr {members} leader_epoch={change.leader_epoch} "
                        f"partition_epoch={change.partition_epoch}"
                    )
                case MoveLowWatermark():
                    lines.append(f"low watermark {self.leadership.low_watermark}")
                case IsrShrinking(isr, out_of_sync):
                    for replica, end, caught_up_ms in out_of_sync:
                        when = "never" if caught_up_ms == NEVER_MS else f"at {caught_up_ms}"
                        lines.append(f"out of sync: {replica} of {ids(isr)}, at offset {end}, caught up {when}")
                case IsrUpdated(isr, epoch, is_expansion):
                    lines.append(f"isr {'grew' if is_expansion else 'shrank'} to {ids(isr)} partition_epoch={epoch}")
                case IsrUpdateFailed(_, error, is_over):
                    why = "it is of another time" if error is None else error.name
                    lines.append(f"isr change failed: {why}; {'given up' if is_over else 'still pending'}")
        return lines

    # Commands

    def do_open(self, min: str = "1", lag: str = "10000", end: str = "0", hw: str = "0") -> list[str]:
        """A partition that was never led, with a log of these bounds, and brokers 1, 2, 3 of epochs 11, 12, 13."""
        self.__init__()  # type: ignore[misc]
        self.log.config = LogConfig().with_topic({"min.insync.replicas": min})
        self.log.log_end_offset, self.log.high_watermark = int(end), int(hw)
        self.leadership = Leadership(1, self.brokers.get, lag_max_ms=int(lag))
        self.brokers.update({id: BrokerImage(id, 10 + id, ZERO_UUID, is_fenced=False) for id in (1, 2, 3)})
        return []

    def do_metadata(
        self, leader: str, isr: str, epoch: str, partition_epoch: str, replicas: str = "1,2,3"
    ) -> list[str]:
        members = numbers(replicas)
        image = PartitionImage(
            members, (ZERO_UUID,) * len(members), numbers(isr), int(leader), int(epoch), int(partition_epoch)
        )
        if image.leader != 1:
            is_new = self.leadership.follow(image)
            return ["older than what is known"] if is_new is None else [f"new epoch: {is_new}"]
        effects = self.leadership.lead(image, self.log, self.now_ms)
        return ["older than what is known"] if effects is None else self.show(effects)

    def do_broker(self, id: str, epoch: str = "", fenced: str = "", leaving: str = "") -> list[str]:
        """What the metadata says of a broker: a new epoch, that it is fenced, that it is shutting down."""
        one = self.brokers[int(id)]
        self.brokers[int(id)] = replace(
            one,
            epoch=int(epoch or one.epoch),
            is_fenced=fenced == "yes" if fenced else one.is_fenced,
            is_shutting_down=leaving == "yes" if leaving else one.is_shutting_down,
        )
        return []

    def do_append(self, count: str = "1") -> list[str]:
        self.log.log_end_offset += int(count)
        for replica, session in self.sessions.items():
            self.leadership.wake(replica, session)
        return self.show(self.leadership.on_append(self.now_ms))

    def do_delete(self, offset: str) -> list[str]:
        self.log.log_start_offset = int(offset)
        return [f"low watermark {self.leadership.low_watermark}"]

    def do_fetch(self, replica: str, at: str, epoch: str = "", start: str = "0", end: str = "") -> list[str]:
        """A follower's fetch; `end` is where the log ended when it was read, before later appends."""
        return self.show(
            self.leadership.on_fetch(
                int(replica),
                broker_epoch=int(epoch or 10 + int(replica)),
                fetch_offset=int(at),
                log_start_offset=int(start),
                leader_end_offset=int(end or self.log.log_end_offset),
                now_ms=self.now_ms,
            )
        )

    def do_rest(self, replica: str) -> list[str]:
        """The follower's session takes over: it is settled, and fetches on without being recorded."""
        assert self.leadership.is_settled(int(replica))
        self.sessions[int(replica)] = FetchTime(self.now_ms)
        self.leadership.rest(int(replica), self.sessions[int(replica)])
        return []

    def do_idle(self, replica: str) -> list[str]:
        """A fetch of a resting follower's session: nothing of the partition is looked at."""
        self.sessions[int(replica)].fetched_ms = self.now_ms
        return []

    def do_pass(self, ms: str) -> list[str]:
        """Let time pass, and look for followers that lag."""
        self.now_ms += int(ms)
        return self.show(self.leadership.on_time(self.now_ms))

    def do_sleep(self, ms: str) -> list[str]:
        self.now_ms += int(ms)
        return []

    def do_answer(self, isr: str, partition_epoch: str, epoch: str = "", to: str = "-1") -> list[str]:
        """The controller's answer to the last request, or to the one of that index."""
        answer = IsrAnswer(int(epoch or self.leadership.leader_epoch), numbers(isr), int(partition_epoch))
        return self.show(self.leadership.on_answer(self.sent[int(to)], answer, self.now_ms))

    def do_refuse(self, error: str, to: str = "-1") -> list[str]:
        return self.show(self.leadership.on_refusal(self.sent[int(to)], ERRORS[error]))

    def do_acks(self, offset: str) -> list[str]:
        """What a producer with acks=all is told whose batch ends at that offset."""
        code = self.leadership.replication_outcome(int(offset))
        return ["waits" if code is None else error_class(code).name if code else "acknowledged"]


def ids(replicas: Sequence[int]) -> str:
    return ",".join(map(str, replicas)) or "nobody"


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(one) for one in text.split(",") if one)


@pytest.mark.parametrize("path", transcripts("leadership"), ids=lambda path: path.stem)
def test_transcript(path: Path, rewrite: bool) -> None:
    check(path, Play().execute, rewrite=rewrite)
