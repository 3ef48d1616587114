"""The admin client: `AsyncAdmin` and `Admin`, what they take and what they tell. See docs/clients/admin.md.

Each name is loaded when it is first asked for: a tool that lists topics has no use for the quorum.
"""

from typing import TYPE_CHECKING

from ottla.lazy import front_door

if TYPE_CHECKING:
    from ottla.client.admin.acls import AclBinding, AclBindingFilter, AclPermissionType, PatternType, ResourceType
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
    from ottla.client.admin.fake import (
        AsyncFakeAdmin,
        FakeAdmin,
        FakeCluster,
        FakeGroup,
        FakeMember,
        FakePartition,
        FakeTopic,
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
    from ottla.client.admin.quotas import ANY_NAME, QuotaEntity, QuotaFilter, Quotas
    from ottla.client.admin.reassignments import ElectionType, PartitionReassignment
    from ottla.client.admin.scram import (
        DeleteScramPassword,
        ScramChange,
        ScramCredentialInfo,
        ScramMechanism,
        SetScramPassword,
    )
    from ottla.client.admin.share_offsets import ShareOffsets, SharePartitionOffset
    from ottla.client.admin.streams_groups import (
        StreamsAssignment,
        StreamsGroupDescription,
        StreamsMember,
        StreamsSubtopology,
        StreamsTopic,
    )
    from ottla.client.admin.tokens import DelegationToken, KafkaPrincipal
    from ottla.client.admin.topics import (
        NewPartitions,
        NewTopic,
        PartitionDescription,
        TopicCreated,
        TopicDescription,
        TopicKey,
        TopicListing,
    )
    from ottla.client.admin.transactions import (
        AbortTransactionSpec,
        ProducerIdAndEpoch,
        ProducerState,
        TransactionDescription,
        TransactionListing,
        TransactionState,
    )

__all__ = [
    "ANY_NAME",
    "AbortTransactionSpec",
    "AclBinding",
    "AclBindingFilter",
    "AclOperation",
    "AclPermissionType",
    "Admin",
    "AlterConfigOp",
    "AsyncAdmin",
    "AsyncFakeAdmin",
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
    "DelegationToken",
    "DeleteScramPassword",
    "ElectionType",
    "FakeAdmin",
    "FakeCluster",
    "FakeGroup",
    "FakeMember",
    "FakePartition",
    "FakeTopic",
    "FeatureMetadata",
    "FeatureUpdate",
    "GroupListing",
    "GroupOffsets",
    "GroupState",
    "GroupType",
    "KafkaPrincipal",
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
    "PartitionReassignment",
    "PatternType",
    "ProducerIdAndEpoch",
    "ProducerState",
    "QuorumInfo",
    "QuorumReplica",
    "QuotaEntity",
    "QuotaFilter",
    "Quotas",
    "RaftEndpoint",
    "ReplicaInfo",
    "ReplicaLogDir",
    "ResourceType",
    "ScramChange",
    "ScramCredentialInfo",
    "ScramMechanism",
    "SetScramPassword",
    "ShareGroupDescription",
    "ShareMember",
    "ShareOffsets",
    "SharePartitionOffset",
    "StreamsAssignment",
    "StreamsGroupDescription",
    "StreamsMember",
    "StreamsSubtopology",
    "StreamsTopic",
    "TopicCreated",
    "TopicDescription",
    "TopicKey",
    "TopicListing",
    "TopicPartitionReplica",
    "TransactionDescription",
    "TransactionListing",
    "TransactionState",
    "UpgradeType",
    "VersionRange",
]

_NAMES = {
    "async_admin": ("AsyncAdmin",),
    "blocking": ("Admin",),
    "outcome": ("Outcome", "Outcomes"),
    "fake": ("AsyncFakeAdmin", "FakeAdmin", "FakeCluster", "FakeGroup", "FakeMember", "FakePartition", "FakeTopic"),
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
    "acls": ("AclBinding", "AclBindingFilter", "AclPermissionType", "PatternType", "ResourceType"),
    "quotas": ("ANY_NAME", "QuotaEntity", "QuotaFilter", "Quotas"),
    "scram": (
        "DeleteScramPassword",
        "ScramChange",
        "ScramCredentialInfo",
        "ScramMechanism",
        "SetScramPassword",
    ),
    "reassignments": ("ElectionType", "PartitionReassignment"),
    "transactions": (
        "AbortTransactionSpec",
        "ProducerIdAndEpoch",
        "ProducerState",
        "TransactionDescription",
        "TransactionListing",
        "TransactionState",
    ),
    "tokens": ("DelegationToken", "KafkaPrincipal"),
    "streams_groups": (
        "StreamsAssignment",
        "StreamsGroupDescription",
        "StreamsMember",
        "StreamsSubtopology",
        "StreamsTopic",
    ),
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

if not TYPE_CHECKING:  # who checks types has the imports above, and finds what is misspelt
    __getattr__, __dir__ = front_door(__name__, _HOME)
