"""Files for the dump tools to read that the golden data directory has no example of.

Each record type of each coordinator, all control records, odd keys, values, headers and timestamps, formats 0 and 1,
damaged segments, and indexes that do not fit them. Called when `tests/golden/dump-log.tar.xz` is made anew.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from ottla.cli.dump.remote_log_records import (
    RemoteLogSegmentIdEntry,
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataSnapshotRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
    SegmentLeaderEpochEntry,
    TopicIdPartitionEntry,
)
from ottla.records import (
    Batch,
    Codec,
    ControlType,
    EndTransactionMarker,
    Header,
    Record,
    TimestampType,
    batches,
    build_batch,
    control_batch,
    empty_batch,
    end_transaction_batch,
)
from ottla.records.compression import compress
from ottla.types import Uuid
from ottla.wire import Message, encode, write_versioned
from ottla.wire.coordinator import GROUP, SHARE, TRANSACTION, CoordinatorRecords
from ottla.wire.coordinator.classic_group import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from ottla.wire.data.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from ottla.wire.data.control import (
    Endpoint,
    KRaftVersionFeature,
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
    VotersRecordVoter,
)
from ottla.wire.metadata import RECORD_TYPES
from tests.support.golden import golden_messages

SEGMENT = "00000000000000000000"
NOW_MS = 1_700_000_000_000
Content = tuple[bytes | None, bytes | None]


def make_files(directory: Path) -> None:
    """Write all of them under `directory`, a directory a kind."""
    _write(directory / "records" / f"{SEGMENT}.log", _odd_records())
    _write(directory / "records" / "00000000000000000123-0000000005.checkpoint", _raft_marks())
    _write(directory / "numbers" / f"{SEGMENT}.log", _numbers())
    for name, records in (("group", GROUP), ("transaction", TRANSACTION), ("share", SHARE)):
        _write(directory / name / f"{SEGMENT}.log", _segment(_coordinator_contents(records)))
    _write(directory / "group" / "00000000000000000500.log", _segment(_consumer_groups(), base_offset=500))
    _write(directory / "metadata" / f"{SEGMENT}.log", _segment(_metadata_contents()))
    _write(directory / "remote" / f"{SEGMENT}.log", _segment(_remote_contents()))
    _write(directory / "legacy" / f"{SEGMENT}.log", _legacy_messages())
    _make_damaged(directory / "damaged")
    _make_indexes(directory / "index", directory / "wrong-index")


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _segment(contents: Iterable[Content], *, base_offset: int = 0, per_batch: int = 5) -> bytes:
    records = [Record(base_offset + place, NOW_MS + place, *content) for place, content in enumerate(contents)]
    return b"".join(
        build_batch(records[start : start + per_batch], leader_epoch=3) for start in range(0, len(records), per_batch)
    )


# Records


def _odd_records() -> bytes:
    headers: list[Header] = [("", None), ("größe", b"1"), ("größe", b""), ("\N{PILE OF POO}", b"\xff"), ("a,b", b"")]
    texts: list[Content] = [
        (None, None),
        (b"", b""),
        (b"key", None),
        (None, "naïve \N{PILE OF POO}".encode()),
        (b"line\nbreak", b"tab\t, return\r, line\n, null\0, bell\7, escape\x1b, delete\x7f"),
        (b"\xff\xfe", b"cut \xe2\x82, long \xc0\x80, surrogates \xed\xa0\x80 \xed\xbf, beyond \xf4\x90\x80\x80 \xf8"),
        (b"key: x payload: y", b"| offset: 7"),
    ]
    parts = [
        build_batch([Record(place, NOW_MS, *text, tuple(headers)) for place, text in enumerate(texts)]),
        build_batch(
            [Record(7, 5, b"a", b"1"), Record(8, 2**40, b"b", b"2")],
            timestamp_type=TimestampType.LOG_APPEND_TIME,
            append_time_ms=NOW_MS,
            leader_epoch=2**31 - 1,
        ),
        # Sequences begin again at 0 after the largest int.
        build_batch(
            [Record(9 + place, NOW_MS, None, b"wrap") for place in range(4)],
            producer_id=2**62,
            producer_epoch=32767,
            base_sequence=2**31 - 2,
            is_transactional=True,
        ),
        build_batch(
            [Record(13, -1, b"no", b"time"), Record(14, 2**62, b"far", b"off"), Record(15, 0, b"and", b"back")]
        ),
        # What compaction leaves: gaps, a delete horizon, a batch without records.
        build_batch([Record(20, 17, b"k", None), Record(29, 18, b"l", None)], delete_horizon_ms=NOW_MS, last_offset=35),
    ]
    whole = build_batch(
        [Record(36, NOW_MS, b"x", b"y"), Record(37, NOW_MS, b"x", b"z")],
        producer_id=9,
        producer_epoch=1,
        base_sequence=10,
    )
    parts.append(empty_batch(Batch(memoryview(whole), 0)))
    marks = (ControlType.ABORT, ControlType.COMMIT)
    parts += [
        end_transaction_batch(
            EndTransactionMarker(mark, epoch),
            producer_id=2**62,
            producer_epoch=32767,
            timestamp=NOW_MS,
            base_offset=40 + place,
        )
        for place, (mark, epoch) in enumerate(zip(marks, (7, -1), strict=True))
    ]
    for place, codec in enumerate(Codec):
        records = [Record(100 + 10 * place + at, NOW_MS + at, b"k%d" % at, b"value " * at) for at in range(3)]
        parts.append(build_batch(records, codec=codec))
    return b"".join(parts)


def _raft_marks() -> bytes:
    directory_id = Uuid(range(16))
    voters = [LeaderChangeMessageVoter(voter_id=1), LeaderChangeMessageVoter(voter_id=2)]
    voter = VotersRecordVoter(
        voter_id=1,
        voter_directory_id=directory_id,
        endpoints=[Endpoint(name="CONTROLLER", host="größe.example", port=65535)],
        k_raft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
    )
    marks: list[tuple[ControlType, Message]] = [
        (ControlType.LEADER_CHANGE, LeaderChangeMessage(version=0, leader_id=1, voters=voters, granting_voters=[])),
        (ControlType.SNAPSHOT_HEADER, SnapshotHeaderRecord(version=0, last_contained_log_timestamp=NOW_MS)),
        (ControlType.KRAFT_VERSION, KRaftVersionRecord(version=0, k_raft_version=1)),
        (ControlType.KRAFT_VOTERS, VotersRecord(version=0, voters=[voter])),
        (ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord(version=0)),
    ]
    parts = [
        control_batch(mark, encode(message, 0), timestamp=NOW_MS, base_offset=place)
        for place, (mark, message) in enumerate(marks)
    ]
    # A mark, and a version of the key, that a newer Kafka may write.
    for offset, key in ((5, struct.pack(">hh", 0, 9)), (6, struct.pack(">hhi", 3, -2, 0))):
        parts.append(build_batch([Record(offset, NOW_MS, key, b"?")], is_control=True))
    return b"".join(parts)


def _numbers() -> bytes:
    numbers = [0, 1, -1, 2**31 - 1, -(2**31)]
    contents = [(struct.pack(">q", number * 2**31), struct.pack(">i", number)) for number in numbers]
    return _segment([*contents, (b"longer than eight", b"12345")])


# The records of Kafka's own topics: each message of the golden file, in each version


def _messages(name: str) -> list[tuple[int, bytes]]:
    return [(line["version"], bytes.fromhex(line["hex"])) for line in golden_messages() if line["name"] == name]


def _coordinator_contents(records: CoordinatorRecords) -> list[Content]:
    contents: list[Content] = [(struct.pack(">h", 999) + b"of a newer Kafka", b"?")]
    for record_type, name in records.names.items():
        keys = [struct.pack(">h", record_type) + data for _, data in _messages(f"{name}Key")]
        values = [struct.pack(">h", version) + data for version, data in _messages(f"{name}Value")]
        contents += [(keys[place % len(keys)], value) for place, value in enumerate(values)]
        contents.append((keys[0], None))
    return contents


def _consumer_groups() -> list[Content]:
    """Classic groups of consumers, whose members' subscriptions and assignments the tool opens if it can."""
    owned = [ConsumerProtocolSubscriptionTopicPartition(topic="orders", partitions=[0, 2])]
    assigned = [ConsumerProtocolAssignmentTopicPartition(topic="größe", partitions=[1])]
    opaque = [b"", b"\0", b"\0\1", b"not what consumers write"]
    members = [
        MemberMetadata(
            member_id=f"m{version}",
            client_id="c",
            client_host="/127.0.0.1",
            subscription=write_versioned(
                ConsumerProtocolSubscription(
                    topics=["orders", ""], user_data=b"\xfb\xff", owned_partitions=owned, generation_id=4, rack_id="r"
                ),
                version,
            ),
            assignment=write_versioned(ConsumerProtocolAssignment(assigned_partitions=assigned), version) + b"more",
        )
        for version in range(4)
    ]
    members += [
        MemberMetadata(member_id=f"o{place}", client_id="", client_host="", subscription=data, assignment=data)
        for place, data in enumerate(opaque)
    ]
    key = GROUP.write_key(GroupMetadataKey(group="readers"))
    return [
        (
            key,
            GROUP.write_value(
                GroupMetadataValue(
                    protocol_type=protocol_type, generation=3, protocol="range", leader="m0", members=members
                ),
                version,
            ),
        )
        for version, protocol_type in ((3, "consumer"), (4, "consumer"), (3, "connect"))
    ]


