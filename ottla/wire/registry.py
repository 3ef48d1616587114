"""Finds a message class by name or by API key, and imports its module only then."""

from __future__ import annotations

import importlib
from functools import cache
from itertools import chain

from ottla.wire.apis import APIS, Api, find_api
from ottla.wire.schema import Message


@cache
def request_class(api_key: int) -> type[Message]:
    """The request of an API; `InvalidRequest` when there is no such API."""
    return message_class(f"{find_api(api_key).name}Request")


@cache
def response_class(api_key: int) -> type[Message]:
    """The response of an API; `InvalidRequest` when there is no such API."""
    return message_class(f"{find_api(api_key).name}Response")


@cache
def message_class(name: str) -> type[Message]:
    """The class of any message, header or record by Kafka's name; `KeyError` when there is none."""
    place = _places()[name]
    module = place if isinstance(place, str) else place.module
    found: type[Message] = getattr(importlib.import_module(module), name)
    return found


def message_names() -> list[str]:
    """The names of all messages, in the order of their APIs and then by family."""
    return list(_places())


@cache
def _places() -> dict[str, Api | str]:
    """By name, the API that knows the module, or the module itself: a node asks for few, and a module's name costs."""
    found: dict[str, Api | str] = {
        f"{api.name}{kind}": api for api in APIS.values() for kind in ("Request", "Response")
    }
    found.update(chain.from_iterable(((name, module) for name in names) for module, names in _OTHERS.items()))
    return found


_OTHERS: dict[str, tuple[str, ...]] = {
    "ottla.wire.messages.header": ("RequestHeader", "ResponseHeader"),
    "ottla.wire.metadata.brokers": (
        "RegisterBrokerRecord",
        "UnregisterBrokerRecord",
        "FenceBrokerRecord",
        "UnfenceBrokerRecord",
        "BrokerRegistrationChangeRecord",
        "RegisterControllerRecord",
    ),
    "ottla.wire.metadata.topics": (
        "TopicRecord",
        "RemoveTopicRecord",
        "PartitionRecord",
        "PartitionChangeRecord",
        "ClearElrRecord",
    ),
    "ottla.wire.metadata.configs": (
        "ConfigRecord",
        "ClientQuotaRecord",
    ),
    "ottla.wire.metadata.security": (
        "UserScramCredentialRecord",
        "RemoveUserScramCredentialRecord",
        "DelegationTokenRecord",
        "RemoveDelegationTokenRecord",
        "AccessControlEntryRecord",
        "RemoveAccessControlEntryRecord",
    ),
    "ottla.wire.metadata.cluster": (
        "FeatureLevelRecord",
        "ProducerIdsRecord",
        "NoOpRecord",
        "ZkMigrationStateRecord",
    ),
    "ottla.wire.metadata.transactions": (
        "BeginTransactionRecord",
        "EndTransactionRecord",
        "AbortTransactionRecord",
    ),
    "ottla.wire.coordinator.offsets": (
        "OffsetCommitKey",
        "OffsetCommitValue",
        "LegacyOffsetCommitKey",
        "LegacyOffsetCommitValue",
    ),
    "ottla.wire.coordinator.classic_group": (
        "GroupMetadataKey",
        "GroupMetadataValue",
    ),
    "ottla.wire.coordinator.consumer_group": (
        "ConsumerGroupMetadataKey",
        "ConsumerGroupMetadataValue",
        "ConsumerGroupPartitionMetadataKey",
        "ConsumerGroupPartitionMetadataValue",
        "ConsumerGroupMemberMetadataKey",
        "ConsumerGroupMemberMetadataValue",
        "ConsumerGroupTargetAssignmentMetadataKey",
        "ConsumerGroupTargetAssignmentMetadataValue",
        "ConsumerGroupTargetAssignmentMemberKey",
        "ConsumerGroupTargetAssignmentMemberValue",
        "ConsumerGroupCurrentMemberAssignmentKey",
        "ConsumerGroupCurrentMemberAssignmentValue",
        "ConsumerGroupRegularExpressionKey",
        "ConsumerGroupRegularExpressionValue",
    ),
    "ottla.wire.coordinator.share_group": (
        "ShareGroupMemberMetadataKey",
        "ShareGroupMemberMetadataValue",
        "ShareGroupMetadataKey",
        "ShareGroupMetadataValue",
        "ShareGroupTargetAssignmentMetadataKey",
        "ShareGroupTargetAssignmentMetadataValue",
        "ShareGroupTargetAssignmentMemberKey",
        "ShareGroupTargetAssignmentMemberValue",
        "ShareGroupCurrentMemberAssignmentKey",
        "ShareGroupCurrentMemberAssignmentValue",
        "ShareGroupStatePartitionMetadataKey",
        "ShareGroupStatePartitionMetadataValue",
    ),
    "ottla.wire.coordinator.streams_group": (
        "StreamsGroupMetadataKey",
        "StreamsGroupMetadataValue",
        "StreamsGroupMemberMetadataKey",
        "StreamsGroupMemberMetadataValue",
        "StreamsGroupTargetAssignmentMetadataKey",
        "StreamsGroupTargetAssignmentMetadataValue",
        "StreamsGroupTargetAssignmentMemberKey",
        "StreamsGroupTargetAssignmentMemberValue",
        "StreamsGroupCurrentMemberAssignmentKey",
        "StreamsGroupCurrentMemberAssignmentValue",
        "StreamsGroupTopologyKey",
        "StreamsGroupTopologyValue",
    ),
    "ottla.wire.coordinator.transaction": (
        "TransactionLogKey",
        "TransactionLogValue",
    ),
    "ottla.wire.coordinator.share_state": (
        "ShareSnapshotKey",
        "ShareSnapshotValue",
        "ShareUpdateKey",
        "ShareUpdateValue",
    ),
    "ottla.wire.data.consumer_protocol": (
        "ConsumerProtocolSubscription",
        "ConsumerProtocolAssignment",
    ),
    "ottla.wire.data.control": (
        "ControlRecordTypeSchema",
        "EndTxnMarker",
        "LeaderChangeMessage",
        "SnapshotHeaderRecord",
        "SnapshotFooterRecord",
        "KRaftVersionRecord",
        "VotersRecord",
    ),
    "ottla.wire.data.quorum_state": ("QuorumStateData",),
    "ottla.wire.data.principal": ("DefaultPrincipalData",),
}
