"""The cluster as a whole: its nodes, its features, its metadata quorum, and brokers that are gone for good."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from ottla.client.admin.driver import Call, Driver, check, failure
from ottla.client.admin.nodes import METADATA_KEY
from ottla.client.admin.operations import AclOperation, operations_of
from ottla.client.admin.outcome import Outcomes
from ottla.client.admin.routes import Route
from ottla.client.network import Build, Node
from ottla.errors import InvalidRequest, KafkaError, UnknownServerError, UnsupportedVersion
from ottla.types import Uuid
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    ReplicaState,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse

API_VERSIONS_KEY = 18
DESCRIBE_CLUSTER_KEY = 60
UPDATE_FEATURES_KEY = 57
ADD_RAFT_VOTER_KEY = 80
BROKERS, CONTROLLERS = 1, 2
METADATA_TOPIC = "__cluster_metadata"


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster: its live brokers, or its controllers where those are spoken to, and who is in charge."""

    cluster_id: str | None
    controller: Node | None
    nodes: tuple[Node, ...]
    fenced: frozenset[int] = frozenset()
    """The brokers among `nodes` that do not serve clients; only told where they were asked for."""
    authorized_operations: frozenset[AclOperation] | None = None


async def describe_cluster(
    driver: Driver, *, include_authorized_operations: bool, include_fenced_brokers: bool, timeout: float | None
) -> ClusterDescription:
    deadline = driver.deadline(timeout)
    endpoint_type = CONTROLLERS if driver.nodes.speaks_to_controllers else BROKERS

    def make(version: int) -> DescribeClusterRequest:
        if include_fenced_brokers and version < 2:
            raise UnsupportedVersion("The broker is too old to tell of fenced brokers")
        return DescribeClusterRequest(
            include_cluster_authorized_operations=include_authorized_operations,
            endpoint_type=endpoint_type,
            include_fenced_brokers=include_fenced_brokers,
        )

    def read(response: DescribeClusterResponse) -> ClusterDescription:
        check(response.error_code, response.error_message)
        nodes = {one.broker_id: Node(one.broker_id, one.host, one.port, one.rack) for one in response.brokers}
        return ClusterDescription(
            response.cluster_id,
            nodes.get(response.controller_id),
            tuple(nodes[node_id] for node_id in sorted(nodes)),
            frozenset(one.broker_id for one in response.brokers if one.is_fenced),
            operations_of(response.cluster_authorized_operations),
        )

    request = Build(DESCRIBE_CLUSTER_KEY, make, version_min=1 if endpoint_type == CONTROLLERS else 0)
    try:
        return await driver.one("DescribeCluster", driver.any_node(), request, read, deadline)
    except UnsupportedVersion:
        if endpoint_type == CONTROLLERS or include_fenced_brokers:
            raise

    def make_older(version: int) -> MetadataRequest:
        return MetadataRequest(
            topics=[],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=include_authorized_operations and 8 <= version <= 10,
        )

    def read_older(response: MetadataResponse) -> ClusterDescription:
        nodes = {one.node_id: Node(one.node_id, one.host, one.port, one.rack) for one in response.brokers}
        return ClusterDescription(
            response.cluster_id,
            nodes.get(response.controller_id),
            tuple(nodes[node_id] for node_id in sorted(nodes)),
            authorized_operations=operations_of(response.cluster_authorized_operations),
        )

    older = Build(METADATA_KEY, make_older, version_min=1, version_max=10)
    return await driver.one("DescribeCluster", driver.any_node(), older, read_older, deadline)


# Features


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Both ends included."""

    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True)
class FeatureMetadata:
    """What a node supports, what the cluster has settled on, and the offset of the last change of that."""

    finalized: Mapping[str, VersionRange]
    finalized_epoch: int | None
    supported: Mapping[str, VersionRange]


class UpgradeType(IntEnum):
    """In which direction a feature may go: down only where nothing is lost, or even where something is."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """The level a feature is to have; 0 takes it away."""

    max_version_level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


async def describe_features(driver: Driver, *, node_id: int | None, timeout: float | None) -> FeatureMetadata:
    def read(response: ApiVersionsResponse) -> FeatureMetadata:
        check(response.error_code)
        return FeatureMetadata(
            {
                one.name: VersionRange(one.min_version_level, one.max_version_level)
                for one in response.finalized_features
            },
            response.finalized_features_epoch if response.finalized_features_epoch >= 0 else None,
            {one.name: VersionRange(one.min_version, one.max_version) for one in response.supported_features},
        )

    from ottla import __version__

    about = ApiVersionsRequest(client_software_name="ottla", client_software_version=__version__)
    request = Build(API_VERSIONS_KEY, lambda version: about, version_min=3)
    route: Route[None] = driver.any_node() if node_id is None else driver.node_of(lambda key: node_id)
    return await driver.one("DescribeFeatures", route, request, read, driver.deadline(timeout))


def update_features(
    driver: Driver, updates: Mapping[str, FeatureUpdate], *, validate_only: bool, timeout: float | None
) -> Outcomes[str, None]:
    deadline = driver.deadline(timeout)
    for name, update in updates.items():
        if not name.strip():
            raise InvalidRequest("A feature has a name")
        if update.max_version_level < 0:
            raise InvalidRequest(f"{name}: a level is 0 or more, and {update.max_version_level} is not")
        if update.max_version_level == 0 and update.upgrade_type is UpgradeType.UPGRADE:
            raise InvalidRequest(f"{name}: to take a feature away is a downgrade, which must be said")

    def build(node_id: int, keys: list[str]) -> Build:
        def make(version: int) -> UpdateFeaturesRequest:
            if version == 0 and (
                validate_only or any(updates[key].upgrade_type is UpgradeType.UNSAFE_DOWNGRADE for key in keys)
            ):
                raise UnsupportedVersion("The broker is too old to validate only, and for unsafe downgrades")
            return UpdateFeaturesRequest(
                timeout_ms=driver.request_ms(deadline),
                feature_updates=[
                    FeatureUpdateKey(
                        feature=key,
                        max_version_level=updates[key].max_version_level,
                        allow_downgrade=version == 0 and updates[key].upgrade_type is not UpgradeType.UPGRADE,
                        upgrade_type=updates[key].upgrade_type if version >= 1 else UpgradeType.UPGRADE,
                    )
                    for key in keys
                ],
                validate_only=validate_only,
            )

        return Build(UPDATE_FEATURES_KEY, make)

    def read(
        node_id: int, keys: list[str], response: UpdateFeaturesResponse
    ) -> Iterable[tuple[str, KafkaError | None]]:
        check(response.error_code, response.error_message)
        told = {one.feature: failure(one.error_code, one.error_message) for one in response.results}
        # From version 2 on it is all or nothing, and an answer without an error is good news for all.
        return [(key, told.get(key)) for key in keys]

    call: Call[str, None] = Call("UpdateFeatures", driver.controller(), build, read)
    return driver.start(call.what, updates, lambda outcomes: driver.pursue(call, outcomes, deadline))


# The quorum


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A voter, or an observer, and how far it has come. Times are None where the leader has not heard from it."""

    replica_id: int
    directory_id: Uuid
    log_end_offset: int
    last_fetch_timestamp: int | None
    last_caught_up_timestamp: int | None


