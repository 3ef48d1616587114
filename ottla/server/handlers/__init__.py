"""The APIs of a broker's listeners: one module an API, named after it, imported when its first request arrives.

A handler module has:

    API_KEY = 18
    def handle(context: BrokerContext, request: XRequest) -> XResponse | Awaitable[XResponse] | None
    def failed(request: XRequest, error: KafkaError, version: int) -> XResponse      # where `error_code` is not enough
    MAY_OVERLAP = True                                                                # rarely

`handle` answers at once where it can, returns a promise or a coroutine where it must wait, and None where the client
wants no answer; `CloseConnection` ends the connection instead. A `KafkaError` that it raises is answered with `failed`,
or with the code in the response's `error_code` where there is no `failed`. The frame behind a Produce request is lent:
its record bytes may be changed in place, and are gone when `handle` has returned. All other bytes may be kept.

As in Kafka, the next request of a connection is begun when the one before is answered. `MAY_OVERLAP` lets consecutive
requests of such APIs begin while earlier ones wait; answers keep their order all the same.

The context says which role serves the request, and so which services are there: a `BrokerContext` here, a
`ControllerContext` in `controller_handlers`, and in `shared_handlers`, for both, what every node has. What is in none
of their `SERVED` is neither served nor advertised; `roles` puts them together.
"""

from __future__ import annotations

SERVED = frozenset(
    [
        "AddOffsetsToTxn",
        "AddPartitionsToTxn",
        "AlterConfigs",
        "AlterPartitionReassignments",
        "AlterShareGroupOffsets",
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
)

UNADVERTISED = frozenset(["GetTelemetrySubscriptions", "PushTelemetry"])
"""Answered, but not told of: a broker that has nobody to give clients' metrics to does not invite them."""
