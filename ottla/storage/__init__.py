"""The log on disk, with the bytes Kafka writes: segments, indexes, producer state, checkpoints, recovery, compaction.

`LogManager` opens and keeps the logs of a node; `Log` is one partition's. The rest is inside.
"""

from ottla.storage.batch_file import FileSlice
from ottla.storage.checkpoint import OffsetCheckpoint
from ottla.storage.chores import Chores, SyncPlan, sync_all
from ottla.storage.clean_shutdown import CleanShutdownFile
from ottla.storage.cleaner_manager import CleanerManager, CleanerStep
from ottla.storage.cleaner_stats import CleanerStats
from ottla.storage.damage import DamagedFile
from ottla.storage.loader import load_log
from ottla.storage.loading import DirectoryLoading
from ottla.storage.log import Log
from ottla.storage.log_appender import AppendInfo, OffsetsOutOfOrder, UnexpectedAppendOffset
from ottla.storage.log_dir import LogDir
from ottla.storage.log_manager import LogManager
from ottla.storage.log_reader import Isolation, LogRead, SpecialTimestamp
from ottla.storage.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from ottla.storage.names import HIGH_WATERMARK_CHECKPOINT, LOG_START_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from ottla.storage.offset_metadata import OffsetMetadata
from ottla.storage.producer_append import TRANSACTION_VERSION_UNKNOWN
from ottla.storage.producer_state import ProducerStateConfig
from ottla.storage.retention import delete_old_segments
from ottla.storage.segment import TimedOffset
from ottla.storage.transaction_index import AbortedTxn
from ottla.storage.validator import (
    AppendOrigin,
    InvalidOffsetOrSequence,
    InvalidRecords,
    InvalidTimestamps,
    NotOneBatch,
    RecordError,
)

__all__ = [
    "LogManager",
    "Log",
    "load_log",
    "DirectoryLoading",
    "AppendInfo",
    "AppendOrigin",
    "Isolation",
    "LogRead",
    "FileSlice",
    "AbortedTxn",
    "SpecialTimestamp",
    "TimedOffset",
    "OffsetMetadata",
    "TRANSACTION_VERSION_UNKNOWN",
    "LogDir",
    "Chores",
    "SyncPlan",
    "sync_all",
    "CleanerManager",
    "CleanerStep",
    "CleanerStats",
    "OffsetCheckpoint",
    "HIGH_WATERMARK_CHECKPOINT",
    "LOG_START_CHECKPOINT",
    "RECOVERY_POINT_CHECKPOINT",
    "MetaProperties",
    "read_meta_properties",
    "write_meta_properties",
    "DamagedFile",
    "CleanShutdownFile",
    "delete_old_segments",
    "ProducerStateConfig",
    "InvalidOffsetOrSequence",
    "InvalidRecords",
    "InvalidTimestamps",
    "NotOneBatch",
    "RecordError",
    "OffsetsOutOfOrder",
    "UnexpectedAppendOffset",
]
