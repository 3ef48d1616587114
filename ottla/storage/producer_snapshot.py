"""The bytes of a `.snapshot` file: the producers' state at one offset of the log.

Promises: the bytes are Kafka's, and a file that was torn or changed is found out by its checksum. Of each producer's
batches only the last is kept, as in Kafka; the others are read from the log when they are asked for (`recall`).
Called by `producer_state` and by the dump tool. On disk: a version, a CRC-32C of all that follows it, a count, and 46
bytes a producer.
"""

from __future__ import annotations

from collections.abc import Collection
from struct import Struct

from ottla.records import crc32c
from ottla.storage.damage import DamagedFile
from ottla.storage.producer_entry import NO_OFFSET, BatchMetadata, ProducerStateEntry

VERSION = 1

_HEADER = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")
"""producer id and epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, open transaction's
first offset"""

_ENTRIES_POSITION = _HEADER.size + _COUNT.size


def encode_snapshot(entries: Collection[ProducerStateEntry]) -> bytes:
    """The content of a snapshot file."""
    body = bytearray(_COUNT.pack(len(entries)))
    for entry in _in_java_order(entries):
        body += _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_data_offset,
            entry.last_offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            NO_OFFSET if entry.txn_first_offset is None else entry.txn_first_offset,
        )
    return _HEADER.pack(VERSION, crc32c(body)) + body


def decode_snapshot(path: str, data: bytes) -> list[ProducerStateEntry]:
    """The producers in `data`, which was read from `path`."""
    if len(data) < _ENTRIES_POSITION:
        raise DamagedFile(path, "byte 0", f"a header of {_ENTRIES_POSITION} bytes", f"{len(data)} bytes")
    version, checksum = _HEADER.unpack_from(data)
    if version != VERSION:
        raise DamagedFile(path, "byte 0", f"version {VERSION}", version)
    computed = crc32c(memoryview(data)[_HEADER.size :])
    if computed != checksum:
        raise DamagedFile(path, "byte 2", f"checksum {checksum}", computed)
    (count,) = _COUNT.unpack_from(data, _HEADER.size)
    size = len(data) - _ENTRIES_POSITION
    if size != count * _ENTRY.size:
        raise DamagedFile(path, f"byte {_HEADER.size}", f"{count} entries of {_ENTRY.size} bytes", f"{size} bytes")
    return [_entry(*fields) for fields in _ENTRY.iter_unpack(memoryview(data)[_ENTRIES_POSITION:])]


def _entry(
    producer_id: int,
    producer_epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    txn_first_offset: int,
) -> ProducerStateEntry:
    open_since = None if txn_first_offset < 0 else txn_first_offset
    entry = ProducerStateEntry(producer_id, producer_epoch, coordinator_epoch, timestamp, open_since)
    if last_offset >= 0:
        entry.add_batch(producer_epoch, BatchMetadata(last_sequence, last_offset, offset_delta, timestamp))
    entry.is_from_snapshot = True
    return entry


def _in_java_order(entries: Collection[ProducerStateEntry]) -> Collection[ProducerStateEntry]:
    """The order in which a Java HashMap gives the entries, so that the same producers are mostly the same bytes.

    A map of `n` grows in powers of two and stays at most three quarters full. Within a bucket, and in a map that has
    shrunk, Java's order depends on its history; that is not followed.
    """
    if len(entries) < 2:
        return entries
    buckets = 16
    while len(entries) > buckets * 3 // 4:
        buckets *= 2
    return sorted(entries, key=lambda entry: java_bucket(entry.producer_id, buckets))


def java_bucket(producer_id: int, buckets: int) -> int:
    """Where a Java HashMap of that many buckets, a power of two, keeps the entry of a `Long`."""
    folded = (producer_id ^ producer_id >> 32) & 0xFFFFFFFF
    return (folded ^ folded >> 16) & (buckets - 1)
