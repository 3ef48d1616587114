"""Replicas are equal: the same batches, byte for byte, at the same offsets.

Read from the disks, with the eyes of nobody's code but the reader of batches, so at any time and of dead nodes too.
Below the high watermarks of two replicas they are always equal; after everything has come to rest, all of them are.

Not for topics that are compacted: every replica cleans its own log when it comes to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import NamedTuple

from ottla.errors import CorruptMessage, InvalidRecord
from ottla.records import batches
from ottla.sim.disk import VirtualDisk
from ottla.sim.history import Violation
from ottla.storage import HIGH_WATERMARK_CHECKPOINT, LOG_START_CHECKPOINT


class StoredBatch(NamedTuple):
    """A batch as it stands in a segment."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    data: bytes


@dataclass(slots=True)
class ReplicaLog:
    """One replica of one partition, as it is on a disk."""

    node: str
    partition: str
    """The name of its directory, and the id of its topic where it has one: a topic made anew is another one."""
    batches: list[StoredBatch] = field(default_factory=list)
    high_watermark: int = 0
    """As in the checkpoint: it may have been higher."""
    log_start_offset: int = 0

    @property
    def end_offset(self) -> int:
        return self.batches[-1].next_offset if self.batches else self.log_start_offset

    def forget_lost(self) -> None:
        """Its node has lost power, and bytes that were not synced are gone: the checkpoint, which was synced, may speak
        of more than there is. What counts is below the first gap, which is where recovery ends."""
        end = self.log_start_offset
        for batch in self.batches:
            if batch.base_offset > end:
                break
            end = batch.next_offset
        self.high_watermark = min(self.high_watermark, end)

    def __str__(self) -> str:
        return f"{self.partition} of {self.node}"


def read_replicas(node: str, disk: VirtualDisk, directories: Iterable[str]) -> list[ReplicaLog]:
    """Every replica on a node's disk, as far as its batches are whole."""
    found = []
    for directory in directories:
        marks = _offsets(disk, f"{directory}/{HIGH_WATERMARK_CHECKPOINT}")
        starts = _offsets(disk, f"{directory}/{LOG_START_CHECKPOINT}")
        segments: dict[str, list[str]] = {}
        for path in disk.peek_files(directory):
            name, _, file = path.removeprefix(f"{directory}/").rpartition("/")
            if file.endswith(".log") and "/" not in name and not name.endswith(("-delete", "-future", "-stray")):
                segments.setdefault(name, []).append(path)
        for name, paths in segments.items():
            replica = ReplicaLog(node, name + _topic_id(disk, f"{directory}/{name}/partition.metadata"))
            for path in sorted(paths):
                replica.batches += _whole_batches(disk.peek(path))
            first = replica.batches[0].base_offset if replica.batches else int(paths[0].rpartition("/")[2][:20])
            replica.log_start_offset = max(starts.get(name, 0), first)
            replica.high_watermark = marks.get(name, 0)
            found.append(replica)
    return found


def check_sound(replica: ReplicaLog) -> None:
    """Whether a log is one by itself: no gap between its batches, and epochs that only grow."""
    for one, other in pairwise(replica.batches):
        if other.base_offset != one.next_offset:
            raise Violation(f"{replica} has offset {other.base_offset} where {one.next_offset} is next")
        if other.leader_epoch < one.leader_epoch:
            raise Violation(
                f"{replica} has epoch {other.leader_epoch} at offset {other.base_offset}, after {one.leader_epoch}"
            )


def check_equal(replicas: Sequence[ReplicaLog]) -> int:
    """Whether replicas of one partition are equal below their high watermarks, whatever is above; how many batches were
    compared."""
    return sum(
        _compare(one, other, min(one.high_watermark, other.high_watermark)) for one, other in combinations(replicas, 2)
    )


def check_identical(replicas: Sequence[ReplicaLog]) -> None:
    """Whether replicas of one partition that have come to rest are the same to their ends."""
    for one, other in combinations(replicas, 2):
        if one.end_offset != other.end_offset:
            raise Violation(f"{one} ends at {one.end_offset}, and {other} at {other.end_offset}")
        _compare(one, other, one.end_offset)


def check_prefix(replicas: Sequence[ReplicaLog]) -> None:
    """Whether of any two logs the shorter one is the beginning of the other: so with voters at rest."""
    for one, other in combinations(replicas, 2):
        _compare(one, other, min(one.end_offset, other.end_offset))


def _compare(one: ReplicaLog, other: ReplicaLog, end: int) -> int:
    start = max(one.log_start_offset, other.log_start_offset)
    if end <= start:  # nothing lies between them, and a batch that crosses the log start may be gone with the rest
        return 0
    theirs = {batch.base_offset: batch for batch in _between(other, start, end)}
    count = len(theirs)
    for batch in _between(one, start, end):
        twin = theirs.pop(batch.base_offset, None)
        if twin is None:
            raise Violation(f"{one} has a batch at {batch.base_offset}, below {end}, and {other} has none")
        if twin.data != batch.data:
            raise Violation(f"{one} and {other} differ at {batch.base_offset}, below {end}: {batch[:3]}, {twin[:3]}")
    for offset in theirs:
        raise Violation(f"{other} has a batch at {offset}, below {end}, and {one} has none")
    return count


def _between(replica: ReplicaLog, start: int, end: int) -> list[StoredBatch]:
    return [batch for batch in replica.batches if batch.next_offset > start and batch.base_offset < end]


def _whole_batches(data: bytes) -> list[StoredBatch]:
    """The batches of a segment up to the first that is torn: what a power loss left is not yet recovered."""
    found: list[StoredBatch] = []
    try:
        for batch in batches(memoryview(data)):
            if not batch.check_crc():
                break
            found.append(StoredBatch(batch.base_offset, batch.next_offset, batch.leader_epoch, bytes(batch.data)))
    except (CorruptMessage, InvalidRecord):
        pass  # the torn one
    return found


def _offsets(disk: VirtualDisk, path: str) -> dict[str, int]:
    """A checkpoint: offsets by the name of the partition's directory."""
    if path not in disk.peek_files(path.rpartition("/")[0]):
        return {}
    fields = (line.split() for line in disk.peek(path).decode().splitlines()[2:])
    return {f"{topic}-{index}": int(offset) for topic, index, offset in fields}


def _topic_id(disk: VirtualDisk, path: str) -> str:
    if path not in disk.peek_files(path.rpartition("/")[0]):
        return ""
    return " " + disk.peek(path).decode().rpartition("topic_id: ")[2].strip()
