"""What a run of the cleaner did: facts, and the words an operator knows from Kafka's log."""

from __future__ import annotations

MIB = 1024 * 1024


class CleanerStats:
    """Counts of one run over one log. Times are the monotonic clock's."""

    __slots__ = (
        "buffer_utilization", "bytes_read", "bytes_written", "end_ms", "invalid_messages_read", "map_bytes_read",
        "map_done_ms", "map_messages_read", "messages_read", "messages_written", "start_ms",
    )  # fmt: skip

    def __init__(self, start_ms: int) -> None:
        self.start_ms = start_ms
        self.map_done_ms = -1
        self.end_ms = -1
        self.map_bytes_read = 0
        self.map_messages_read = 0
        self.bytes_read = 0
        self.bytes_written = 0
        self.messages_read = 0
        self.messages_written = 0
        self.invalid_messages_read = 0
        self.buffer_utilization = 0.0

    @property
    def io_bytes(self) -> int:
        """All that was read and written: what `log.cleaner.io.max.bytes.per.second` limits."""
        return self.map_bytes_read + self.bytes_read + self.bytes_written

    @property
    def elapsed_seconds(self) -> float:
        return (self.end_ms - self.start_ms) / 1000

    @property
    def elapsed_map_seconds(self) -> float:
        return (self.map_done_ms - self.start_ms) / 1000

    def __str__(self) -> str:
        total = self.elapsed_seconds
        indexing = self.elapsed_map_seconds
        return (
            f"{_rate(self.bytes_read, total)} in all; "
            f"indexed {_rate(self.map_bytes_read, indexing)}, {_percent(indexing, total):.1f}% of the time, "
            f"buffer {100 * self.buffer_utilization:.1f}% full; "
            f"start size {self.bytes_read / MIB:.1f} MB ({self.messages_read} messages), "
            f"end size {self.bytes_written / MIB:.1f} MB ({self.messages_written} messages), "
            f"{100 - _percent(self.bytes_written, self.bytes_read):.1f}% size reduction "
            f"({100 - _percent(self.messages_written, self.messages_read):.1f}% fewer messages)"
        )


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 100.0


def _rate(size: int, seconds: float) -> str:
    per_second = f" ({size / MIB / seconds:.1f} MB/sec)" if seconds else ""
    return f"{size / MIB:.1f} MB in {seconds:.1f} seconds{per_second}"
