"""The names of files and directories in a log directory, as Kafka spells them.

A segment's files begin with its base offset in twenty digits. A suffix behind the type says what is under way:
`.deleted` waits for removal, `.cleaned` is being written by compaction or a split, `.swap` is complete and about to
take the place of what it replaces. Partition directories are `topic-partition`, with `.<unique>-delete`, `-future` or
`-stray` behind.
"""

from __future__ import annotations

import re

from ottla.types import TopicPartition

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"

DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"

DELETE_DIR = "-delete"
FUTURE_DIR = "-future"
STRAY_DIR = "-stray"

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
META_PROPERTIES = "meta.properties"
LOCK = ".lock"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
REMOTE_LOG_INDEX_CACHE = "remote-log-index-cache"

_DIRECTORY_NAME_MAX = 255
_OFFSET_DIGITS = re.compile(r"\d{20}")
_MARKED_DIRECTORY = re.compile(r"(\S+)-(\S+)\.(\S+)(-delete|-future|-stray)")


def offset_name(offset: int) -> str:
    """The offset as file names carry it."""
    return f"{offset:020d}"


def offset_of(name: str) -> int | None:
    """The offset a file name begins with; None when it begins otherwise."""
    return int(name[:20]) if _OFFSET_DIGITS.match(name) else None


def partition_dir(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def delete_dir(partition: TopicPartition, unique: str) -> str:
    return _capped(partition, unique, DELETE_DIR)


def stray_dir(partition: TopicPartition, unique: str) -> str:
    return _capped(partition, unique, STRAY_DIR)


def future_dir(partition: TopicPartition, unique: str) -> str:
    return f"{partition_dir(partition)}.{unique}{FUTURE_DIR}"


def _capped(partition: TopicPartition, unique: str, suffix: str) -> str:
    """A long topic name is cut so that the whole name fits in the file system's limit."""
    rest = f"-{partition.partition}.{unique}{suffix}"
    return partition.topic[: _DIRECTORY_NAME_MAX - len(rest)] + rest


def parse_partition_dir(name: str) -> TopicPartition:
    """The partition a directory belongs to, whatever suffix it has; `ValueError` when it is none."""
    base = name
    if name.endswith((DELETE_DIR, FUTURE_DIR, STRAY_DIR)):
        marked = _MARKED_DIRECTORY.fullmatch(name)
        if marked is None:
            raise _not_a_partition(name)
        base = name[: name.rindex(".")]
    topic, dash, number = base.rpartition("-")
    if not dash or not topic or not number.isascii() or not number.isdigit():
        raise _not_a_partition(name)
    return TopicPartition(topic, int(number))


def _not_a_partition(name: str) -> ValueError:
    return ValueError(
        f"Found directory {name!r}, which is not in the form of topic-partition or topic-partition.uniqueId-delete "
        "(if marked for deletion). A log directory should only contain topic data."
    )
