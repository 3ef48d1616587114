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

What is not listed here is neither served nor advertised.
"""

from __future__ import annotations

from importlib.util import find_spec

_DATA = (
    "produce fetch list_offsets offset_for_leader_epoch delete_records init_producer_id describe_producers "
    "describe_log_dirs"
)
_LANDED = [
    "".join(word.capitalize() for word in module.split("_"))
    for module in _DATA.split()
    if find_spec(f"{__name__}.{module}") is not None
]

SERVED: dict[str, frozenset[str]] = {
    "broker": frozenset(
        [
            "AlterConfigs",
            "AlterPartitionReassignments",
            "ApiVersions",
            "CreatePartitions",
            "CreateTopics",
            "DeleteTopics",
            "DescribeCluster",
            "DescribeConfigs",
            "DescribeQuorum",
            "DescribeTopicPartitions",
            "ElectLeaders",
            "FindCoordinator",
            "IncrementalAlterConfigs",
            "ListConfigResources",
            "ListPartitionReassignments",
            "Metadata",
            "UnregisterBroker",
            "UpdateFeatures",
            *_LANDED,
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
            "UnregisterBroker",
            "UpdateFeatures",
        ]
    ),
}
"""The APIs of each kind of listener."""