@dataclass(frozen=True, slots=True)
class RaftEndpoint:
    """Where a controller listens."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class QuorumInfo:
    """The metadata quorum: who leads, how far it has come, who votes, who watches, where the voters listen."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    nodes: Mapping[int, tuple[RaftEndpoint, ...]]


async def describe_metadata_quorum(driver: Driver, *, timeout: float | None) -> QuorumInfo:
    partition = DescribeQuorumRequestPartitionData(partition_index=0)
    request = DescribeQuorumRequest(
        topics=[DescribeQuorumRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])]
    )

    def read(response: DescribeQuorumResponse) -> QuorumInfo:
        check(response.error_code, response.error_message)
        told = [one for topic in response.topics if topic.topic_name == METADATA_TOPIC for one in topic.partitions]
        if len(told) != 1:
            raise UnknownServerError(f"The broker tells of {len(told)} partitions of {METADATA_TOPIC}, which has one")
        quorum = told[0]
        check(quorum.error_code, quorum.error_message)
        return QuorumInfo(
            quorum.leader_id,
            quorum.leader_epoch,
            quorum.high_watermark,
            tuple(_replica(one) for one in quorum.current_voters),
            tuple(_replica(one) for one in quorum.observers),
            {
                node.node_id: tuple(RaftEndpoint(one.name, one.host, one.port) for one in node.listeners)
                for node in response.nodes
            },
        )

    return await driver.one("DescribeQuorum", driver.any_or_active(), request, read, driver.deadline(timeout))


def _replica(told: ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        told.replica_id,
        Uuid(told.replica_directory_id),
        told.log_end_offset,
        told.last_fetch_timestamp if told.last_fetch_timestamp >= 0 else None,
        told.last_caught_up_timestamp if told.last_caught_up_timestamp >= 0 else None,
    )


async def add_raft_voter(
    driver: Driver,
    voter_id: int,
    directory_id: Uuid,
    endpoints: Iterable[RaftEndpoint],
    *,
    cluster_id: str | None,
    ack_when_committed: bool,
    timeout: float | None,
) -> None:
    deadline = driver.deadline(timeout)
    listeners = [Listener(name=one.name, host=one.host, port=one.port) for one in endpoints]

    def make(version: int) -> AddRaftVoterRequest:
        return AddRaftVoterRequest(
            cluster_id=cluster_id,
            timeout_ms=driver.request_ms(deadline),
            voter_id=voter_id,
            voter_directory_id=directory_id,
            listeners=listeners,
            ack_when_committed=True if version == 0 else ack_when_committed,
        )

    def read(response: AddRaftVoterResponse) -> None:
        check(response.error_code, response.error_message)

    await driver.one("AddRaftVoter", driver.controller(), Build(ADD_RAFT_VOTER_KEY, make), read, deadline)


async def remove_raft_voter(
    driver: Driver, voter_id: int, directory_id: Uuid, *, cluster_id: str | None, timeout: float | None
) -> None:
    request = RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=directory_id)

    def read(response: RemoveRaftVoterResponse) -> None:
        check(response.error_code, response.error_message)

    await driver.one("RemoveRaftVoter", driver.controller(), request, read, driver.deadline(timeout))


async def unregister_broker(driver: Driver, broker_id: int, *, timeout: float | None) -> None:
    request = UnregisterBrokerRequest(broker_id=broker_id)

    def read(response: UnregisterBrokerResponse) -> None:
        check(response.error_code, response.error_message)

    await driver.one("UnregisterBroker", driver.controller(), request, read, driver.deadline(timeout))
