"""The share coordinator, driven by lines of text; `ShareStateOracle.java` carries out the same with Kafka's own.

Each command prints an error code, what was answered, and the records that were written, key and value in hexadecimal.
"""

from __future__ import annotations

from random import Random
from typing import Any

from ottla.coordinator.share import ShareCoordinator, SharePartitionKey, StateBatch, StateUpdate
from ottla.errors import KafkaError
from ottla.records import batches
from ottla.replica import PartitionLog
from ottla.types import Uuid
from ottla.world import Promise
from tests.unit.replica.node import NODE_ID, TestNode, topic_id

STATE_TOPIC = "__share_group_state"
TOPIC_ID = topic_id("t")


class SharePlay:
    """A node with one partition of the share coordinator's topic, and a topic of four partitions to share."""

    def __init__(self, updates: str = "500", interval_ms: str = "300000") -> None:
        self.node = TestNode(
            {
                "share.coordinator.snapshot.update.records.per.snapshot": updates,
                "share.coordinator.cold.partition.snapshot.interval.ms": interval_ms,
            }
        )
        self.pruned: list[tuple[int, int]] = []
        self.node.create_topic("t", 4)
        self.node.create_topic(STATE_TOPIC)
        self.coordinator = self.make()
        self.coordinator.runtime.on_elected(0, 0)
        self.read_to = 0

    def make(self) -> ShareCoordinator:
        """One that does no chores, because it is not told through its own door that it leads: the script says when."""
        return ShareCoordinator(
            self.node.world,
            NODE_ID,
            lambda: self.node.config,
            lambda index: PartitionLog.of(self.node.replicas, STATE_TOPIC, index),
            self.node.image,
            prune=lambda index, offset: self.pruned.append((index, offset)),
        )

    def restart(self) -> None:
        """Another coordinator, which knows only what the log has."""
        self.coordinator.close()
        self.coordinator = self.make()
        self.coordinator.runtime.on_elected(0, 7)
        self.node.run_ms(0)

    @property
    def shard(self) -> Any:
        return self.coordinator.runtime.read(0, "look", lambda shard: shard).result()

    def execute(self, line: str) -> list[str]:
        verb, *words = line.split()
        if verb == "advance":
            self.node.run_ms(int(words[0]))
            return []
        if verb == "needed":
            return [str(self.shard.needed_offset or "none")]
        if verb == "cold":
            self.coordinator.runtime.write(0, "cold", lambda shard: shard.snapshot_cold()).result()
            return self.written()
        group, uuid, partition, *rest = words
        key = SharePartitionKey(group, Uuid.parse(uuid), int(partition))
        return self.answered(verb, getattr(self, f"do_{verb}")(key, *rest)) + self.written()

    def answered(self, verb: str, promise: Promise[Any]) -> list[str]:
        try:
            answer = promise.result()
        except KafkaError as error:
            return [f"error {error.code}"]
        if verb == "read":
            found = "".join(f" {one.first_offset}:{one.last_offset}:{one.delivery_state}:{one.delivery_count}"
                            for one in answer.batches)  # fmt: skip
            return ["error 0", f"state {answer.state_epoch} {answer.start_offset}{found}"]
        if verb == "summary":
            return ["error 0", "summary " + " ".join(map(str, answer))]
        return ["error 0"]

    def do_initialize(self, key: SharePartitionKey, state_epoch: str, start_offset: str) -> Promise[None]:
        return self.coordinator.initialize(key, state_epoch=int(state_epoch), start_offset=int(start_offset))

    def do_write(self, key: SharePartitionKey, *words: str) -> Promise[None]:
        state_epoch, leader_epoch, start_offset, complete_count = (int(word) for word in words[:4])
        found = []
        for word in words[4:]:
            first, last, state, count = word.split(":")
            found.append(StateBatch(int(first), int(last), int(count), int(state)))
        update = StateUpdate(state_epoch, leader_epoch, start_offset, complete_count, tuple(found))
        return self.coordinator.write(key, update)

    def do_read(self, key: SharePartitionKey, leader_epoch: str) -> Promise[Any]:
        return self.coordinator.read(key, leader_epoch=int(leader_epoch))

    def do_summary(self, key: SharePartitionKey) -> Promise[Any]:
        return self.coordinator.read_summary(key)

    def do_delete(self, key: SharePartitionKey) -> Promise[None]:
        return self.coordinator.delete(key)

    def written(self) -> list[str]:
        """The records since the last time, sorted: one decision's order may depend on a hash in Kafka."""
        log = PartitionLog.of(self.node.replicas, STATE_TOPIC, 0)
        found = []
        if self.read_to < log.log_end_offset:
            for batch in batches(log.read(self.read_to, bytes_max=1_000_000)):
                for _, _, key, value, _ in batch.rows():
                    assert key is not None
                    found.append(f"{key.hex()} {'null' if value is None else value.hex()}")
            self.read_to = log.log_end_offset
        return sorted(found)


def random_script(seed: int, length: int) -> list[str]:
    """Commands about few share partitions, so that they meet each other's state."""
    random = Random(seed)
    lines = [f"initialize {group} {TOPIC_ID} {partition} 0 -1" for group in "ab" for partition in (0, 1)]
    for _ in range(length):
        group, partition = random.choice("ab"), random.choice([0, 0, 1, 3, 4, -1] if random.random() < 0.1 else [0, 1])
        head = f"{group} {TOPIC_ID} {partition}"
        match random.choice(
            ["initialize", "initialize", *["write"] * 16, "read", "read", "summary", "delete", "cold", "advance"]
        ):
            case "initialize":
                lines.append(f"initialize {head} {random.randint(-1, 4)} {random.choice([-1, 0, 5, 20])}")
            case "write":
                parts = []
                for _ in range(random.randint(0, 4)):
                    first = random.randint(0, 40)
                    last = first + random.randint(0, 12)
                    parts.append(f" {first}:{last}:{random.choice([0, 2, 4])}:{random.randint(1, 3)}")
                epochs = f"{random.choice([-1, 0, 3, 4, 4])} {random.choice([-1, 0, 2, 3, 3])}"
                start_offset = random.choice([-1, -1, 0, 3, 10, 25])
                lines.append(f"write {head} {epochs} {start_offset} {random.randint(-1, 9)}{''.join(parts)}")
            case "read":
                lines.append(f"read {head} {random.choice([-1, 0, 1, 2, 3])}")
            case "cold":
                lines.append("cold")
            case "advance":
                lines.append(f"advance {random.choice([1, 500, 2000])}")
            case verb:
                lines.append(f"{verb} {head}")
    return lines
