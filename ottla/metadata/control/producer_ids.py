"""Producer ids, given to brokers in blocks, so that two producers never share one.

Promises: a block is given out once, whatever becomes of the broker that asked for it. Called for AllocateProducerIds.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.errors import UnknownServerError
from ottla.machine import Result, UndoLog
from ottla.metadata.builder import ReplayError
from ottla.wire.metadata import ProducerIdsRecord, VersionedRecord

BLOCK_SIZE = 1000
_ID_MAX = 2**63 - 1


class ProducerIdBlock(NamedTuple):
    """The ids `[first_id, first_id + size)`."""

    first_id: int
    size: int


class ProducerIdControl:
    """Where the next block begins."""

    def __init__(self, undo: UndoLog) -> None:
        self._undo = undo
        self.next_id = 0

    def replay(self, record: ProducerIdsRecord) -> None:
        if record.next_producer_id <= self.next_id and self.next_id > 0:
            raise ReplayError(f"the next producer id goes back from {self.next_id} to {record.next_producer_id}")
        self._undo.assign(self, "next_id", record.next_producer_id)

    def allocate(self, broker_id: int, broker_epoch: int) -> Result[ProducerIdBlock]:
        """The next block, for a broker whose epoch has been checked."""
        if self.next_id > _ID_MAX - BLOCK_SIZE:
            raise UnknownServerError(
                "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit"
            )
        block = ProducerIdBlock(self.next_id, BLOCK_SIZE)
        record = ProducerIdsRecord(
            broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=self.next_id + BLOCK_SIZE
        )
        return Result(block, [VersionedRecord(record, 0)])
