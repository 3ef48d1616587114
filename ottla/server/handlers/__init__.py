"""One module an API, named after it, imported when its first request arrives.

A handler module has:

    API_KEY = 18
    def handle(context: RequestContext, request: XRequest) -> XResponse | Awaitable[XResponse] | None
    def failed(request: XRequest, error: KafkaError, version: int) -> XResponse      # where `error_code` is not enough
    MAY_OVERLAP = True                                                                # rarely

`handle` answers at once where it can, returns a promise or a coroutine where it must wait, and None where the client
wants no answer; `CloseConnection` ends the connection instead. A `KafkaError` that it raises is answered with `failed`,
or with the code in the response's `error_code` where there is no `failed`. The frame behind a Produce request is lent:
its record bytes may be changed in place, and are gone when `handle` has returned. All other bytes may be kept.

As in Kafka, the next request of a connection is begun when the one before is answered. `MAY_OVERLAP` lets consecutive
requests of such APIs begin while earlier ones wait; answers keep their order all the same.

What is not in `SERVED` is neither served nor advertised.
"""

from __future__ import annotations

SERVED: dict[str, frozenset[str]] = {
    "broker": frozenset(
        [
            "AddOffsetsToTxn",
            "AddPartitionsToTxn",
            "AlterConfigs",
            "AlterPartitionReassignments",
            "AlterShareGroupOffsets",
            "ApiVersions",
            "ConsumerGroupDescribe",
            "ConsumerGroupHeartbeat",
            "CreatePartitions",
            "CreateTopics",
            "DeleteGroups",
            "DeleteRecords",
            "DeleteShareGroupOffsets",
            "DeleteShareGroupState",
            "DeleteTopics",
            "DescribeCluster",
            "DescribeConfigs",
            "DescribeGroups",
            "DescribeLogDirs",
            "DescribeProducers",
            "DescribeQuorum",
            "DescribeShareGroupOffsets",
            "DescribeTopicPartitions",
            "DescribeTransactions",
            "ElectLeaders",
            "EndTxn",
            "Fetch",
            "FindCoordinator",
            "GetTelemetrySubscriptions",
            "Heartbeat",
            "IncrementalAlterConfigs",
            "InitProducerId",
            "InitializeShareGroupState",
            "JoinGroup",
            "LeaveGroup",
            "ListConfigResources",
            "ListGroups",
            "ListOffsets",
            "ListPartitionReassignments",
            "ListTransactions",
            "Metadata",
            "OffsetCommit",
            "OffsetDelete",
            "OffsetFetch",
            "OffsetForLeaderEpoch",
            "Produce",
            "PushTelemetry",
            "ReadShareGroupState",
            "ReadShareGroupStateSummary",
            "SaslAuthenticate",
            "SaslHandshake",
            "ShareAcknowledge",
            "ShareFetch",
            "ShareGroupDescribe",
            "ShareGroupHeartbeat",
            "StreamsGroupDescribe",
            "StreamsGroupHeartbeat",
            "SyncGroup",
            "TxnOffsetCommit",
            "UnregisterBroker",
            "UpdateFeatures",
            "WriteShareGroupState",
            "WriteTxnMarkers",
        ]
    ),
    "controller": frozenset(
        [
            "AllocateProducerIds",
            "AlterConfigs",
            "AlterPartition",
            "AlterPartitionReassignments",
            "ApiVersions",
            "AssignReplicasToDirs",
            "BrokerHeartbeat",
            "BrokerRegistration",
            "ControllerRegistration",
            "CreatePartitions",
            "CreateTopics",
            "DeleteTopics",
            "DescribeCluster",
            "DescribeConfigs",
            "DescribeQuorum",
            "ElectLeaders",
            "IncrementalAlterConfigs",
            "ListPartitionReassignments",
            "SaslAuthenticate",
            "SaslHandshake",
            "UnregisterBroker",
            "UpdateFeatures",
        ]
    ),
}
"""The APIs of each kind of listener."""

UNADVERTISED = frozenset(["GetTelemetrySubscriptions", "PushTelemetry"])
"""Answered, but not told of: a broker that has nobody to give clients' metrics to does not invite them."""
