"""What only a broker can answer, on Ottla and on a real Kafka: the quorum, transactions, elections, rules, users."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import confluent_kafka
import pytest

from ottla.client.admin import (
    ANY_NAME,
    AbortTransactionSpec,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    Admin,
    AlterConfigOp,
    AsyncAdmin,
    ConfigResource,
    DeleteScramPassword,
    ElectionType,
    FeatureUpdate,
    GroupState,
    NewTopic,
    OffsetSpec,
    QuotaEntity,
    RaftEndpoint,
    ResourceType,
    ScramMechanism,
    SetScramPassword,
    SharePartitionOffset,
    TopicPartitionReplica,
    TransactionState,
    UpgradeType,
)
from ottla.client.errors import KafkaTimeout
from ottla.client.group import OffsetAndMetadata
from ottla.errors import (
    BrokerIdNotRegistered,
    DelegationTokenRequestNotAllowed,
    ElectionNotNeeded,
    GroupIdNotFound,
    InvalidReplicaAssignment,
    InvalidRequest,
    InvalidUpdateVersion,
    LogDirNotFound,
    MismatchedEndpointType,
    NoReassignmentInProgress,
    ResourceNotFound,
    TransactionalIdNotFound,
    UnacceptableCredential,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from ottla.types import TopicPartition, Uuid
from tests.clients.ours.admin_sides import RealSide, created, known, real, running
from tests.support.clients import eventually, new_topic
from tests.support.nodes import NODE_IDS, REPLICAS, kill_all

__all__ = ["real"]


@pytest.fixture
def controllers(real: RealSide) -> Iterator[Admin]:
    """An admin that speaks to the controllers alone."""
    with Admin(bootstrap_controllers=real.server.controller) as admin:
        yield admin


# The quorum and the features


def test_the_quorum_tells_who_leads_and_who_votes(real: RealSide) -> None:
    quorum = real.admin.describe_metadata_quorum()
    assert quorum.leader_id in NODE_IDS
    assert sorted(voter.replica_id for voter in quorum.voters) == NODE_IDS
    assert quorum.high_watermark > 0
    (leader,) = [voter for voter in quorum.voters if voter.replica_id == quorum.leader_id]
    assert leader.log_end_offset >= quorum.high_watermark


def test_features_are_told_and_changed(real: RealSide) -> None:
    features = real.admin.describe_features(node_id=real.broker_id)
    assert features.finalized["group.version"].max_version == 1
    assert features.supported["metadata.version"].max_version >= features.finalized["metadata.version"].max_version
    assert features.finalized_epoch is not None
    real.admin.update_features({"group.version": FeatureUpdate(1)}, validate_only=True).all()
    with pytest.raises(InvalidUpdateVersion):
        real.admin.update_features({"group.version": FeatureUpdate(9)}).all()
    with pytest.raises(InvalidRequest, match="downgrade"):
        real.admin.update_features({"group.version": FeatureUpdate(0)})
    assert FeatureUpdate(0, UpgradeType.SAFE_DOWNGRADE).upgrade_type == 2


def test_a_broker_that_is_not_registered_cannot_be_unregistered(real: RealSide) -> None:
    with pytest.raises(BrokerIdNotRegistered):
        real.admin.unregister_broker(99)


def test_voters_cannot_change_while_the_feature_is_off(real: RealSide) -> None:
    directory = Uuid(b"a-new-directory!")
    with pytest.raises(UnsupportedVersion):
        real.admin.add_raft_voter(9, directory, [RaftEndpoint("CONTROLLER", "localhost", 9)], timeout=5)
    with pytest.raises(UnsupportedVersion):
        real.admin.remove_raft_voter(9, directory)


def test_controllers_are_spoken_to_directly(real: RealSide, controllers: Admin) -> None:
    """KIP-919: for work while no broker is up."""
    cluster = controllers.describe_cluster()
    assert {node.node_id: f"{node.host}:{node.port}" for node in cluster.nodes} == real.controllers
    assert cluster.controller in cluster.nodes
    assert controllers.describe_metadata_quorum().leader_id in NODE_IDS
    name = new_topic("controllers")
    controllers.create_topics([NewTopic(name, 1, REPLICAS)]).all()
    eventually(lambda: name in real.admin.list_topics(), "the broker has heard of it")
    broker = ConfigResource.broker(real.broker_id)
    controllers.incremental_alter_configs({broker: [AlterConfigOp.set("log.cleaner.threads", "2")]}).all()
    controllers.incremental_alter_configs({broker: [AlterConfigOp.delete("log.cleaner.threads")]}).all()
    config = controllers.describe_configs([broker], names=["node.id"]).all()[broker]
    assert config["node.id"].value == str(real.broker_id)
    controllers.delete_topics([name]).all()
    with pytest.raises(UnsupportedVersion):
        controllers.list_groups()


def test_a_broker_is_no_controller(real: RealSide) -> None:
    with Admin(bootstrap_controllers=real.server.address) as admin, pytest.raises(MismatchedEndpointType):
        admin.describe_cluster(timeout=10)


# Replicas, leaders, directories


def test_partitions_move_only_to_brokers_that_are_there(real: RealSide) -> None:
    topic = created(real, partitions=2)
    first, second, missing = TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition("not-there", 0)
    outcomes = real.admin.alter_partition_reassignments({first: [7], second: None, missing: [real.broker_id]})
    assert isinstance(outcomes[first].error, InvalidReplicaAssignment)
    assert isinstance(outcomes[second].error, NoReassignmentInProgress)
    assert isinstance(outcomes[missing].error, UnknownTopicOrPartition)
    real.admin.alter_partition_reassignments({first: NODE_IDS[:REPLICAS]}).all()
    assert real.admin.list_partition_reassignments() == {}
    assert real.admin.list_partition_reassignments([first, missing]) == {}


def test_an_election_is_not_needed_where_the_right_one_leads(real: RealSide) -> None:
    there, missing = TopicPartition(created(real), 0), TopicPartition("not-there", 0)
    outcomes = real.admin.elect_leaders(ElectionType.PREFERRED, [there, missing])
    assert isinstance(outcomes[there].error, ElectionNotNeeded)
    assert isinstance(outcomes[missing].error, UnknownTopicOrPartition)
    assert real.admin.elect_leaders(ElectionType.PREFERRED).errors == {}


def test_a_replicas_directory_is_told(real: RealSide) -> None:
    there = TopicPartitionReplica(created(real), 0, real.broker_id)
    missing = TopicPartitionReplica("not-there", 0, real.broker_id)

    def is_made() -> bool:
        return real.admin.describe_replica_log_dirs([there]).all()[there].current_dir is not None

    eventually(is_made, "the replica is made")  # a moment after the topic is known
    found = real.admin.describe_replica_log_dirs([there, missing]).all()
    (directory,) = real.admin.describe_log_dirs([real.broker_id]).all()[real.broker_id]
    assert (found[there].current_dir, found[there].current_lag, found[there].future_dir) == (directory, 0, None)
    assert found[missing].current_dir is None
    moved = real.admin.alter_replica_log_dirs({there: "/no/such/directory"})[there]
    # Ottla does not move replicas between directories yet, and says so.
    assert isinstance(moved.error, LogDirNotFound if real.name == "kafka" else UnsupportedVersion)


# Transactions and producers


def test_transactions_are_listed_described_and_fenced(real: RealSide) -> None:
    topic, transactional_id = created(real), new_topic("transactional")
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": real.server.address, "transactional.id": transactional_id}
    )
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"never read")
    producer.flush(20)
    partition = TopicPartition(topic, 0)
    description = real.admin.describe_transactions([transactional_id]).all()[transactional_id]
    assert (description.state, description.partitions) == (TransactionState.ONGOING, frozenset({partition}))
    assert description.coordinator_id in NODE_IDS
    assert description.start_time_ms is not None
    ongoing = real.admin.list_transactions(states=[TransactionState.ONGOING])
    assert (transactional_id, description.producer_id) in [(one.transactional_id, one.producer_id) for one in ongoing]
    assert real.admin.list_transactions(running_longer_than_ms=3_600_000) == []
    assert [
        one.transactional_id for one in real.admin.list_transactions(transactional_id_pattern=f"{transactional_id}$")
    ] == [transactional_id]
    (state,) = real.admin.describe_producers([partition]).all()[partition]
    assert (state.producer_id, state.current_transaction_start_offset) == (description.producer_id, 0)
    leader = real.admin.describe_topics([topic]).all()[topic].partitions[0].leader
    assert leader is not None
    assert real.admin.describe_producers([partition], broker_id=leader.node_id).all()[partition] == [state]
    fenced = real.admin.fence_producers([transactional_id]).all()[transactional_id]
    assert fenced.producer_epoch > description.producer_epoch
    eventually(
        lambda: real.admin.describe_producers([partition]).all()[partition][0].current_transaction_start_offset is None,
        "the transaction is aborted",
    )
    with pytest.raises(confluent_kafka.KafkaException):
        producer.commit_transaction(20)
    assert isinstance(real.admin.describe_transactions(["nobody"])["nobody"].error, TransactionalIdNotFound)


def test_a_transaction_that_hangs_is_ended(real: RealSide) -> None:
    topic, transactional_id = created(real), new_topic("hanging")
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": real.server.address, "transactional.id": transactional_id}
    )
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"never read")
    producer.flush(20)
    partition = TopicPartition(topic, 0)

    def stable_end() -> int:
        found = real.admin.list_offsets({partition: OffsetSpec.latest()}, isolation_level="read_committed")
        return found.all()[partition].offset

    assert stable_end() == 0
    (state,) = real.admin.describe_producers([partition]).all()[partition]
    spec = AbortTransactionSpec(partition, state.producer_id, state.producer_epoch, state.coordinator_epoch or 0)
    real.admin.abort_transaction(spec)
    assert stable_end() == 2  # the record and the marker
    real.admin.force_terminate_transaction(transactional_id)


# Groups of other kinds


def test_offsets_of_a_share_group_are_set_listed_and_deleted(real: RealSide) -> None:
    topic, group = created(real), new_topic("shared")
    partition = TopicPartition(topic, 0)
    real.put_records(partition, 5, 1000)
    real.admin.alter_share_group_offsets(group, {partition: 2}).all()
    listed = real.admin.list_share_group_offsets({group: [partition]}).all()[group][partition]
    assert isinstance(listed, SharePartitionOffset)
    assert listed.start_offset == 2
    assert real.admin.list_share_group_offsets([group]).all() == {group: {partition: listed}}
    described = real.admin.describe_share_groups([group]).all()[group]
    assert (described.state, described.members) == (GroupState.EMPTY, ())
    assert real.admin.delete_share_group_offsets(group, [topic]).all() == {topic: None}
    assert real.admin.list_share_group_offsets([group]).all() == {group: {}}
    assert real.admin.delete_share_groups([group]).all() == {group: None}


def test_a_group_of_another_kind_is_not_found(real: RealSide) -> None:
    topic, group = created(real), new_topic("classic")
    real.admin.alter_consumer_group_offsets(group, {TopicPartition(topic, 0): 0}).all()
    assert isinstance(real.admin.describe_share_groups([group])[group].error, GroupIdNotFound)
    assert isinstance(real.admin.describe_streams_groups([group])[group].error, GroupIdNotFound)


def test_streams_groups_commit_as_consumers_do(real: RealSide) -> None:
    topic, group = created(real), new_topic("streams")
    partition = TopicPartition(topic, 0)
    assert real.admin.alter_streams_group_offsets(group, {partition: 3}).all() == {partition: None}
    assert real.admin.list_streams_group_offsets([group]).all()[group] == {partition: OffsetAndMetadata(3)}
    assert real.admin.delete_streams_group_offsets(group, [partition]).all() == {partition: None}
    assert real.admin.list_streams_group_offsets({group: [partition]}).all()[group] == {partition: None}
    assert isinstance(real.admin.delete_streams_groups(["nobody"])["nobody"].error, GroupIdNotFound)


def test_a_broker_without_a_receiver_of_metrics_gives_no_instance_id(real: RealSide) -> None:
    with pytest.raises(UnsupportedVersion, match="GetTelemetrySubscriptions"):
        real.admin.client_instance_id()


def test_operations_are_told_when_they_are_asked_for(real: RealSide) -> None:
    topic, group = created(real), new_topic("operations")
    real.admin.alter_consumer_group_offsets(group, {TopicPartition(topic, 0): 0}).all()
    described = real.admin.describe_topics([topic], include_authorized_operations=True).all()[topic]
    assert described.authorized_operations is not None
    assert AclOperation.WRITE in described.authorized_operations
    told = real.admin.describe_consumer_groups([group], include_authorized_operations=True).all()[group]
    assert told.authorized_operations is not None
    assert AclOperation.READ in told.authorized_operations
    operations = real.admin.describe_cluster(include_authorized_operations=True).authorized_operations
    assert operations is not None
    assert AclOperation.CREATE in operations


# Rules, quotas, users, tokens


def test_access_rules_are_made_described_and_deleted(real: RealSide) -> None:
    if is_unserved(real, real.admin.describe_acls, "DescribeAcls"):
        return
    topic, user = new_topic("rules"), f"User:{new_topic('alice')}"
    read = AclBinding(ResourceType.TOPIC, topic, user, AclOperation.READ)
    write = AclBinding(ResourceType.TOPIC, topic, user, AclOperation.WRITE, host="10.0.0.1")
    open_rule = AclBinding(ResourceType.ANY, topic, user, AclOperation.READ)
    outcomes = real.admin.create_acls([read, open_rule, write])
    assert list(outcomes.succeeded) == [read, write]
    assert isinstance(outcomes[open_rule].error, InvalidRequest)
    mine = AclBindingFilter(principal=user)
    eventually(lambda: set(real.admin.describe_acls(mine)) == {read, write}, "both are told")
    only_reads = AclBindingFilter(principal=user, operation=AclOperation.READ)
    assert real.admin.delete_acls([only_reads]).all() == {only_reads: [read]}
    eventually(lambda: real.admin.describe_acls(mine) == [write], "one is left")
    real.admin.delete_acls([mine]).all()


def test_quotas_are_set_described_and_taken_away(real: RealSide) -> None:
    if is_unserved(real, real.admin.describe_client_quotas, "DescribeClientQuotas"):
        return
    user = new_topic("bob")
    entity = QuotaEntity.of({"user": user, "client-id": "app"})
    for_all = QuotaEntity.of({"user": user, "client-id": None})
    outcomes = real.admin.alter_client_quotas(
        {entity: {"producer_byte_rate": 1024.0}, for_all: {"consumer_byte_rate": 2048.0, "no.such.quota": 1.0}}
    )
    assert outcomes[entity].error is None
    assert isinstance(outcomes[for_all].error, InvalidRequest)
    real.admin.alter_client_quotas({for_all: {"consumer_byte_rate": 2048.0}}).all()
    both = {entity: {"producer_byte_rate": 1024.0}, for_all: {"consumer_byte_rate": 2048.0}}
    eventually(lambda: real.admin.describe_client_quotas({"user": user}) == both, "both are told")
    assert real.admin.describe_client_quotas({"user": user}, strict=True) == {}
    assert real.admin.describe_client_quotas({"user": user, "client-id": ANY_NAME}, strict=True) == both
    assert list(real.admin.describe_client_quotas({"user": user, "client-id": None})) == [for_all]
    real.admin.alter_client_quotas({for_all: {"consumer_byte_rate": None}}, validate_only=True).all()
    real.admin.alter_client_quotas({entity: {"producer_byte_rate": None}}).all()
    eventually(lambda: list(real.admin.describe_client_quotas({"user": user})) == [for_all], "one is left")


def test_users_get_passwords_and_lose_them(real: RealSide) -> None:
    if is_unserved(real, real.admin.describe_user_scram_credentials, "DescribeUserScramCredentials"):
        return
    user, other = new_topic("carol"), new_topic("dave")
    outcomes = real.admin.alter_user_scram_credentials(
        [
            SetScramPassword(user, ScramMechanism.SCRAM_SHA_256, "secret", iterations=5000),
            SetScramPassword(other, ScramMechanism.SCRAM_SHA_256, ""),
        ]
    )
    assert outcomes[user].error is None
    assert isinstance(outcomes[other].error, UnacceptableCredential)
    second = SetScramPassword(user, ScramMechanism.SCRAM_SHA_512, b"secret", salt=b"salt")
    assert "secret" not in repr(second)
    real.admin.alter_user_scram_credentials([second]).all()

    def count() -> int:
        told = real.admin.describe_user_scram_credentials()
        return len(told[user].result()) if user in told else 0

    eventually(lambda: count() == 2, "both credentials are told")
    told = real.admin.describe_user_scram_credentials([user, other])
    assert {(one.mechanism, one.iterations) for one in told[user].result()} == {
        (ScramMechanism.SCRAM_SHA_256, 5000),
        (ScramMechanism.SCRAM_SHA_512, 4096),
    }
    assert isinstance(told[other].error, ResourceNotFound)
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        real.admin.alter_user_scram_credentials([DeleteScramPassword(user, mechanism)]).all()
    eventually(lambda: count() == 0, "the user is gone")


def test_tokens_need_a_connection_that_says_who_it_is(real: RealSide) -> None:
    expected = DelegationTokenRequestNotAllowed if real.name == "kafka" else UnsupportedVersion
    calls: list[Callable[[], object]] = [
        lambda: real.admin.create_delegation_token(max_lifetime_ms=1000),
        real.admin.describe_delegation_tokens,
        lambda: real.admin.renew_delegation_token(b"no such token"),
        lambda: real.admin.expire_delegation_token(b"no such token"),
    ]
    for call in calls:
        with pytest.raises(expected):
            call()


def is_unserved(real: RealSide, call: Callable[[], object], api: str) -> bool:
    """Ottla does not serve this yet: it must say so in one line that names the API, and the rest is Kafka's."""
    if real.name == "kafka":
        return False
    with pytest.raises(UnsupportedVersion, match=f"^[^\n]*{api}[^\n]*$"):
        call()
    return True


