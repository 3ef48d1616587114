"""`Admin`: the same as `AsyncAdmin`, for callers that block.

Each method waits until everything it was asked for is settled, `timeout` seconds at most, and then returns the same
values: a value, or `Outcomes` in which nothing is open. The client lives on a loop of its own, on a thread of its own;
an `Admin` can be used from any number of threads. `tests/unit/client/admin/test_faces.py` holds the two together.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from ottla.client.admin.async_admin import AsyncAdmin
from ottla.client.admin.outcome import Outcomes
from ottla.client.config import AdminConfig
from ottla.client.errors import ClientClosed
from ottla.types import TopicPartition, Uuid
from ottla.world.threads import LoopClosed, LoopThread

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

T = TypeVar("T")


class Admin:
    """An admin that blocks. `with` closes it."""

    def __init__(self, config: Mapping[str, object] | None = None, **settings: object) -> None:
        """Settings by Kafka's names in a mapping, or as keywords: `Admin(bootstrap_servers="localhost:9092")`."""
        self._thread = LoopThread("ottla-admin")
        try:
            self._admin = AsyncAdmin(config, world=self._thread.world, **settings)
        except BaseException:
            self._thread.close()
            raise

    @property
    def config(self) -> AdminConfig:
        """The settings it was made with."""
        return self._admin.config

    def close(self) -> None:
        """End all connections and the thread; what is under way fails. A second call does nothing."""
        try:
            self._thread.run(self._admin.close())
        except LoopClosed:
            return
        self._thread.close()

    def __enter__(self) -> Admin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait(self, call: Callable[[], Awaitable[T]]) -> T:
        """What the call gives, made and awaited on the loop's thread. The call itself keeps to its time-out."""

        async def run() -> T:
            return await call()

        try:
            return self._thread.run(run())
        except LoopClosed as error:
            raise ClientClosed(str(error)) from None

    def _call(self, call: Callable[[], T]) -> T:
        """What the call gives on the loop's thread, or here when that has ended."""
        try:
            return self._thread.call(call)
        except LoopClosed:
            return call()

    # Topics

    def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False, timeout: float | None = None
    ) -> Outcomes[str, TopicCreated]:
        """Create topics. With `validate_only` everything is checked and nothing created."""
        return self._wait(lambda: self._admin.create_topics(topics, validate_only=validate_only, timeout=timeout))

    def delete_topics(self, topics: Iterable[TopicKey], *, timeout: float | None = None) -> Outcomes[TopicKey, None]:
        """Delete topics, by name or by id."""
        return self._wait(lambda: self._admin.delete_topics(topics, timeout=timeout))

    def list_topics(self, *, include_internal: bool = False, timeout: float | None = None) -> dict[str, TopicListing]:
        """All topics this principal may see, by name."""
        return self._wait(lambda: self._admin.list_topics(include_internal=include_internal, timeout=timeout))

    def describe_topics(
        self,
        topics: Iterable[TopicKey],
        *,
        include_authorized_operations: bool = False,
        partitions_a_page: int = 2000,
        timeout: float | None = None,
    ) -> Outcomes[TopicKey, TopicDescription]:
        """Topics with their partitions: leaders, replicas, who is in sync. By name or by id."""
        return self._wait(
            lambda: self._admin.describe_topics(
                topics,
                include_authorized_operations=include_authorized_operations,
                partitions_a_page=partitions_a_page,
                timeout=timeout,
            )
        )

    def create_partitions(
        self, partitions: Mapping[str, NewPartitions], *, validate_only: bool = False, timeout: float | None = None
    ) -> Outcomes[str, None]:
        """Give topics more partitions. Records that are there stay where they are."""
        return self._wait(
            lambda: self._admin.create_partitions(partitions, validate_only=validate_only, timeout=timeout)
        )

    # Offsets and records of partitions

    def list_offsets(
        self,
        specs: Mapping[TopicPartition, OffsetSpec],
        *,
        isolation_level: str = "read_uncommitted",
        timeout: float | None = None,
    ) -> Outcomes[TopicPartition, ListedOffset]:
        """An offset of each partition: `OffsetSpec.earliest()`, `.latest()`, `.for_timestamp(ms)` and others."""
        return self._wait(lambda: self._admin.list_offsets(specs, isolation_level=isolation_level, timeout=timeout))

    def list_log_ends(
        self, wanted: Mapping[int, Iterable[TopicPartition]], *, timeout: float | None = None
    ) -> Outcomes[int, dict[TopicPartition, int]]:
        """Where the logs of partitions end on each of these brokers, also on those that only follow and above the high
        watermark; what a broker has no replica of is left out."""
        return self._wait(lambda: self._admin.list_log_ends(wanted, timeout=timeout))

    def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> Outcomes[TopicPartition, int]:
        """Delete all records before an offset, -1 for all there are; the outcome is where the partition begins now."""
        return self._wait(lambda: self._admin.delete_records(before, timeout=timeout))

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
        return self._wait(
            lambda: self._admin.describe_configs(
                resources,
                names=names,
                include_synonyms=include_synonyms,
                include_documentation=include_documentation,
                timeout=timeout,
            )
        )

    def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Iterable[AlterConfigOp]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> Outcomes[ConfigResource, None]:
        """Change settings, each by itself; those that are not named stay as they are."""
        return self._wait(
            lambda: self._admin.incremental_alter_configs(changes, validate_only=validate_only, timeout=timeout)
        )

    def list_config_resources(
        self, types: Iterable[ConfigResourceType] = (), *, timeout: float | None = None
    ) -> list[ConfigResource]:
        """Every resource of these types, or of all types, that has or can have settings of its own."""
        return self._wait(lambda: self._admin.list_config_resources(types, timeout=timeout))

    def list_client_metrics_resources(self, *, timeout: float | None = None) -> list[str]:
        """The names of the client metrics subscriptions."""
        return self._wait(lambda: self._admin.list_client_metrics_resources(timeout=timeout))

    # Groups

    def list_groups(
        self,
        *,
        states: Iterable[GroupState] = (),
        types: Iterable[GroupType] = (),
        protocol_types: Iterable[str] = (),
        timeout: float | None = None,
    ) -> list[GroupListing]:
        """All groups, or those in one of the states, of one of the types, with one of the protocols."""
        return self._wait(
            lambda: self._admin.list_groups(states=states, types=types, protocol_types=protocol_types, timeout=timeout)
        )

    def list_consumer_groups(
        self,
        *,
        states: Iterable[GroupState] = (),
        types: Iterable[GroupType] = (),
        timeout: float | None = None,
    ) -> list[GroupListing]:
        """The groups of consumers in either protocol, and those that only keep offsets."""
        return self._wait(lambda: self._admin.list_consumer_groups(states=states, types=types, timeout=timeout))

    def describe_consumer_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
    ) -> Outcomes[str, ConsumerGroupDescription]:
        """Groups of consumers in either protocol: state, members, who reads what."""
        return self._wait(
            lambda: self._admin.describe_consumer_groups(
                group_ids, include_authorized_operations=include_authorized_operations, timeout=timeout
            )
        )

    def describe_classic_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
    ) -> Outcomes[str, ClassicGroupDescription]:
        """Classic groups of any protocol, Connect's too."""
        return self._wait(
            lambda: self._admin.describe_classic_groups(
                group_ids, include_authorized_operations=include_authorized_operations, timeout=timeout
            )
        )

    def describe_share_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
    ) -> Outcomes[str, ShareGroupDescription]:
        """Share groups: state and members."""
        return self._wait(
            lambda: self._admin.describe_share_groups(
                group_ids, include_authorized_operations=include_authorized_operations, timeout=timeout
            )
        )

    def describe_streams_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
    ) -> Outcomes[str, StreamsGroupDescription]:
        """Groups of Streams applications: state, topology, members and their tasks."""
        return self._wait(
            lambda: self._admin.describe_streams_groups(
                group_ids, include_authorized_operations=include_authorized_operations, timeout=timeout
            )
        )

    def delete_groups(self, group_ids: Iterable[str], *, timeout: float | None = None) -> Outcomes[str, None]:
        """Delete groups of any type, with their offsets. They must have no members."""
        return self._wait(lambda: self._admin.delete_groups(group_ids, timeout=timeout))

    def delete_consumer_groups(self, group_ids: Iterable[str], *, timeout: float | None = None) -> Outcomes[str, None]:
        """`delete_groups` under the name that Kafka has for it."""
        return self._wait(lambda: self._admin.delete_consumer_groups(group_ids, timeout=timeout))

    def delete_share_groups(self, group_ids: Iterable[str], *, timeout: float | None = None) -> Outcomes[str, None]:
        """`delete_groups` under the name that Kafka has for it."""
        return self._wait(lambda: self._admin.delete_share_groups(group_ids, timeout=timeout))

    def delete_streams_groups(self, group_ids: Iterable[str], *, timeout: float | None = None) -> Outcomes[str, None]:
        """`delete_groups` under the name that Kafka has for it."""
        return self._wait(lambda: self._admin.delete_streams_groups(group_ids, timeout=timeout))

    def remove_members_from_consumer_group(
        self,
        group_id: str,
        group_instance_ids: Iterable[str] | None = None,
        *,
        reason: str | None = None,
        timeout: float | None = None,
    ) -> Outcomes[str, None]:
        """Take members out of a classic group: static ones by their instance ids, or all of them."""
        return self._wait(
            lambda: self._admin.remove_members_from_consumer_group(
                group_id, group_instance_ids, reason=reason, timeout=timeout
            )
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
        return self._wait(
            lambda: self._admin.list_consumer_group_offsets(groups, require_stable=require_stable, timeout=timeout)
        )

    def alter_consumer_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        timeout: float | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """Commit offsets for a group without members; a group that is not there is made."""
        return self._wait(lambda: self._admin.alter_consumer_group_offsets(group_id, offsets, timeout=timeout))

    def delete_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> Outcomes[TopicPartition, None]:
        """Forget what a group has committed for partitions that none of its members subscribes to."""
        return self._wait(lambda: self._admin.delete_consumer_group_offsets(group_id, partitions, timeout=timeout))

    def list_streams_group_offsets(
        self,
        groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> Outcomes[str, GroupOffsets]:
        """`list_consumer_group_offsets` of Streams groups, which commit as consumers do."""
        return self._wait(
            lambda: self._admin.list_streams_group_offsets(groups, require_stable=require_stable, timeout=timeout)
        )

    def alter_streams_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        timeout: float | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """`alter_consumer_group_offsets` of a Streams group."""
        return self._wait(lambda: self._admin.alter_streams_group_offsets(group_id, offsets, timeout=timeout))

    def delete_streams_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> Outcomes[TopicPartition, None]:
        """`delete_consumer_group_offsets` of a Streams group."""
        return self._wait(lambda: self._admin.delete_streams_group_offsets(group_id, partitions, timeout=timeout))

    def list_share_group_offsets(
        self,
        groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        *,
        timeout: float | None = None,
    ) -> Outcomes[str, ShareOffsets]:
        """Where share groups read from: in all their partitions, or in those named with the group."""
        return self._wait(lambda: self._admin.list_share_group_offsets(groups, timeout=timeout))

    def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> Outcomes[TopicPartition, None]:
        """Let a share group without members read from these offsets."""
        return self._wait(lambda: self._admin.alter_share_group_offsets(group_id, offsets, timeout=timeout))

    def delete_share_group_offsets(
        self, group_id: str, topics: Iterable[str], *, timeout: float | None = None
    ) -> Outcomes[str, None]:
        """Forget how far a share group without members has come in these topics."""
        return self._wait(lambda: self._admin.delete_share_group_offsets(group_id, topics, timeout=timeout))

    # Log directories

    def describe_log_dirs(
        self,
        brokers: Iterable[int],
        *,
        partitions: Iterable[TopicPartition] | None = None,
        timeout: float | None = None,
    ) -> Outcomes[int, LogDirs]:
        """The log directories of each broker, with the replicas in them: all, or those of `partitions`."""
        return self._wait(lambda: self._admin.describe_log_dirs(brokers, partitions=partitions, timeout=timeout))

    def describe_replica_log_dirs(
        self, replicas: Iterable[TopicPartitionReplica], *, timeout: float | None = None
    ) -> Outcomes[TopicPartitionReplica, ReplicaLogDir]:
        """In which directory of its broker each replica lies, and to which it is being moved."""
        return self._wait(lambda: self._admin.describe_replica_log_dirs(replicas, timeout=timeout))

    def alter_replica_log_dirs(
        self, moves: Mapping[TopicPartitionReplica, str], *, timeout: float | None = None
    ) -> Outcomes[TopicPartitionReplica, None]:
        """Have brokers move replicas to other directories; a replica that is not there yet will be made there."""
        return self._wait(lambda: self._admin.alter_replica_log_dirs(moves, timeout=timeout))

    # The cluster

    def describe_cluster(
        self,
        *,
        include_authorized_operations: bool = False,
        include_fenced_brokers: bool = False,
        timeout: float | None = None,
    ) -> ClusterDescription:
        """The cluster's id, its brokers and the node in charge; its controllers, with `bootstrap.controllers`."""
        return self._wait(
            lambda: self._admin.describe_cluster(
                include_authorized_operations=include_authorized_operations,
                include_fenced_brokers=include_fenced_brokers,
                timeout=timeout,
            )
        )

    def describe_features(self, *, node_id: int | None = None, timeout: float | None = None) -> FeatureMetadata:
        """The features that a node supports, any or the one given, and those that the cluster has settled on."""
        return self._wait(lambda: self._admin.describe_features(node_id=node_id, timeout=timeout))

    def update_features(
        self, updates: Mapping[str, FeatureUpdate], *, validate_only: bool = False, timeout: float | None = None
    ) -> Outcomes[str, None]:
        """Set the levels of features, such as `metadata.version`."""
        return self._wait(lambda: self._admin.update_features(updates, validate_only=validate_only, timeout=timeout))

    def describe_metadata_quorum(self, *, timeout: float | None = None) -> QuorumInfo:
        """Who leads the metadata quorum, who votes and who watches, and how far each has come."""
        return self._wait(lambda: self._admin.describe_metadata_quorum(timeout=timeout))

    def add_raft_voter(
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
        self._wait(
            lambda: self._admin.add_raft_voter(
                voter_id,
                directory_id,
                endpoints,
                cluster_id=cluster_id,
                ack_when_committed=ack_when_committed,
                timeout=timeout,
            )
        )

    def remove_raft_voter(
        self,
        voter_id: int,
        directory_id: Uuid,
        *,
        cluster_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Take a voter out of the quorum."""
        self._wait(
            lambda: self._admin.remove_raft_voter(voter_id, directory_id, cluster_id=cluster_id, timeout=timeout)
        )

    def unregister_broker(self, broker_id: int, *, timeout: float | None = None) -> None:
        """Have the cluster forget a broker that is gone for good."""
        self._wait(lambda: self._admin.unregister_broker(broker_id, timeout=timeout))

    # Replicas and leaders

    def alter_partition_reassignments(
        self,
        moves: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout: float | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """Move partitions to other brokers, the preferred leader first; None calls off a move that is under way."""
        return self._wait(
            lambda: self._admin.alter_partition_reassignments(
                moves, allow_replication_factor_change=allow_replication_factor_change, timeout=timeout
            )
        )

    def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout: float | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """The moves under way: all, or those of `partitions`."""
        return self._wait(lambda: self._admin.list_partition_reassignments(partitions, timeout=timeout))

    def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout: float | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """Hold elections for these partitions, or for all; `ElectionNotNeeded` says that the right one leads already.

        Without `partitions` the outcomes are of those for which an election was held.
        """
        return self._wait(lambda: self._admin.elect_leaders(election_type, partitions, timeout=timeout))

    # Transactions and producers

    def list_transactions(
        self,
        *,
        states: Iterable[TransactionState] = (),
        producer_ids: Iterable[int] = (),
        running_longer_than_ms: int | None = None,
        transactional_id_pattern: str | None = None,
        timeout: float | None = None,
    ) -> list[TransactionListing]:
        """The transactional ids that the brokers coordinate: all, or those that pass every filter."""
        return self._wait(
            lambda: self._admin.list_transactions(
                states=states,
                producer_ids=producer_ids,
                running_longer_than_ms=running_longer_than_ms,
                transactional_id_pattern=transactional_id_pattern,
                timeout=timeout,
            )
        )

    def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None
    ) -> Outcomes[str, TransactionDescription]:
        """The transaction of each id: state, producer, partitions."""
        return self._wait(lambda: self._admin.describe_transactions(transactional_ids, timeout=timeout))

    def abort_transaction(self, spec: AbortTransactionSpec, *, timeout: float | None = None) -> None:
        """End a transaction that hangs in a partition, whose coordinator has forgotten it (KIP-664)."""
        self._wait(lambda: self._admin.abort_transaction(spec, timeout=timeout))

    def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None
    ) -> Outcomes[str, ProducerIdAndEpoch]:
        """Shut out the producers of these ids and abort what they have open; the outcome is the new epoch."""
        return self._wait(lambda: self._admin.fence_producers(transactional_ids, timeout=timeout))

    def force_terminate_transaction(self, transactional_id: str, *, timeout: float | None = None) -> None:
        """`fence_producers` of one id, under the name that Kafka has for it (KIP-939)."""
        self._wait(lambda: self._admin.force_terminate_transaction(transactional_id, timeout=timeout))

    def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker_id: int | None = None,
        timeout: float | None = None,
    ) -> Outcomes[TopicPartition, list[ProducerState]]:
        """The producers that each partition's leader remembers, or that the replica on `broker_id` does."""
        return self._wait(lambda: self._admin.describe_producers(partitions, broker_id=broker_id, timeout=timeout))

    # Access rules, quotas, users, tokens

    def describe_acls(
        self, filter: AclBindingFilter | None = None, *, timeout: float | None = None
    ) -> list[AclBinding]:
        """The access rules that the filter lets through; all without one."""
        return self._wait(lambda: self._admin.describe_acls(filter, timeout=timeout))

    def create_acls(self, acls: Iterable[AclBinding], *, timeout: float | None = None) -> Outcomes[AclBinding, None]:
        """Add access rules."""
        return self._wait(lambda: self._admin.create_acls(acls, timeout=timeout))

    def delete_acls(
        self, filters: Iterable[AclBindingFilter], *, timeout: float | None = None
    ) -> Outcomes[AclBindingFilter, list[AclBinding]]:
        """Delete every access rule that one of the filters lets through; the outcomes are the rules deleted."""
        return self._wait(lambda: self._admin.delete_acls(filters, timeout=timeout))

    def describe_client_quotas(
        self, filter: QuotaFilter | None = None, *, strict: bool = False, timeout: float | None = None
    ) -> dict[QuotaEntity, Quotas]:
        """The quotas of the entities that match; with `strict`, of those that have no other types than the filter."""
        return self._wait(lambda: self._admin.describe_client_quotas(filter, strict=strict, timeout=timeout))

    def alter_client_quotas(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> Outcomes[QuotaEntity, None]:
        """Set quotas of entities by name; None takes one away."""
        return self._wait(
            lambda: self._admin.alter_client_quotas(changes, validate_only=validate_only, timeout=timeout)
        )

    def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> Outcomes[str, tuple[ScramCredentialInfo, ...]]:
        """Which SCRAM credentials users have: those named, or all that have any."""
        return self._wait(lambda: self._admin.describe_user_scram_credentials(users, timeout=timeout))

    def alter_user_scram_credentials(
        self, changes: Iterable[ScramChange], *, timeout: float | None = None
    ) -> Outcomes[str, None]:
        """Set and delete passwords of SCRAM users; the outcomes are by user. Passwords do not leave the client."""
        return self._wait(lambda: self._admin.alter_user_scram_credentials(changes, timeout=timeout))

    def create_delegation_token(
        self,
        *,
        owner: KafkaPrincipal | None = None,
        renewers: Iterable[KafkaPrincipal] = (),
        max_lifetime_ms: int = -1,
        timeout: float | None = None,
    ) -> DelegationToken:
        """Make a token for this principal, or for `owner`."""
        return self._wait(
            lambda: self._admin.create_delegation_token(
                owner=owner, renewers=renewers, max_lifetime_ms=max_lifetime_ms, timeout=timeout
            )
        )

    def renew_delegation_token(self, hmac: bytes, *, renew_period_ms: int = -1, timeout: float | None = None) -> int:
        """Prolong a token; when it ends now, in milliseconds since 1970."""
        return self._wait(
            lambda: self._admin.renew_delegation_token(hmac, renew_period_ms=renew_period_ms, timeout=timeout)
        )

    def expire_delegation_token(self, hmac: bytes, *, expiry_period_ms: int = -1, timeout: float | None = None) -> int:
        """End a token after that time, -1 for at once; when it ends now."""
        return self._wait(
            lambda: self._admin.expire_delegation_token(hmac, expiry_period_ms=expiry_period_ms, timeout=timeout)
        )

    def describe_delegation_tokens(
        self, owners: Iterable[KafkaPrincipal] | None = None, *, timeout: float | None = None
    ) -> list[DelegationToken]:
        """The tokens of these owners, or all that this principal may see."""
        return self._wait(lambda: self._admin.describe_delegation_tokens(owners, timeout=timeout))

    # This client

    def metrics(self) -> MetricValues:
        """What this admin measures, under Kafka's names: `metrics().value("request-total")`."""
        return self._call(self._admin.metrics)

    def client_instance_id(self, *, timeout: float | None = None) -> Uuid:
        """The id that the brokers give this client for its metrics (KIP-714); the same each time."""
        return self._wait(lambda: self._admin.client_instance_id(timeout=timeout))
