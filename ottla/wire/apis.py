"""The table of APIs: key, name, versions, and who serves them. Reading it imports no message.

The versions are those of the message classes, told twice so that a broker can say what it speaks before it has loaded
the classes; `tests/unit/wire/test_apis.py` holds the two together. `request_class` and `response_class` load on demand.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.errors import InvalidRequest
from ottla.wire.schema import NO_VERSIONS, Versions

BROKER = frozenset({"broker"})
CONTROLLER = frozenset({"controller"})
BOTH = BROKER | CONTROLLER
NEITHER: frozenset[str] = frozenset()

API_VERSIONS_KEY = 18
PRODUCE_KEY = 0


class Api(NamedTuple):
    """One API: a request and its response, which share their versions."""

    key: int
    name: str
    versions: Versions
    flexible: Versions
    listeners: frozenset[str]
    is_latest_unstable: bool = False

    @property
    def is_removed(self) -> bool:
        """Kafka 4 has no version of it any more."""
        return self.versions == NO_VERSIONS

    @property
    def module(self) -> str:
        """The module that declares its messages."""
        name = "removed" if self.is_removed else snake_case(self.name)
        return f"ottla.wire.messages.{name}"

    @property
    def advertised(self) -> Versions:
        """What Kafka tells clients: without an unstable version, and with versions of Produce that it then refuses.

        A bug of librdkafka needs Produce 0 to be told (KAFKA-18659).
        """
        first = 0 if self.key == PRODUCE_KEY else self.versions.first
        return Versions(first, self.versions.last - self.is_latest_unstable)

    def request_header_version(self, version: int) -> int:
        """Of any version that a client may try, known or not."""
        return 2 if self.flexible.includes(version) else 1

    def response_header_version(self, version: int) -> int:
        """Always 0 for ApiVersions: the client that reads it does not know yet what the broker speaks."""
        return 1 if self.flexible.includes(version) and self.key != API_VERSIONS_KEY else 0


def find_api(key: int) -> Api:
    """The API of a key; `InvalidRequest` when there is none."""
    found = APIS.get(key)
    if found is None:
        raise InvalidRequest(f"Unknown API key {key}.")
    return found


def snake_case(name: str) -> str:
    """Kafka's name of an API in the form of a module's name."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)[1:]


