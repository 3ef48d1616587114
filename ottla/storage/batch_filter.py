"""What compaction leaves of one batch: all of it, some of its records, its bare header, or nothing.

The rules are Kafka's:
- Of a key's records below the end of the offset map the latest stays, and all above it do. A record without a key goes.
- A tombstone stays until its batch's delete horizon has passed. The horizon is set by the first run that meets the
  tombstone and lies `delete.retention.ms` ahead, so that a reader has that long to see it (KIP-534).
- Records of aborted transactions go. A marker goes when nothing of its transaction is left, after a horizon of its own.
- The last batch of each producer stays, if need be without records: from it a producer's sequence is rebuilt. So does
  the last batch of the run, from which the next offset is read.
Called by `cleaner`, with every batch of the log in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.records import Batch, Scan, empty_batch, filter_batch
from ottla.storage.cleaned_transactions import CleanedTransactions
from ottla.storage.cleaner_stats import CleanerStats
from ottla.storage.offset_map import OffsetMap
from ottla.storage.producer_state import ProducerStateManager
from ottla.types import Buffer

TIMESTAMP_MAX = 2**63 - 1


class LastRecord(NamedTuple):
    """The last that is known of a producer: the offset of its last record, or -1 and the epoch of a marker."""

    last_data_offset: int
    producer_epoch: int


def last_records(producers: ProducerStateManager) -> dict[int, LastRecord]:
    """The last records of all active producers, as they are now."""
    return {
        producer_id: LastRecord(entry.last_data_offset, entry.producer_epoch)
        for producer_id, entry in producers.producers.items()
    }


class BatchFilter:
    """The filter of one run over a group of segments. It counts the records in `stats`."""

    __slots__ = ("_delete_retention_ms", "_end_offset", "_last_records", "_map", "_now_ms", "_stats", "_transactions")

    def __init__(
        self,
        offset_map: OffsetMap,
        transactions: CleanedTransactions,
        producers: Mapping[int, LastRecord],
        stats: CleanerStats,
        *,
        end_offset: int,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        """`end_offset` is where the run ends, and `now_ms` when it began: every batch is judged by the same clock."""
        self._map = offset_map
        self._transactions = transactions
        self._last_records = producers
        self._stats = stats
        self._end_offset = end_offset
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms

    def filter(self, batch: Batch) -> Buffer | None:
        """The bytes that take the batch's place; None when nothing does."""
        horizon_ms = batch.delete_horizon_ms
        has_passed = horizon_ms is not None and horizon_ms <= self._now_ms
        if batch.is_control:
            is_superfluous = self._transactions.pass_control_batch(batch)
            drops_all = is_superfluous and has_passed
        else:
            drops_all = is_superfluous = self._transactions.pass_batch(batch)
        stays_empty = batch.next_offset == self._end_offset or self._is_last_of_producer(batch)
        if drops_all and not stays_empty:
            return None
        self._stats.messages_read += batch.record_count
        if drops_all:
            return empty_batch(batch)
        scan = batch.scan()
        kept = range(len(scan)) if batch.is_control else self._kept(batch, scan, keeps_tombstones=not has_passed)
        if not kept:
            return empty_batch(batch) if stays_empty else None
        self._stats.messages_written += len(kept)
        is_waiting = is_superfluous if batch.is_control else self._has_tombstone(scan, kept)
        if is_waiting and horizon_ms is None:
            return filter_batch(batch, scan, kept, delete_horizon_ms=self._new_horizon_ms())
        return batch.data if len(kept) == len(scan) else filter_batch(batch, scan, kept)

    def _is_last_of_producer(self, batch: Batch) -> bool:
        last = self._last_records.get(batch.producer_id) if batch.has_producer_id else None
        if last is None:
            return False
        if last.last_data_offset >= 0:
            return batch.last_offset == last.last_data_offset
        # Only a marker is known of it: that carries the epoch which fences off older ones.
        return batch.is_control and batch.producer_epoch == last.producer_epoch

    def _kept(self, batch: Batch, scan: Scan, *, keeps_tombstones: bool) -> Sequence[int]:
        """The places in the batch of the records that stay."""
        end_offset = self._map.end_offset
        if batch.base_offset >= end_offset:
            return range(len(scan))
        keys = scan.keys
        if None in keys:  # a topic that was not always compacted may have such records
            self._stats.invalid_messages_read += sum(
                key is None and offset < end_offset for key, offset in zip(keys, scan.offsets, strict=True)
            )
        latest = self._map.latest([key or b"" for key in keys])
        return [
            index
            for index, (key, offset, latest_offset, has_value) in enumerate(
                zip(keys, scan.offsets, latest, scan.has_values, strict=True)
            )
            if offset >= end_offset or (key is not None and offset >= latest_offset and (has_value or keeps_tombstones))
        ]

    def _has_tombstone(self, scan: Scan, kept: Sequence[int]) -> bool:
        has_values = scan.has_values
        return not (all(has_values) or all(has_values[index] for index in kept))

    def _new_horizon_ms(self) -> int | None:
        """When the tombstones may go; None when that is beyond time, which is what an infinite retention means."""
        horizon_ms = self._now_ms + self._delete_retention_ms
        return horizon_ms if horizon_ms <= TIMESTAMP_MAX else None
