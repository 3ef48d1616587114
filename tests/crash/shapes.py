"""The topics of a crash test: settings so small that every path is taken within a hundred operations."""

from __future__ import annotations

from random import Random

from ottla.config import LogConfig

SHAPES: dict[str, dict[str, object]] = {
    "plain": {"retention.bytes": 9000},
    "synced": {"flush.messages": 1},
    "preallocated": {"preallocate": True, "retention.ms": 60_000},
    "stamped": {"message.timestamp.type": "LogAppendTime", "segment.ms": 4000, "retention.ms": 90_000},
    "recompressed": {"compression.type": "lz4"},
    "compacted": {"cleanup.policy": "compact"},
    "lagging": {"cleanup.policy": "compact", "min.compaction.lag.ms": 3000, "preallocate": True},
    "both": {"cleanup.policy": "compact,delete", "retention.bytes": 15_000},
}

# Compaction has the most steps that a crash can come between.
SHAPES_BY_WEIGHT = [*SHAPES, "compacted", "compacted", "lagging", "both"]


def topic_config(shape: str, random: Random) -> LogConfig:
    """The settings of one topic: its shape, and sizes drawn anew."""
    settings: dict[str, object] = {
        "internal.segment.bytes": random.choice((2500, 4000, 7000)),
        "segment.index.bytes": random.choice((96, 200, 4096)),
        "index.interval.bytes": random.choice((64, 64, 1000)),
        "segment.ms": random.choice((3000, 20_000, 600_000)),
        "segment.jitter.ms": random.choice((0, 500)),
        "file.delete.delay.ms": 1000,
        "flush.ms": random.choice((500, 5000)),
        "retention.ms": -1,
        "min.cleanable.dirty.ratio": 0.01,
        "delete.retention.ms": random.choice((0, 2000)),
    }
    settings |= SHAPES[shape]
    if shape == "recompressed":
        settings["compression.type"] = random.choice(("uncompressed", "gzip", "snappy", "lz4", "zstd"))
    return LogConfig().with_topic(settings)