_TABLE = [
    Api(0, "Produce", Versions.parse("3-13"), Versions.parse("9+"), BROKER),
    Api(1, "Fetch", Versions.parse("4-18"), Versions.parse("12+"), BOTH),
    Api(2, "ListOffsets", Versions.parse("1-11"), Versions.parse("6+"), BROKER),
    Api(3, "Metadata", Versions.parse("0-13"), Versions.parse("9+"), BROKER),
    Api(4, "LeaderAndIsr", Versions.parse("none"), Versions.parse("none"), NEITHER),
    Api(5, "StopReplica", Versions.parse("none"), Versions.parse("none"), NEITHER),
    Api(6, "UpdateMetadata", Versions.parse("none"), Versions.parse("none"), NEITHER),
    Api(7, "ControlledShutdown", Versions.parse("none"), Versions.parse("none"), NEITHER),
    Api(8, "OffsetCommit", Versions.parse("2-10"), Versions.parse("8+"), BROKER),
    Api(9, "OffsetFetch", Versions.parse("1-10"), Versions.parse("6+"), BROKER),
    Api(10, "FindCoordinator", Versions.parse("0-6"), Versions.parse("3+"), BROKER),
    Api(11, "JoinGroup", Versions.parse("0-9"), Versions.parse("6+"), BROKER),
    Api(12, "Heartbeat", Versions.parse("0-4"), Versions.parse("4+"), BROKER),
    Api(13, "LeaveGroup", Versions.parse("0-5"), Versions.parse("4+"), BROKER),
    Api(14, "SyncGroup", Versions.parse("0-5"), Versions.parse("4+"), BROKER),
    Api(15, "DescribeGroups", Versions.parse("0-6"), Versions.parse("5+"), BROKER),
    Api(16, "ListGroups", Versions.parse("0-5"), Versions.parse("3+"), BROKER),
    Api(17, "SaslHandshake", Versions.parse("0-1"), Versions.parse("none"), BOTH),
    Api(18, "ApiVersions", Versions.parse("0-4"), Versions.parse("3+"), BOTH),
    Api(19, "CreateTopics", Versions.parse("2-7"), Versions.parse("5+"), BOTH),
    Api(20, "DeleteTopics", Versions.parse("1-6"), Versions.parse("4+"), BOTH),
    Api(21, "DeleteRecords", Versions.parse("0-2"), Versions.parse("2+"), BROKER),
    Api(22, "InitProducerId", Versions.parse("0-6"), Versions.parse("2+"), BROKER, is_latest_unstable=True),
    Api(23, "OffsetForLeaderEpoch", Versions.parse("2-4"), Versions.parse("4+"), BROKER),
    Api(24, "AddPartitionsToTxn", Versions.parse("0-5"), Versions.parse("3+"), BROKER),
    Api(25, "AddOffsetsToTxn", Versions.parse("0-4"), Versions.parse("3+"), BROKER),
    Api(26, "EndTxn", Versions.parse("0-5"), Versions.parse("3+"), BROKER),
    Api(27, "WriteTxnMarkers", Versions.parse("1-2"), Versions.parse("1+"), BROKER),
    Api(28, "TxnOffsetCommit", Versions.parse("0-5"), Versions.parse("3+"), BROKER),
    Api(29, "DescribeAcls", Versions.parse("1-3"), Versions.parse("2+"), BOTH),
    Api(30, "CreateAcls", Versions.parse("1-3"), Versions.parse("2+"), BOTH),
    Api(31, "DeleteAcls", Versions.parse("1-3"), Versions.parse("2+"), BOTH),
    Api(32, "DescribeConfigs", Versions.parse("1-4"), Versions.parse("4+"), BOTH),
    Api(33, "AlterConfigs", Versions.parse("0-2"), Versions.parse("2+"), BOTH),
    Api(34, "AlterReplicaLogDirs", Versions.parse("1-2"), Versions.parse("2+"), BROKER),
    Api(35, "DescribeLogDirs", Versions.parse("1-5"), Versions.parse("2+"), BROKER),
    Api(36, "SaslAuthenticate", Versions.parse("0-2"), Versions.parse("2+"), BOTH),
    Api(37, "CreatePartitions", Versions.parse("0-3"), Versions.parse("2+"), BOTH),
    Api(38, "CreateDelegationToken", Versions.parse("1-3"), Versions.parse("2+"), BOTH),
    Api(39, "RenewDelegationToken", Versions.parse("1-2"), Versions.parse("2+"), BOTH),
    Api(40, "ExpireDelegationToken", Versions.parse("1-2"), Versions.parse("2+"), BOTH),
    Api(41, "DescribeDelegationToken", Versions.parse("1-3"), Versions.parse("2+"), BOTH),
    Api(42, "DeleteGroups", Versions.parse("0-2"), Versions.parse("2+"), BROKER),
    Api(43, "ElectLeaders", Versions.parse("0-2"), Versions.parse("2+"), BOTH),
    Api(44, "IncrementalAlterConfigs", Versions.parse("0-1"), Versions.parse("1+"), BOTH),
    Api(45, "AlterPartitionReassignments", Versions.parse("0-1"), Versions.parse("0+"), BOTH),
    Api(46, "ListPartitionReassignments", Versions.parse("0"), Versions.parse("0+"), BOTH),
    Api(47, "OffsetDelete", Versions.parse("0"), Versions.parse("none"), BROKER),
    Api(48, "DescribeClientQuotas", Versions.parse("0-1"), Versions.parse("1+"), BROKER),
    Api(49, "AlterClientQuotas", Versions.parse("0-1"), Versions.parse("1+"), BOTH),
    Api(50, "DescribeUserScramCredentials", Versions.parse("0"), Versions.parse("0+"), BOTH),
    Api(51, "AlterUserScramCredentials", Versions.parse("0"), Versions.parse("0+"), BOTH),
    Api(52, "Vote", Versions.parse("0-2"), Versions.parse("0+"), CONTROLLER),
    Api(53, "BeginQuorumEpoch", Versions.parse("0-1"), Versions.parse("1+"), CONTROLLER),
    Api(54, "EndQuorumEpoch", Versions.parse("0-1"), Versions.parse("1+"), CONTROLLER),
    Api(55, "DescribeQuorum", Versions.parse("0-2"), Versions.parse("0+"), BOTH),
    Api(56, "AlterPartition", Versions.parse("2-3"), Versions.parse("0+"), CONTROLLER),
    Api(57, "UpdateFeatures", Versions.parse("0-2"), Versions.parse("0+"), BOTH),
    Api(58, "Envelope", Versions.parse("0"), Versions.parse("0+"), CONTROLLER),
    Api(59, "FetchSnapshot", Versions.parse("0-1"), Versions.parse("0+"), CONTROLLER),
    Api(60, "DescribeCluster", Versions.parse("0-2"), Versions.parse("0+"), BOTH),
    Api(61, "DescribeProducers", Versions.parse("0"), Versions.parse("0+"), BROKER),
    Api(62, "BrokerRegistration", Versions.parse("0-4"), Versions.parse("0+"), CONTROLLER),
    Api(63, "BrokerHeartbeat", Versions.parse("0-2"), Versions.parse("0+"), CONTROLLER),
    Api(64, "UnregisterBroker", Versions.parse("0"), Versions.parse("0+"), BOTH),
    Api(65, "DescribeTransactions", Versions.parse("0"), Versions.parse("0+"), BROKER),
    Api(66, "ListTransactions", Versions.parse("0-2"), Versions.parse("0+"), BROKER),
    Api(67, "AllocateProducerIds", Versions.parse("0"), Versions.parse("0+"), CONTROLLER),
    Api(68, "ConsumerGroupHeartbeat", Versions.parse("0-1"), Versions.parse("0+"), BROKER),
    Api(69, "ConsumerGroupDescribe", Versions.parse("0-1"), Versions.parse("0+"), BROKER),
    Api(70, "ControllerRegistration", Versions.parse("0"), Versions.parse("0+"), CONTROLLER),
    Api(71, "GetTelemetrySubscriptions", Versions.parse("0"), Versions.parse("0+"), BROKER),
    Api(72, "PushTelemetry", Versions.parse("0"), Versions.parse("0+"), BROKER),
    Api(73, "AssignReplicasToDirs", Versions.parse("0"), Versions.parse("0+"), CONTROLLER),
    Api(74, "ListConfigResources", Versions.parse("0-1"), Versions.parse("0+"), BROKER),
    Api(75, "DescribeTopicPartitions", Versions.parse("0"), Versions.parse("0+"), BROKER),
    Api(76, "ShareGroupHeartbeat", Versions.parse("1"), Versions.parse("0+"), BROKER),
    Api(77, "ShareGroupDescribe", Versions.parse("1"), Versions.parse("0+"), BROKER),
    Api(78, "ShareFetch", Versions.parse("1-2"), Versions.parse("0+"), BROKER),
    Api(79, "ShareAcknowledge", Versions.parse("1-2"), Versions.parse("0+"), BROKER),
    Api(80, "AddRaftVoter", Versions.parse("0-1"), Versions.parse("0+"), BOTH),
    Api(81, "RemoveRaftVoter", Versions.parse("0"), Versions.parse("0+"), BOTH),
    Api(82, "UpdateRaftVoter", Versions.parse("0"), Versions.parse("0+"), CONTROLLER),
    Api(83, "InitializeShareGroupState", Versions.parse("0"), Versions.parse("0+"), BROKER),
    Api(84, "ReadShareGroupState", Versions.parse("0"), Versions.parse("0+"), BROKER),
    Api(85, "WriteShareGroupState", Versions.parse("0-1"), Versions.parse("0+"), BROKER),
    Api(86, "DeleteShareGroupState", Versions.parse("0"), Versions.parse("0+"), BROKER),
    Api(87, "ReadShareGroupStateSummary", Versions.parse("0-1"), Versions.parse("0+"), BROKER),
    Api(88, "StreamsGroupHeartbeat", Versions.parse("0"), Versions.parse("0+"), BROKER),
    Api(89, "StreamsGroupDescribe", Versions.parse("0"), Versions.parse("0+"), BROKER),
    Api(90, "DescribeShareGroupOffsets", Versions.parse("0-1"), Versions.parse("0+"), BROKER),
    Api(91, "AlterShareGroupOffsets", Versions.parse("0"), Versions.parse("0+"), BROKER),
    Api(92, "DeleteShareGroupOffsets", Versions.parse("0"), Versions.parse("0+"), BROKER),
]

APIS: dict[int, Api] = {api.key: api for api in _TABLE}
"""All APIs by key."""