def _metadata_contents() -> list[Content]:
    return [
        (None, b"\x01" + bytes([record_type, version]) + data)
        for record_type, name in RECORD_TYPES.items()
        for version, data in _messages(name)
    ]


def _remote_contents() -> list[Content]:
    partition = TopicIdPartitionEntry(name="orders", id=Uuid(range(16)), partition=3)
    segment_id = RemoteLogSegmentIdEntry(topic_id_partition=partition, id=Uuid(range(16, 32)))
    epochs = [SegmentLeaderEpochEntry(leader_epoch=epoch, offset=10 * epoch) for epoch in (17, 0, 300)]
    records: list[Message] = []
    for state in range(4):
        custom = b"12345" if state % 2 else None
        records += [
            RemoteLogSegmentMetadataRecord(
                remote_log_segment_id=segment_id,
                start_offset=1,
                end_offset=2**40,
                broker_id=1,
                max_timestamp_ms=NOW_MS,
                event_timestamp_ms=NOW_MS + 1,
                segment_leader_epochs=epochs,
                segment_size_in_bytes=1 << 30,
                custom_metadata=custom,
                remote_log_segment_state=state,
                txn_index_empty=state > 1,
            ),
            RemoteLogSegmentMetadataUpdateRecord(
                remote_log_segment_id=segment_id,
                broker_id=2,
                event_timestamp_ms=-1,
                custom_metadata=custom,
                remote_log_segment_state=state,
            ),
            RemoteLogSegmentMetadataSnapshotRecord(
                segment_id=Uuid(range(16, 32)),
                start_offset=0,
                end_offset=0,
                broker_id=3,
                max_timestamp_ms=0,
                event_timestamp_ms=NOW_MS,
                segment_leader_epochs=epochs[:1],
                segment_size_in_bytes=0,
                custom_metadata=custom,
                remote_log_segment_state=state,
                txn_index_empty=state > 1,
            ),
        ]
    records += [
        RemotePartitionDeleteMetadataRecord(
            topic_id_partition=partition, broker_id=4, event_timestamp_ms=5, remote_partition_delete_state=state
        )
        for state in range(3)
    ]
    return [(None, bytes([1, record.schema.api_key or 0, 0]) + encode(record, 0)) for record in records]


