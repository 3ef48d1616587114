"""The settings of compaction that belong to the broker; what a topic can set for itself is in `config.log`.

Names, defaults and bounds are Kafka's (kafka-facts/config-broker.json, checked by a test). Called by `storage`.
"""

from __future__ import annotations

from ottla.config.table import MIB, ConfigTable, Setting, boolean, double, integer, long
from ottla.errors import InvalidConfig

RATE_MAX = 1.7976931348623157e308
"""The largest double: how Kafka spells a rate without a limit."""


class CleanerConfig(ConfigTable):
    """The cleaner's settings. `CleanerConfig({"log.cleaner.backoff.ms": "1000"})`."""

    enable = Setting(
        "log.cleaner.enable", boolean, True,
        doc="Whether topics with `cleanup.policy=compact` are compacted at all. Deprecated: leave it on.",
    )  # fmt: skip
    threads = Setting(
        "log.cleaner.threads", integer, 1, min=0,
        doc="How many logs Kafka cleans at once. Ottla cleans one after the other, with the whole of both buffers.",
    )  # fmt: skip
    io_max_bytes_per_second = Setting(
        "log.cleaner.io.max.bytes.per.second", double, RATE_MAX,
        doc="Compaction waits between its steps so that it reads and writes less than this on average.",
    )  # fmt: skip
    dedupe_buffer_size = Setting(
        "log.cleaner.dedupe.buffer.size", long, 128 * MIB,
        doc="The memory for the keys of one run. When it is full, the rest of the log waits for the next run.",
    )  # fmt: skip
    dedupe_buffer_load_factor = Setting(
        "log.cleaner.io.buffer.load.factor", double, 0.9,
        doc="The share of the dedupe buffer that may be filled.",
    )  # fmt: skip
    io_buffer_size = Setting(
        "log.cleaner.io.buffer.size", integer, 512 * 1024, min=0,
        doc="The memory for reading and writing: half of it is what one step reads, larger batches excepted.",
    )  # fmt: skip
    backoff_ms = Setting(
        "log.cleaner.backoff.ms", long, 15_000, min=0,
        doc="How long the cleaner rests when no log is due.",
    )  # fmt: skip

    def _derive(self) -> None:
        if self.dedupe_buffer_size // max(self.threads, 1) <= MIB:
            raise InvalidConfig("log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.")
