"""What an earlier attempt of a task has left in the open transaction, and how a later one goes on from there.

The earlier attempt's records cannot be taken back one by one, so the later one keeps them: it reads them, takes as many
of its own rows out as are there already, and writes the rest under the next sequence numbers. The rows of two attempts
are the same but may come in another order, after a shuffle for example, and so they are taken out as a multiset.

Promises: after `finish`, everything that was found is among the rows of this attempt. An earlier attempt that still
writes is waited for until it pauses; should it wake up later, its sequence numbers are taken and it fails.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ottla.client.network import Deadline
from ottla.errors import UnsupportedVersion
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.sink.link import Link
from ottla.pipelines.sink.reading import Line, keeps_timestamps, lines, own_batches
from ottla.pipelines.sink.transaction import Transaction
from ottla.types import TopicPartition

log = logging.getLogger(__name__)

QUIET_MS = 1000
"""An attempt that has written nothing for this long has failed, or is so slow that another may take its place."""
WAIT_MS_MAX = 60_000


@dataclass(slots=True)
class Earlier:
    """The records of one partition that were found."""

    partition: TopicPartition
    next_sequence: int
    left: Counter[Line]
    """Those that no row of this attempt has been matched with yet."""
    has_timestamps: bool = False
    """Whether rows say times, and the topic has kept them."""

    def has(self, line: Line) -> bool:
        """Whether this row is written already; every record that was found stands for one row."""
        if not self.has_timestamps:
            line = _without_time(line)
        if self.left[line] <= 0:
            return False
        self.left[line] -= 1
        return True

    def finish(self) -> None:
        """All rows have been seen: raises when a record is there that none of them is."""
        left = self.left.total()
        if left:
            raise PipelineError(
                f"{self.partition}: an earlier attempt of this task wrote {left} record(s) that are not among its rows "
                "now, so that this micro-batch cannot be completed and is aborted. Rows must be the same each time a "
                "task runs: look for random values or the present time in the query"
            )


@dataclass(frozen=True, slots=True)
class _Found:
    last_sequence: int
    start_offset: int


async def find_earlier(
    link: Link, transaction: Transaction, partitions: Iterable[TopicPartition], *, has_timestamps: bool = False
) -> dict[TopicPartition, Earlier]:
    """What is there of the transaction in these partitions, once nobody writes there any more."""
    wanted = list(partitions)
    found = await _settled(link, transaction, wanted)
    earlier = {}
    for partition, one in found.items():
        left: Counter[Line] = Counter()
        expected = 0
        is_timed = has_timestamps
        read = own_batches(link, transaction, partition, offset=one.start_offset, last_sequence=one.last_sequence)
        async for batch in read:
            assert batch.base_sequence == expected, f"{partition}: sequences {expected}, then {batch.base_sequence}"
            left.update(lines(batch, has_timestamps=has_timestamps))
            is_timed = is_timed and keeps_timestamps(batch)
            expected = batch.last_sequence + 1
        if not is_timed:
            left = Counter(map(_without_time, left.elements()))
        earlier[partition] = Earlier(partition, expected, left, is_timed)
        log.info("[Sink %s] Going on in %s after %d record(s) of an earlier attempt", transaction.transactional_id,
                 partition, expected)  # fmt: skip
    return earlier


def _without_time(line: Line) -> Line:
    return (*line[:-1], None)


async def _settled(
    link: Link, transaction: Transaction, partitions: list[TopicPartition]
) -> dict[TopicPartition, _Found]:
    deadline = Deadline(link.world, WAIT_MS_MAX)
    before = await _found(link, transaction, partitions)
    while before:
        await link.world.tasks.sleep_ms(QUIET_MS)
        now = await _found(link, transaction, partitions)
        if now == before:
            break
        if deadline.has_passed:
            raise PipelineError(
                f"another attempt of this task still writes to {', '.join(map(str, now))} after {WAIT_MS_MAX} ms"
            )
        before = now
    return before


async def _found(
    link: Link, transaction: Transaction, partitions: list[TopicPartition]
) -> dict[TopicPartition, _Found]:
    try:
        told = await link.producers(partitions)
    except UnsupportedVersion:
        # Kafka before 2.8: what is there shows when the first batch is refused, and the micro-batch is aborted.
        return {}
    return {
        partition: _Found(state.last_sequence, state.current_txn_start_offset)
        for partition, states in told.items()
        for state in states
        if state.producer_id == transaction.producer_id
        and state.producer_epoch == transaction.epoch
        and state.last_sequence >= 0
        and state.current_txn_start_offset >= 0
    }