# Formats 0 and 1


def _legacy_messages() -> bytes:
    plain = [
        _legacy(0, magic=0, key=b"k", value=b"v0"),
        _legacy(1, magic=0, key=None, value=None),
        _legacy(2, magic=1, key=b"k", value=b"v1", timestamp=NOW_MS),
        _legacy(3, magic=1, key=b"", value=b"", timestamp=NOW_MS, attributes=0x08),
        _legacy(4, magic=1, key=None, value=b"damaged", timestamp=NOW_MS, crc_error=1),
    ]
    old = b"".join(_legacy(5 + place, magic=0, key=b"k", value=b"%d" % place) for place in range(3))
    new = b"".join(_legacy(place, magic=1, key=b"k", value=b"%d" % place, timestamp=place) for place in range(3))
    gzipped = gzip.compress(old, mtime=0)
    return b"".join(
        [
            *plain,
            _legacy(7, magic=0, key=None, value=gzipped, attributes=Codec.GZIP),
            _legacy(10, magic=1, key=None, value=compress(Codec.SNAPPY, new), timestamp=2, attributes=Codec.SNAPPY),
            _legacy(
                13, magic=1, key=None, value=compress(Codec.LZ4, new), timestamp=NOW_MS, attributes=Codec.LZ4 | 0x08
            ),
            build_batch([Record(14, NOW_MS, b"k", b"v2")]),
        ]
    )


