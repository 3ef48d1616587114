"""The admin client: `AsyncAdmin` and `Admin`, what they take and what they tell. See docs/clients/admin.md.

Each name is loaded when it is first asked for: a tool that lists topics has no use for the quorum.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.client.admin.async_admin import AsyncAdmin
    from ottla.client.admin.blocking import Admin
    from ottla.client.admin.cluster import (
        ClusterDescription,
        FeatureMetadata,
        FeatureUpdate,
        QuorumInfo,
        QuorumReplica,
        RaftEndpoint,
        UpgradeType,
        VersionRange,
    )
    from ottla.client.admin.configs import (
        AlterConfigOp,
        Config,
        ConfigEntry,
        ConfigResource,
        ConfigResourceType,
        ConfigSource,
        ConfigSynonym,
        ConfigType,
    )
    from ottla.client.admin.group_offsets import GroupOffsets
    from ottla.client.admin.groups import (
        ClassicGroupDescription,
        ClassicMember,
        ConsumerGroupDescription,
        GroupListing,
        GroupState,
        GroupType,
        MemberDescription,
        ShareGroupDescription,
        ShareMember,
    )
    from ottla.client.admin.log_dirs import (
        LogDirDescription,
        LogDirs,
        ReplicaInfo,
        ReplicaLogDir,
        TopicPartitionReplica,
    )
    from ottla.client.admin.offsets import ListedOffset, OffsetSpec
    from ottla.client.admin.operations import AclOperation
    from ottla.client.admin.outcome import Outcome, Outcomes
    from ottla.client.admin.share_offsets import ShareOffsets, SharePartitionOffset
    from ottla.client.admin.topics import (
        NewPartitions,
        NewTopic,
        PartitionDescription,
        TopicCreated,
        TopicDescription,
        TopicKey,
        TopicListing,
    )

__all__ = [
    "AclOperation",
    "Admin",
    "AlterConfigOp",
    "AsyncAdmin",
    "ClassicGroupDescription",
    "ClassicMember",
    "ClusterDescription",
    "Config",
    "ConfigEntry",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "ConsumerGroupDescription",
    "FeatureMetadata",
    "FeatureUpdate",
    "GroupListing",
    "GroupOffsets",
    "GroupState",
    "GroupType",
    "ListedOffset",
    "LogDirDescription",
    "LogDirs",
    "MemberDescription",
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",
    "Outcome",
    "Outcomes",
    "PartitionDescription",
    "QuorumInfo",
    "QuorumReplica",
    "RaftEndpoint",
    "ReplicaInfo",
    "ReplicaLogDir",
    "ShareGroupDescription",
    "ShareMember",
    "ShareOffsets",
    "SharePartitionOffset",
    "TopicCreated",
    "TopicDescription",
    "TopicKey",
    "TopicListing",
    "TopicPartitionReplica",
    "UpgradeType",
    "VersionRange",
]

_NAMES = {
    "async_admin": ("AsyncAdmin",),
    "blocking": ("Admin",),
    "outcome": ("Outcome", "Outcomes"),
    "operations": ("AclOperation",),
    "topics": (
        "NewPartitions",
        "NewTopic",
        "PartitionDescription",
        "TopicCreated",
        "TopicDescription",
        "TopicKey",
        "TopicListing",
    ),
    "offsets": ("ListedOffset", "OffsetSpec"),
    "configs": (
        "AlterConfigOp",
        "Config",
        "ConfigEntry",
        "ConfigResource",
        "ConfigResourceType",
        "ConfigSource",
        "ConfigSynonym",
        "ConfigType",
    ),
    "groups": (
        "ClassicGroupDescription",
        "ClassicMember",
        "ConsumerGroupDescription",
        "GroupListing",
        "GroupState",
        "GroupType",
        "MemberDescription",
        "ShareGroupDescription",
        "ShareMember",
    ),
    "group_offsets": ("GroupOffsets",),
    "share_offsets": ("ShareOffsets", "SharePartitionOffset"),
    "log_dirs": ("LogDirDescription", "LogDirs", "ReplicaInfo", "ReplicaLogDir", "TopicPartitionReplica"),
    "cluster": (
        "ClusterDescription",
        "FeatureMetadata",
        "FeatureUpdate",
        "QuorumInfo",
        "QuorumReplica",
        "RaftEndpoint",
        "UpgradeType",
        "VersionRange",
    ),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
