"""`AsyncAdmin`: everything that can be asked of, or done to, a cluster, as flat methods for asyncio.

A method about one thing is a coroutine and returns its value. A method about several resources returns `Outcomes` at
once: `await` it for all of them, or one of its values for that one (`outcome`). Every method takes `timeout` in
seconds; without it `default.api.timeout.ms` holds. What passes by itself is tried again until then; what a broker does
not know raises `UnsupportedVersion`. The calls themselves are in a module for each noun, loaded when first used.
`Admin` in `blocking` is the same for callers that block, method by method.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from ottla.client.admin.driver import Driver
from ottla.client.admin.network import AdminNetwork
from ottla.client.admin.outcome import Outcomes
from ottla.client.config import AdminConfig, read_settings
from ottla.client.errors import ClientClosed
from ottla.types import TopicPartition, Uuid
from ottla.world import ClientWorld
from ottla.world.threads import running_world

if TYPE_CHECKING:
    from ottla.client.admin.acls import AclBinding, AclBindingFilter
    from ottla.client.admin.cluster import (
        ClusterDescription,
        FeatureMetadata,
        FeatureUpdate,
        QuorumInfo,
        RaftEndpoint,
    )
    from ottla.client.admin.configs import AlterConfigOp, Config, ConfigResource, ConfigResourceType
    from ottla.client.admin.group_offsets import GroupOffsets
    from ottla.client.admin.groups import (
        ClassicGroupDescription,
        ConsumerGroupDescription,
        GroupListing,
        GroupState,
        GroupType,
        ShareGroupDescription,
    )
    from ottla.client.admin.log_dirs import LogDirs, ReplicaLogDir, TopicPartitionReplica
    from ottla.client.admin.offsets import ListedOffset, OffsetSpec
    from ottla.client.admin.quotas import QuotaEntity, QuotaFilter, Quotas
    from ottla.client.admin.reassignments import ElectionType, PartitionReassignment
    from ottla.client.admin.scram import ScramChange, ScramCredentialInfo
    from ottla.client.admin.share_offsets import ShareOffsets
    from ottla.client.admin.streams_groups import StreamsGroupDescription
    from ottla.client.admin.tokens import DelegationToken, KafkaPrincipal
    from ottla.client.admin.topics import (
        NewPartitions,
        NewTopic,
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
    from ottla.client.group import OffsetAndMetadata
    from ottla.client.metrics import MetricValues


class AsyncAdmin:
    """An admin on the running asyncio loop, or on a given world. `async with` closes it."""

    def __init__(
        self, config: Mapping[str, object] | None = None, *, world: ClientWorld | None = None, **settings: object
    ) -> None:
        """Settings by Kafka's names in a mapping, or as keywords: `AsyncAdmin(bootstrap_servers="localhost:9092")`."""
        self.config: AdminConfig = read_settings(AdminConfig, config, settings)
        self._start(world or running_world())

    def _start(self, world: ClientWorld) -> None:
        self._network = self._connect(world)
        self._open_driver: Driver | None = Driver(self._network, self.config)
        self._instance_id: Uuid | None = None

    def _connect(self, world: ClientWorld) -> AdminNetwork:
        return AdminNetwork(world, self.config, name=f"AdminClient clientId={self.config.client_id}")

    @property
    def _driver(self) -> Driver:
        if self._open_driver is None:
            raise ClientClosed("The admin is closed")
        return self._open_driver

    async def close(self) -> None:
        """End all connections; what is under way fails with `ClientClosed`. A second call does nothing."""
        if self._open_driver is not None:
            self._open_driver = None
            self._network.close()

    async def __aenter__(self) -> AsyncAdmin:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Topics

    def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False, timeout: float | None = None
    ) -> Outcomes[str, TopicCreated]:
        """Create topics. With `validate_only` everything is checked and nothing created."""
        from ottla.client.admin.topics import create_topics

        return create_topics(self._driver, topics, validate_only=validate_only, timeout=timeout)

    def delete_topics(self, topics: Iterable[TopicKey], *, timeout: float | None = None) -> Outcomes[TopicKey, None]:
        """Delete topics, by name or by id."""
        from ottla.client.admin.topics import delete_topics

        return delete_topics(self._driver, topics, timeout=timeout)

    async def list_topics(
        self, *, include_internal: bool = False, timeout: float | None = None
    ) -> dict[str, TopicListing]:
        """All topics this principal may see, by name."""
        from ottla.client.admin.topics import list_topics

        return await list_topics(self._driver, include_internal=include_internal, timeout=timeout)

    def describe_topics(
        self,
        topics: Iterable[TopicKey],
        *,
        include_authorized_operations: bool = False,
        partitions_a_page: int = 2000,
        timeout: float | None = None,
    ) -> Outcomes[TopicKey, TopicDescription]:
        """Topics with their partitions: leaders, replicas, who is in sync. By name or by id."""
        from ottla.client.admin.topics import describe_topics

        return describe_topics(
            self._driver,
            topics,
            include_authorized_operations=include_authorized_operations,
            partitions_a_page=partitions_a_page,
            timeout=timeout,
        )

    def create_partitions(
        self, partitions: Mapping[str, NewPartitions], *, validate_only: bool = False, timeout: float | None = None
    ) -> Outcomes[str, None]:
        """Give topics more partitions. Records that are there stay where they are."""
        from ottla.client.admin.topics import create_partitions

        return create_partitions(self._driver, partitions, validate_only=validate_only, timeout=timeout)

    # Offsets and records of partitions

    def list_offsets(
        self,
        specs: Mapping[TopicPartition, OffsetSpec],
        *,
        isolation_level: str = "read_uncommitted",
        timeout: float | None = None,
    ) -> Outcomes[TopicPartition, ListedOffset]:
        """An offset of each partition: `OffsetSpec.earliest()`, `.latest()`, `.for_timestamp(ms)` and others."""
        from ottla.client.admin.offsets import list_offsets

        return list_offsets(self._driver, specs, isolation_level=isolation_level, timeout=timeout)

    def list_log_ends(
        self, wanted: Mapping[int, Iterable[TopicPartition]], *, timeout: float | None = None
    ) -> Outcomes[int, dict[TopicPartition, int]]:
        """Where the logs of partitions end on each of these brokers, also on those that only follow and above the high
        watermark; what a broker has no replica of is left out."""
        from ottla.client.admin.offsets import list_log_ends

        return list_log_ends(self._driver, wanted, timeout=timeout)

    def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> Outcomes[TopicPartition, int]:
        """Delete all records before an offset, -1 for all there are; the outcome is where the partition begins now."""
        from ottla.client.admin.offsets import delete_records

        return delete_records(self._driver, before, timeout=timeout)

    # Settings

    def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        names: Iterable[str] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        timeout: float | None = None,
    ) -> Outcomes[ConfigResource, Config]:
        """All settings of each resource by name, or those of `names`."""
        from ottla.client.admin.configs import describe_configs

        return describe_configs(
            self._driver,
            resources,
            names=names,
            include_synonyms=include_synonyms,
            include_documentation=include_documentation,
            timeout=timeout,
        )

    def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Iterable[AlterConfigOp]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> Outcomes[ConfigResource, None]:
        """Change settings, each by itself; those that are not named stay as they are."""
        from ottla.client.admin.configs import incremental_alter_configs

        return incremental_alter_configs(self._driver, changes, validate_only=validate_only, timeout=timeout)

    async def list_config_resources(
        self, types: Iterable[ConfigResourceType] = (), *, timeout: float | None = None
    ) -> list[ConfigResource]:
        """Every resource of these types, or of all types, that has or can have settings of its own."""
        from ottla.client.admin.configs import list_config_resources

        return await list_config_resources(self._driver, types, timeout=timeout)

    async def list_client_metrics_resources(self, *, timeout: float | None = None) -> list[str]:
        """The names of the client metrics subscriptions."""
        from ottla.client.admin.configs import ConfigResourceType, list_config_resources

        wanted = [ConfigResourceType.CLIENT_METRICS]
        return [one.name for one in await list_config_resources(self._driver, wanted, timeout=timeout)]

    # Groups

    async def list_groups(
        self,
        *,
        states: Iterable[GroupState] = (),
        types: Iterable[GroupType] = (),
        protocol_types: Iterable[str] = (),
        timeout: float | None = None,
    ) -> list[GroupListing]:
        """All groups, or those in one of the states, of one of the types, with one of the protocols."""
        from ottla.client.admin.groups import list_groups

        return await list_groups(
            self._driver, states=states, types=types, protocol_types=protocol_types, timeout=timeout
        )

    async def list_consumer_groups(
        self,
        *,
        states: Iterable[GroupState] = (),
        types: Iterable[GroupType] = (),
        timeout: float | None = None,
    ) -> list[GroupListing]:
        """The groups of consumers in either protocol, and those that only keep offsets."""
        from ottla.client.admin.groups import list_groups

        protocols = ("consumer", "")
        return await list_groups(self._driver, states=states, types=types, protocol_types=protocols, timeout=timeout)

    def describe_consumer_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
    ) -> Outcomes[str, ConsumerGroupDescription]:
        """Groups of consumers in either protocol: state, members, who reads what."""
        from ottla.client.admin.groups import describe_consumer_groups

        return describe_consumer_groups(
            self._driver,
            group_ids,
            include_authorized_operations=include_authorized_operations,
            timeout=timeout,
        )

    def describe_classic_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
    ) -> Outcomes[str, ClassicGroupDescription]:
        """Classic groups of any protocol, Connect's too."""
        from ottla.client.admin.groups import describe_classic_groups

        return describe_classic_groups(
            self._driver,
            group_ids,
            include_authorized_operations=include_authorized_operations,
            timeout=timeout,
        )

    def describe_share_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
    ) -> Outcomes[str, ShareGroupDescription]:
        """Share groups: state and members."""
        from ottla.client.admin.groups import describe_share_groups

        return describe_share_groups(
            self._driver,
            group_ids,
            include_authorized_operations=include_authorized_operations,
            timeout=timeout,
        )

    def describe_streams_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
    ) -> Outcomes[str, StreamsGroupDescription]:
        """Groups of Streams applications: state, topology, members and their tasks."""
        from ottla.client.admin.streams_groups import describe_streams_groups

        return describe_streams_groups(
            self._driver,
            group_ids,
            include_authorized_operations=include_authorized_operations,
            timeout=timeout,
        )

    def delete_groups(self, group_ids: Iterable[str], *, timeout: float | None = None) -> Outcomes[str, None]:
        """Delete groups of any type, with their offsets. They must have no members."""
        from ottla.client.admin.groups import delete_groups

        return delete_groups(self._driver, group_ids, timeout=timeout)

    def delete_consumer_groups(self, group_ids: Iterable[str], *, timeout: float | None = None) -> Outcomes[str, None]:
        """`delete_groups` under the name that Kafka has for it."""
        return self.delete_groups(group_ids, timeout=timeout)

    def delete_share_groups(self, group_ids: Iterable[str], *, timeout: float | None = None) -> Outcomes[str, None]:
        """`delete_groups` under the name that Kafka has for it."""
        return self.delete_groups(group_ids, timeout=timeout)

    def delete_streams_groups(self, group_ids: Iterable[str], *, timeout: float | None = None) -> Outcomes[str, None]:
        """`delete_groups` under the name that Kafka has for it."""
        return self.delete_groups(group_ids, timeout=timeout)

    async def remove_members_from_consumer_group(
        self,
        group_id: str,
        group_instance_ids: Iterable[str] | None = None,
        *,
        reason: str | None = None,
        timeout: float | None = None,
    ) -> Outcomes[str, None]:
        """Take members out of a classic group: static ones by their instance ids, or all of them."""
        from ottla.client.admin.groups import remove_members_from_consumer_group

        return await remove_members_from_consumer_group(
            self._driver, group_id, group_instance_ids, reason=reason, timeout=timeout
        )

    # Offsets of groups

    def list_consumer_group_offsets(
        self,
        groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> Outcomes[str, GroupOffsets]:
        """What groups have committed: all, or for the partitions named with the group.

        With `require_stable`, offsets that an open transaction may still change are waited for.
        """
        from ottla.client.admin.group_offsets import list_consumer_group_offsets

        return list_consumer_group_offsets(self._driver, groups, require_stable=require_stable, timeout=timeout)

    def alter_consumer_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        timeout: float | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """Commit offsets for a group without members; a group that is not there is made."""
        from ottla.client.admin.group_offsets import alter_consumer_group_offsets

        return alter_consumer_group_offsets(self._driver, group_id, offsets, timeout=timeout)

    def delete_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> Outcomes[TopicPartition, None]:
        """Forget what a group has committed for partitions that none of its members subscribes to."""
        from ottla.client.admin.group_offsets import delete_consumer_group_offsets

        return delete_consumer_group_offsets(self._driver, group_id, partitions, timeout=timeout)

    def list_streams_group_offsets(
        self,
        groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> Outcomes[str, GroupOffsets]:
        """`list_consumer_group_offsets` of Streams groups, which commit as consumers do."""
        return self.list_consumer_group_offsets(groups, require_stable=require_stable, timeout=timeout)

    def alter_streams_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        timeout: float | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """`alter_consumer_group_offsets` of a Streams group."""
        return self.alter_consumer_group_offsets(group_id, offsets, timeout=timeout)

    def delete_streams_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> Outcomes[TopicPartition, None]:
        """`delete_consumer_group_offsets` of a Streams group."""
        return self.delete_consumer_group_offsets(group_id, partitions, timeout=timeout)

    def list_share_group_offsets(
        self,
        groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        *,
        timeout: float | None = None,
    ) -> Outcomes[str, ShareOffsets]:
        """Where share groups read from: in all their partitions, or in those named with the group."""
        from ottla.client.admin.share_offsets import list_share_group_offsets

        return list_share_group_offsets(self._driver, groups, timeout=timeout)

    def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> Outcomes[TopicPartition, None]:
        """Let a share group without members read from these offsets."""
        from ottla.client.admin.share_offsets import alter_share_group_offsets

        return alter_share_group_offsets(self._driver, group_id, offsets, timeout=timeout)

    def delete_share_group_offsets(
        self, group_id: str, topics: Iterable[str], *, timeout: float | None = None
    ) -> Outcomes[str, None]:
        """Forget how far a share group without members has come in these topics."""
        from ottla.client.admin.share_offsets import delete_share_group_offsets

        return delete_share_group_offsets(self._driver, group_id, topics, timeout=timeout)

    # Log directories

    def describe_log_dirs(
        self,
        brokers: Iterable[int],
        *,
        partitions: Iterable[TopicPartition] | None = None,
        timeout: float | None = None,
    ) -> Outcomes[int, LogDirs]:
        """The log directories of each broker, with the replicas in them: all, or those of `partitions`."""
        from ottla.client.admin.log_dirs import describe_log_dirs

        return describe_log_dirs(self._driver, brokers, partitions=partitions, timeout=timeout)

    def describe_replica_log_dirs(
        self, replicas: Iterable[TopicPartitionReplica], *, timeout: float | None = None
    ) -> Outcomes[TopicPartitionReplica, ReplicaLogDir]:
        """In which directory of its broker each replica lies, and to which it is being moved."""
        from ottla.client.admin.log_dirs import describe_replica_log_dirs

        return describe_replica_log_dirs(self._driver, replicas, timeout=timeout)

    def alter_replica_log_dirs(
        self, moves: Mapping[TopicPartitionReplica, str], *, timeout: float | None = None
    ) -> Outcomes[TopicPartitionReplica, None]:
        """Have brokers move replicas to other directories; a replica that is not there yet will be made there."""
        from ottla.client.admin.log_dirs import alter_replica_log_dirs

        return alter_replica_log_dirs(self._driver, moves, timeout=timeout)

    # The cluster

    async def describe_cluster(
        self,
        *,
        include_authorized_operations: bool = False,
        include_fenced_brokers: bool = False,
        timeout: float | None = None,
    ) -> ClusterDescription:
        """The cluster's id, its brokers and the node in charge; its controllers, with `bootstrap.controllers`."""
        from ottla.client.admin.cluster import describe_cluster

        return await describe_cluster(
            self._driver,
            include_authorized_operations=include_authorized_operations,
            include_fenced_brokers=include_fenced_brokers,
            timeout=timeout,
        )

    async def describe_features(self, *, node_id: int | None = None, timeout: float | None = None) -> FeatureMetadata:
        """The features that a node supports, any or the one given, and those that the cluster has settled on."""
        from ottla.client.admin.cluster import describe_features

        return await describe_features(self._driver, node_id=node_id, timeout=timeout)

    def update_features(
        self, updates: Mapping[str, FeatureUpdate], *, validate_only: bool = False, timeout: float | None = None
    ) -> Outcomes[str, None]:
        """Set the levels of features, such as `metadata.version`."""
        from ottla.client.admin.cluster import update_features

        return update_features(self._driver, updates, validate_only=validate_only, timeout=timeout)

    async def describe_metadata_quorum(self, *, timeout: float | None = None) -> QuorumInfo:
        """Who leads the metadata quorum, who votes and who watches, and how far each has come."""
        from ottla.client.admin.cluster import describe_metadata_quorum

        return await describe_metadata_quorum(self._driver, timeout=timeout)

    async def add_raft_voter(
        self,
        voter_id: int,
        directory_id: Uuid,
        endpoints: Iterable[RaftEndpoint],
        *,
        cluster_id: str | None = None,
        ack_when_committed: bool = True,
        timeout: float | None = None,
    ) -> None:
        """Make a controller that watches a voter of the quorum."""
        from ottla.client.admin.cluster import add_raft_voter

        await add_raft_voter(
            self._driver,
            voter_id,
            directory_id,
            endpoints,
            cluster_id=cluster_id,
            ack_when_committed=ack_when_committed,
            timeout=timeout,
        )

    async def remove_raft_voter(
        self,
        voter_id: int,
        directory_id: Uuid,
        *,
        cluster_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Take a voter out of the quorum."""
        from ottla.client.admin.cluster import remove_raft_voter

        await remove_raft_voter(self._driver, voter_id, directory_id, cluster_id=cluster_id, timeout=timeout)

    async def unregister_broker(self, broker_id: int, *, timeout: float | None = None) -> None:
        """Have the cluster forget a broker that is gone for good."""
        from ottla.client.admin.cluster import unregister_broker

        await unregister_broker(self._driver, broker_id, timeout=timeout)

    # Replicas and leaders

    def alter_partition_reassignments(
        self,
        moves: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout: float | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """Move partitions to other brokers, the preferred leader first; None calls off a move that is under way."""
        from ottla.client.admin.reassignments import alter_partition_reassignments

        return alter_partition_reassignments(
            self._driver,
            moves,
            allow_replication_factor_change=allow_replication_factor_change,
            timeout=timeout,
        )

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout: float | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """The moves under way: all, or those of `partitions`."""
        from ottla.client.admin.reassignments import list_partition_reassignments

        return await list_partition_reassignments(self._driver, partitions, timeout=timeout)

    async def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout: float | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """Hold elections for these partitions, or for all; `ElectionNotNeeded` says that the right one leads already.

        Without `partitions` the outcomes are of those for which an election was held.
        """
        from ottla.client.admin.reassignments import elect_leaders

        return await elect_leaders(self._driver, election_type, partitions, timeout=timeout)

    # Transactions and producers

    async def list_transactions(
        self,
        *,
        states: Iterable[TransactionState] = (),
        producer_ids: Iterable[int] = (),
        running_longer_than_ms: int | None = None,
        transactional_id_pattern: str | None = None,
        timeout: float | None = None,
    ) -> list[TransactionListing]:
        """The transactional ids that the brokers coordinate: all, or those that pass every filter."""
        from ottla.client.admin.transactions import list_transactions

        return await list_transactions(
            self._driver,
            states=states,
            producer_ids=producer_ids,
            running_longer_than_ms=running_longer_than_ms,
            transactional_id_pattern=transactional_id_pattern,
            timeout=timeout,
        )

    def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None
    ) -> Outcomes[str, TransactionDescription]:
        """The transaction of each id: state, producer, partitions."""
        from ottla.client.admin.transactions import describe_transactions

        return describe_transactions(self._driver, transactional_ids, timeout=timeout)

    async def abort_transaction(self, spec: AbortTransactionSpec, *, timeout: float | None = None) -> None:
        """End a transaction that hangs in a partition, whose coordinator has forgotten it (KIP-664)."""
        from ottla.client.admin.transactions import abort_transaction

        await abort_transaction(self._driver, spec, timeout=timeout)

    def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None
    ) -> Outcomes[str, ProducerIdAndEpoch]:
        """Shut out the producers of these ids and abort what they have open; the outcome is the new epoch."""
        from ottla.client.admin.transactions import fence_producers

        return fence_producers(self._driver, transactional_ids, timeout=timeout)

    async def force_terminate_transaction(self, transactional_id: str, *, timeout: float | None = None) -> None:
        """`fence_producers` of one id, under the name that Kafka has for it (KIP-939)."""
        await self.fence_producers([transactional_id], timeout=timeout)[transactional_id]

    def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker_id: int | None = None,
        timeout: float | None = None,
    ) -> Outcomes[TopicPartition, list[ProducerState]]:
        """The producers that each partition's leader remembers, or that the replica on `broker_id` does."""
        from ottla.client.admin.transactions import describe_producers

        return describe_producers(self._driver, partitions, broker_id=broker_id, timeout=timeout)

    # Access rules, quotas, users, tokens

    async def describe_acls(
        self, filter: AclBindingFilter | None = None, *, timeout: float | None = None
    ) -> list[AclBinding]:
        """The access rules that the filter lets through; all without one."""
        from ottla.client.admin.acls import AclBindingFilter, describe_acls

        return await describe_acls(self._driver, filter or AclBindingFilter(), timeout=timeout)

    def create_acls(self, acls: Iterable[AclBinding], *, timeout: float | None = None) -> Outcomes[AclBinding, None]:
        """Add access rules."""
        from ottla.client.admin.acls import create_acls

        return create_acls(self._driver, acls, timeout=timeout)

    def delete_acls(
        self, filters: Iterable[AclBindingFilter], *, timeout: float | None = None
    ) -> Outcomes[AclBindingFilter, list[AclBinding]]:
        """Delete every access rule that one of the filters lets through; the outcomes are the rules deleted."""
        from ottla.client.admin.acls import delete_acls

        return delete_acls(self._driver, filters, timeout=timeout)

    async def describe_client_quotas(
        self, filter: QuotaFilter | None = None, *, strict: bool = False, timeout: float | None = None
    ) -> dict[QuotaEntity, Quotas]:
        """The quotas of the entities that match; with `strict`, of those that have no other types than the filter."""
        from ottla.client.admin.quotas import describe_client_quotas

        return await describe_client_quotas(self._driver, filter or {}, strict=strict, timeout=timeout)

    def alter_client_quotas(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> Outcomes[QuotaEntity, None]:
        """Set quotas of entities by name; None takes one away."""
        from ottla.client.admin.quotas import alter_client_quotas

        return alter_client_quotas(self._driver, changes, validate_only=validate_only, timeout=timeout)

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> Outcomes[str, tuple[ScramCredentialInfo, ...]]:
        """Which SCRAM credentials users have: those named, or all that have any."""
        from ottla.client.admin.scram import describe_user_scram_credentials

        return await describe_user_scram_credentials(self._driver, users, timeout=timeout)

    def alter_user_scram_credentials(
        self, changes: Iterable[ScramChange], *, timeout: float | None = None
    ) -> Outcomes[str, None]:
        """Set and delete passwords of SCRAM users; the outcomes are by user. Passwords do not leave the client."""
        from ottla.client.admin.scram import alter_user_scram_credentials

        return alter_user_scram_credentials(self._driver, changes, timeout=timeout)

    async def create_delegation_token(
        self,
        *,
        owner: KafkaPrincipal | None = None,
        renewers: Iterable[KafkaPrincipal] = (),
        max_lifetime_ms: int = -1,
        timeout: float | None = None,
    ) -> DelegationToken:
        """Make a token for this principal, or for `owner`."""
        from ottla.client.admin.tokens import create_delegation_token

        return await create_delegation_token(
            self._driver, owner=owner, renewers=renewers, max_lifetime_ms=max_lifetime_ms, timeout=timeout
        )

    async def renew_delegation_token(
        self, hmac: bytes, *, renew_period_ms: int = -1, timeout: float | None = None
    ) -> int:
        """Prolong a token; when it ends now, in milliseconds since 1970."""
        from ottla.client.admin.tokens import renew_delegation_token

        return await renew_delegation_token(self._driver, hmac, period_ms=renew_period_ms, timeout=timeout)

    async def expire_delegation_token(
        self, hmac: bytes, *, expiry_period_ms: int = -1, timeout: float | None = None
    ) -> int:
        """End a token after that time, -1 for at once; when it ends now."""
        from ottla.client.admin.tokens import expire_delegation_token

        return await expire_delegation_token(self._driver, hmac, period_ms=expiry_period_ms, timeout=timeout)

    async def describe_delegation_tokens(
        self, owners: Iterable[KafkaPrincipal] | None = None, *, timeout: float | None = None
    ) -> list[DelegationToken]:
        """The tokens of these owners, or all that this principal may see."""
        from ottla.client.admin.tokens import describe_delegation_tokens

        return await describe_delegation_tokens(self._driver, owners, timeout=timeout)

    # This client

    def metrics(self) -> MetricValues:
        """What this admin measures, under Kafka's names: `metrics().value("request-total")`."""
        return self._network.metrics.snapshot()

    async def client_instance_id(self, *, timeout: float | None = None) -> Uuid:
        """The id that the brokers give this client for its metrics (KIP-714); the same each time."""
        from ottla.client.admin.telemetry import client_instance_id

        if self._instance_id is None:
            self._instance_id = await client_instance_id(self._driver, timeout=timeout)
        return self._instance_id
