"""Random histories of producers, from a seed: mostly what good ones do, with the mistakes that rules are made for."""

from __future__ import annotations

import random

from ottla.storage.producer_snapshot import java_bucket
from tests.support.producer_log import ProducerLog

SEQUENCE_COUNT = 2**31


class ScriptWriter:
    """Writes commands for `log` and carries them out as it goes, so that they refer to what is there."""

    def __init__(self, log: ProducerLog, seed: int) -> None:
        self.log = log
        self.random = random.Random(seed)
        self.commands: list[str] = []
        self.answers: list[list[str]] = []
        # What each producer believes to be its epoch and next sequence, and whether it is in a transaction.
        self.ids = self._draw_ids(self.random.choice((3, 4, 10)))
        self.producers = {pid: [0, self.random.choice((0, 0, SEQUENCE_COUNT - 6)), False] for pid in self.ids}
        self.guards = 0

    def write(self, length: int) -> None:
        steps = (self.append, self.marker, self.verify, self.move_offsets, self.pass_time, self.snapshot, self.switch)
        weights = (60, 14, 4, 8, 4, 8, 2)
        for _ in range(length):
            self.random.choices(steps, weights)[0]()
        self.do("show")
        self.do("aborted")
        self.do("snapshots")

    def do(self, command: str) -> list[str]:
        answer = self.log.execute(command)
        self.commands.append(command)
        self.answers.append(answer)
        return answer

    def _draw_ids(self, count: int) -> list[int]:
        """Producers that a small Java map keeps apart: their order in a snapshot depends on nothing else then."""
        ids = {java_bucket(producer_id, 16): producer_id for producer_id in (1, 2)}
        while len(ids) < count:
            producer_id = self.random.randrange(2**62)
            ids.setdefault(java_bucket(producer_id, 16), producer_id)
        return list(ids.values())

    def pick(self) -> int:
        """A producer: a few of them do most of the work."""
        return self.random.choice(self.ids[: self.random.choice((2, 3, 3, len(self.ids)))])

    def append(self) -> None:
        pid = self.pick()
        epoch, sequence, is_open = self.producers[pid]
        count = self.random.randint(1, 4)
        mistake = self.random.random()
        if mistake < 0.10:
            sequence -= count  # sent before, if it was as long
        elif mistake < 0.15:
            sequence += self.random.choice((-9, -3, 1, 5))
        elif mistake < 0.19:
            epoch, sequence = epoch + 1, 0
        elif mistake < 0.21:
            epoch += 1
        elif mistake < 0.24:
            epoch = max(0, epoch - 1)
        if self.random.random() < 0.15:
            is_open = not is_open
        sequence %= SEQUENCE_COUNT
        last = (sequence + count - 1) % SEQUENCE_COUNT
        origin = self.random.choices(("client", "replica", "coordinator"), (88, 8, 4))[0]
        if origin == "replica":
            epoch = self._as_a_leader_has_it(pid, epoch)
        command = f"append {origin} pid={pid} epoch={epoch} seq={sequence}..{last}"
        if is_open:
            command += " txn"
            if self.guards and self.random.random() < 0.7:
                command += f" guard=g{self.random.randint(max(1, self.guards - 1), self.guards)}"
        if self.do(command)[0].startswith("offsets"):
            self.producers[pid] = [epoch, (last + 1) % SEQUENCE_COUNT, is_open]

    def _as_a_leader_has_it(self, pid: int, epoch: int) -> int:
        """A leader's log has no epoch that goes back. For one that does, Kafka's own ways to rebuild the state differ:
        recovery forgets the batches of the epoch in between, truncation does not notice it."""
        entry = self.log.producers.producers.get(pid)
        return epoch if entry is None else max(epoch, entry.producer_epoch)

    def marker(self) -> None:
        pid = self.pick()
        epoch, sequence, _ = self.producers[pid]
        marked = max(0, epoch + self.random.choice((0, 0, 0, 1, 1, -1)))
        origin = self.random.choices(("coordinator", "replica"), (85, 15))[0]
        kind = self.random.choice(("commit", "abort"))
        if origin == "replica":
            marked = self._as_a_leader_has_it(pid, marked)
        version = "" if origin == "replica" else f" version={self.random.choice((0, 1, 2, 2))}"
        coordinator = self.random.choice((3, 3, 3, 4, 2))
        answer = self.do(f"marker {origin} {kind} pid={pid} epoch={marked} coordinator={coordinator}{version}")
        if answer[0].startswith("offsets"):
            self.producers[pid] = [marked, sequence if marked == epoch else 0, False]

    def verify(self) -> None:
        pid = self.pick()
        epoch, sequence, _ = self.producers[pid]
        self.guards += 1
        flag = self.random.choice((" v2", ""))
        epoch = max(0, epoch + self.random.choice((0, 0, 0, 1, -1)))
        if self.do(f"verify g{self.guards} pid={pid} epoch={epoch} seq={sequence}{flag}")[0].startswith("INVALID"):
            self.guards -= 1

    def move_offsets(self) -> None:
        log = self.log
        match self.random.randrange(10):
            case 0:
                self.do(f"log-start {self.random.randint(log.log_start_offset, log.high_watermark)}")
            case 1 | 2 if log.batches:
                self.do(f"truncate {self.random.choice(log.batches).base_offset}")
            case 3 if self.random.random() < 0.2:
                self.do(f"reset {log.log_end_offset + self.random.randint(0, 50)}")
            case _:
                self.do(f"high-watermark {self.random.randint(log.high_watermark, log.log_end_offset)}")

    def pass_time(self) -> None:
        self.do(f"time {self.log.now_ms + self.random.choice((1_000, 60_000, 1_300_000, 50_000_000))}")
        self.do(self.random.choice(("expire", "late")))

    def snapshot(self) -> None:
        offsets = self.log.producers.snapshots.offsets
        match self.random.randrange(4):
            case 0 if offsets:
                self.do(f"damage {self.random.choice(offsets)}")
            case 1 if self.log.log_end_offset > self.log.base_offset:
                self.do("restart")  # without a record Kafka would miss the index files it has not made yet
            case _:
                self.do("snapshot")
                if offsets := self.log.producers.snapshots.offsets:
                    self.do(f"bytes {offsets[-1]}")
        self.do("show")

    def switch(self) -> None:
        self.do(f"verification {self.random.choice(('on', 'off'))}")
