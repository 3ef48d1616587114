"""Feature levels: what `metadata.version` and the other features allow, and which of them this release supports.

Promises: names, levels, ranges and defaults are those of Kafka 4.3, so brokers of both kinds agree on what a cluster
has finalized. The version of a metadata record follows from the cluster's `metadata.version`, never from the newest
the writer knows: an older node must be able to read the log. Called by everything that writes metadata records.
"""

from __future__ import annotations

from typing import NamedTuple

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
ELR_VERSION = "eligible.leader.replicas.version"
GROUP_VERSION = "group.version"
SHARE_VERSION = "share.version"
STREAMS_VERSION = "streams.version"
TRANSACTION_VERSION = "transaction.version"


class VersionRange(NamedTuple):
    """The levels of a feature that a node can work with, both ends included."""

    min: int
    max: int

    def includes(self, level: int) -> bool:
        return self.min <= level <= self.max

    def __str__(self) -> str:
        return str(self.min) if self.min == self.max else f"{self.min}-{self.max}"


NOT_SUPPORTED = VersionRange(0, 0)
"""The range of a feature that a node does not know."""


class MetadataVersion(int):
    """A level of `metadata.version`, and what it allows."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """As Kafka prints it: `4.3-IV0`."""
        return _LEVELS[self][0]

    @property
    def has_scram(self) -> bool:
        return self >= 11

    @property
    def has_transactions(self) -> bool:
        """Several batches of the metadata log can take effect together."""
        return self >= 13

    @property
    def has_delegation_tokens(self) -> bool:
        return self >= 14

    @property
    def has_controller_registrations(self) -> bool:
        return self >= 15

    @property
    def has_directories(self) -> bool:
        """A partition's replicas are assigned to log directories (KIP-858)."""
        return self >= 17

    @property
    def has_elr(self) -> bool:
        """Records can carry eligible leader replicas (KIP-966)."""
        return self >= 23

    @property
    def has_cordoned_directories(self) -> bool:
        """A log directory can be closed for new replicas (KIP-1066)."""
        return self >= 30

    @property
    def bumps_leader_epoch_on_isr_shrink(self) -> bool:
        """Old followers could not tell that they had left the ISR, so the leader epoch told them."""
        return self < 12

    @property
    def register_broker_record_version(self) -> int:
        if self.has_cordoned_directories:
            return 4
        if self.has_directories:
            return 3
        return 2 if self >= 8 else 1

    @property
    def partition_record_version(self) -> int:
        """The version of `PartitionRecord`, and of `PartitionChangeRecord`, which have grown together."""
        if self.has_elr:
            return 2
        return 1 if self.has_directories else 0


# Level -> name, and whether records of this level cannot be read at the level before it.
_LEVELS: dict[int, tuple[str, bool]] = {
    7: ("3.3-IV3", True),
    8: ("3.4-IV0", True),
    9: ("3.5-IV0", False),
    10: ("3.5-IV1", False),
    11: ("3.5-IV2", True),
    12: ("3.6-IV0", False),
    13: ("3.6-IV1", True),
    14: ("3.6-IV2", True),
    15: ("3.7-IV0", True),
    16: ("3.7-IV1", False),
    17: ("3.7-IV2", True),
    18: ("3.7-IV3", False),
    19: ("3.7-IV4", False),
    20: ("3.8-IV0", False),
    21: ("3.9-IV0", False),
    22: ("4.0-IV0", False),
    23: ("4.0-IV1", True),
    24: ("4.0-IV2", False),
    25: ("4.0-IV3", False),
    26: ("4.1-IV0", False),
    27: ("4.1-IV1", False),
    28: ("4.2-IV0", False),
    29: ("4.2-IV1", False),
    30: ("4.3-IV0", True),
}

MINIMUM_METADATA_VERSION = MetadataVersion(7)
LATEST_METADATA_VERSION = MetadataVersion(30)


def metadata_changed(first: int, second: int) -> bool:
    """Whether one of the two levels writes records that the other cannot read."""
    low, high = sorted((first, second))
    return any(_LEVELS[level][1] for level in range(low + 1, high + 1))


# In the order in which Kafka 4.3.1 registers them.
SUPPORTED_FEATURES: dict[str, VersionRange] = {
    TRANSACTION_VERSION: VersionRange(0, 2),
    STREAMS_VERSION: VersionRange(0, 1),
    GROUP_VERSION: VersionRange(0, 1),
    KRAFT_VERSION: VersionRange(0, 1),
    SHARE_VERSION: VersionRange(0, 1),
    METADATA_VERSION: VersionRange(MINIMUM_METADATA_VERSION, LATEST_METADATA_VERSION),
    ELR_VERSION: VersionRange(0, 1),
}
"""What a node of this release advertises when it registers."""

# Feature -> the `metadata.version` at which a new cluster gets level 1, 2, ...
_DEFAULTS: dict[str, tuple[int, ...]] = {
    ELR_VERSION: (26,),
    GROUP_VERSION: (22,),
    SHARE_VERSION: (28,),
    STREAMS_VERSION: (29,),
    TRANSACTION_VERSION: (24, 24),
}

# (feature, level) -> what else must be finalized at least that high.
_DEPENDENCIES: dict[tuple[str, int], dict[str, int]] = {(ELR_VERSION, 1): {METADATA_VERSION: 23}}


def default_levels(metadata_version: int) -> dict[str, int]:
    """The feature levels of a new cluster at a `metadata.version`, in Kafka's order; those at 0 are left out."""
    levels = {METADATA_VERSION: int(metadata_version)}
    for name, since in _DEFAULTS.items():
        level = sum(metadata_version >= bootstrap for bootstrap in since)
        if level > 0:
            levels[name] = level
    return levels


def missing_dependency(name: str, level: int, finalized: dict[str, int]) -> str | None:
    """Why a feature cannot be at a level beside the other finalized ones, in Kafka's words; None when it can."""
    for other, least in _DEPENDENCIES.get((name, level), {}).items():
        if finalized.get(other, 0) < least:
            return f"{name} could not be set to {level} because it depends on {other} level {least}"
    return None
