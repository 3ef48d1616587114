"""The settings that raft acts on. `BrokerConfig` has them all under these names; tests make a `RaftConfig`."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class QuorumTimes(Protocol):
    """What the rules of the quorum ask of a configuration."""

    @property
    def controller_quorum_election_timeout_ms(self) -> int: ...

    @property
    def controller_quorum_election_backoff_max_ms(self) -> int: ...

    @property
    def controller_quorum_fetch_timeout_ms(self) -> int: ...

    @property
    def controller_quorum_fetch_max_bytes(self) -> int: ...

    @property
    def controller_quorum_fetch_snapshot_max_bytes(self) -> int: ...

    @property
    def controller_quorum_request_timeout_ms(self) -> int: ...

    @property
    def controller_quorum_retry_backoff_ms(self) -> int: ...


class RaftSettings(QuorumTimes, Protocol):
    """What raft asks of a configuration."""

    @property
    def metadata_log_segment_bytes(self) -> int: ...

    @property
    def metadata_log_segment_ms(self) -> int: ...

    @property
    def metadata_max_retention_bytes(self) -> int: ...

    @property
    def metadata_max_retention_ms(self) -> int: ...

    @property
    def metadata_log_max_record_bytes_between_snapshots(self) -> int: ...

    @property
    def metadata_log_max_snapshot_interval_ms(self) -> int: ...


class RaftConfig(NamedTuple):
    """The settings by themselves, with Kafka's defaults."""

    metadata_log_segment_bytes: int = 1024**3
    metadata_log_segment_ms: int = 7 * 24 * 60 * 60 * 1000
    metadata_max_retention_bytes: int = 100 * 1024**2
    metadata_max_retention_ms: int = 7 * 24 * 60 * 60 * 1000
    metadata_log_max_record_bytes_between_snapshots: int = 20 * 1024**2
    metadata_log_max_snapshot_interval_ms: int = 60 * 60 * 1000
    controller_quorum_election_timeout_ms: int = 1000
    controller_quorum_election_backoff_max_ms: int = 1000
    controller_quorum_fetch_timeout_ms: int = 2000
    controller_quorum_fetch_max_bytes: int = 1024**2
    controller_quorum_fetch_snapshot_max_bytes: int = 1024**2
    controller_quorum_request_timeout_ms: int = 2000
    controller_quorum_retry_backoff_ms: int = 20
