"""`PartitionLog`: a partition of a coordinator's topic, as the coordinator's runtime reads and writes it."""

from __future__ import annotations

from collections.abc import Callable

from ottla.replica.manager import ReplicaManager
from ottla.replica.partition import Partition
from ottla.storage import AppendOrigin, Isolation, Log
from ottla.types import Buffer


class PartitionLog:
    """See `ottla.coordinator.ShardLog`. Errors are the partition's: not leader, storage, too few replicas."""

    __slots__ = ("_partition",)

    def __init__(self, partition: Partition) -> None:
        self._partition = partition

    @classmethod
    def of(cls, replicas: ReplicaManager, topic: str, index: int) -> PartitionLog:
        return cls(replicas.partition_by_name(topic, index))

    @property
    def _log(self) -> Log:
        return self._partition.local_log()

    @property
    def log_start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def high_watermark(self) -> int:
        log = self._partition.log or self._log
        return log.high_watermark

    def read(self, offset: int, *, bytes_max: int) -> Buffer:
        found = self._log.read(offset, bytes_max=bytes_max, isolation=Isolation.LOG_END, at_least_one=True)
        return b"" if found.slice is None else found.slice.read()

    def append(self, batch: Buffer, *, verification_guard: object | None = None, transaction_version: int = 0) -> int:
        return self._partition.append(
            batch,
            origin=AppendOrigin.COORDINATOR,
            verification_guard=verification_guard,
            transaction_version=transaction_version,
        ).last_offset

    def when_committed(self, call: Callable[[int], object]) -> None:
        self._partition.when_committed = call