def _legacy(
    offset: int,
    *,
    magic: int,
    key: bytes | None,
    value: bytes | None,
    timestamp: int = 0,
    attributes: int = 0,
    crc_error: int = 0,
) -> bytes:
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    for data in (key, value):
        body += struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body) ^ crc_error) + body


# Damage


def _plain_batches() -> list[bytes]:
    return [
        build_batch([Record(3 * batch + at, NOW_MS + batch, b"key", b"value %d" % at) for at in range(3)])
        for batch in range(6)
    ]


def _make_damaged(directory: Path) -> None:
    """Segments that a walk gets through, though not all is well. Named by offsets, since a segment has to be."""
    parts = _plain_batches()
    whole = b"".join(parts)
    cut = {0: 1, 1: 17, 2: 18, 3: 61, 4: len(parts[5]) - 1}
    for number, size in cut.items():
        _write(directory / f"{number:020}.log", b"".join(parts[:5]) + parts[5][:size])
    changed = bytearray(whole)
    changed[len(parts[0]) - 2] ^= 1  # a byte of the last value: the checksum is wrong, the records are readable
    changed[len(parts[0]) + 16] = 7  # a magic there never was
    changed[len(parts[0] + parts[1])] = 0x7F  # an offset far away, which no checksum covers
    _write(directory / f"{10:020}.log", bytes(changed))
    _write(directory / f"{11:020}.log", parts[0] + parts[2] + parts[1])
    _write(directory / f"{12:020}.log", b"")


def _make_indexes(good: Path, wrong: Path) -> None:
    """The indexes of a segment as they should be; and others, for the same segment, as they should not."""
    parts = _plain_batches()
    places = []
    position = 0
    for batch in batches(b"".join(parts)):
        places.append((batch.last_offset, position, batch.max_timestamp))
        position += batch.size
    for directory in (good, wrong):
        _write(directory / f"{SEGMENT}.log", b"".join(parts))
    offsets = [(offset, position) for offset, position, _ in places[1:]]
    times = [(timestamp, offset) for offset, _, timestamp in places]
    _write(good / f"{SEGMENT}.index", _packed(">ii", offsets))
    _write(good / f"{SEGMENT}.timeindex", _packed(">qi", times))
    aborted = [(0, 7, 1, 3, 4), (0, 2**62, 0, 9, 2**40)]
    _write(good / f"{SEGMENT}.txnindex", _packed(">hqqqq", aborted) + b"cut")

    # Every entry points at a batch, but not at the one it names. Zeros are left by a crash, and end the dump.
    mismatched = [(offsets[place][0] + place % 2, offsets[place][1]) for place in range(5)]
    _write(wrong / f"{SEGMENT}.index", _packed(">ii", [*mismatched, (0, 0), offsets[0]]))
    disordered = [
        times[0],
        (times[1][0] + 5, times[1][1]),
        times[2],
        (times[3][0], times[3][1] - 1),
        (times[4][0], 10_000),
        times[5],
        times[5],
        (0, 0),
        times[1],
    ]
    _write(wrong / f"{SEGMENT}.timeindex", _packed(">qi", disordered) + b"cut")
    _write(wrong / "00000000000000000018.log", b"")
    _write(wrong / "00000000000000000018.index", b"")
    _write(wrong / "00000000000000000018.timeindex", b"")
    _write(wrong / "00000000000000000018.txnindex", b"")


def _packed(form: str, entries: Sequence[tuple[int, ...]]) -> bytes:
    return b"".join(struct.pack(form, *entry) for entry in entries)