# The async face, time and endings


def test_the_async_admin_waits_for_all_or_for_one(real: RealSide) -> None:
    async def main() -> None:
        async with AsyncAdmin({"bootstrap.servers": real.server.address}) as admin:
            first, second = new_topic("async"), new_topic("async")
            outcomes = admin.create_topics([NewTopic(first, 1, REPLICAS), NewTopic(second, 1, 9)])
            assert [outcome.done for outcome in outcomes.values()] == [False, False]
            assert (await outcomes[first]).name == first
            assert list((await outcomes).errors) == [second]
            await asyncio.to_thread(known, real, first)
            assert first in await admin.list_topics()
            assert (await admin.describe_cluster()).controller is not None

    asyncio.run(main())


def test_a_call_takes_no_longer_than_its_time_out(real: RealSide) -> None:
    with (
        Admin(bootstrap_servers="127.0.0.1:1", reconnect_backoff_ms=10) as admin,
        pytest.raises(KafkaTimeout, match="within 300 ms"),
    ):
        admin.list_topics(timeout=0.3)


def test_a_broker_that_comes_back_is_found_again(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running("ottla", tmp_path_factory.mktemp("restarted")) as side:
        topic = created(side)
        kill_all(side.server)
        with pytest.raises(KafkaTimeout):
            side.admin.list_topics(timeout=0.3)
        side.server.start()
        assert topic in side.admin.list_topics()
        assert side.admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.latest()}).errors == {}
