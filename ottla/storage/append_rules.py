"""What a log's settings ask of a batch that is appended.

`LogConfig` is a table of forty settings that every topic may change; an append asks it seven questions. This is their
answers, looked up once for each table and kept in slots, where reading one costs half as much. Called by `log_appender`
and `validator`.
"""

from __future__ import annotations

from ottla.config import LogConfig


class AppendRules:
    """See the module. The `config` that they come from is told by identity: a change makes a new table."""

    __slots__ = (
        "after_max_ms",
        "before_max_ms",
        "config",
        "flush_messages",
        "is_append_time",
        "is_compacted",
        "segment_ms_max",
        "segment_size_max",
        "size_max",
        "takes_as_they_come",
    )

    def __init__(self, config: LogConfig) -> None:
        self.config = config
        self.is_append_time = config.is_append_time
        self.takes_as_they_come = config.compression_type == "producer" and not config.is_append_time
        """Whether a batch that breaks no rule is stored as it came, but for its offset and epoch."""
        self.size_max = config.max_message_bytes
        self.before_max_ms = config.message_timestamp_before_max_ms
        self.after_max_ms = config.message_timestamp_after_max_ms
        self.is_compacted = config.is_compacted
        self.flush_messages = config.flush_messages
        self.segment_size_max = config.segment_size_max
        self.segment_ms_max = config.max_segment_ms
