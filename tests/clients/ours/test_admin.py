"""What an admin does to topics, offsets, settings and groups: the same on `FakeAdmin`, on Ottla and on a real Kafka."""

from __future__ import annotations

import pytest

from ottla.client.admin import (
    AlterConfigOp,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    ConfigType,
    GroupState,
    GroupType,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)
from ottla.client.errors import KafkaTimeout
from ottla.client.group import OffsetAndMetadata
from ottla.errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopicException,
    NonEmptyGroup,
    OffsetOutOfRange,
    PolicyViolation,
    TopicAlreadyExists,
    UnknownMemberId,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.types import TopicPartition, Uuid
from tests.clients.ours.admin_sides import Side, created, known, side
from tests.support.clients import eventually, new_topic
from tests.support.nodes import NODE_IDS, REPLICAS

__all__ = ["side"]

# Topics


def test_a_created_topic_is_listed_and_described(side: Side) -> None:
    name = new_topic("created")
    wanted = NewTopic(name, partitions=3, replication_factor=REPLICAS, configs={"retention.ms": "60000"})
    told = side.admin.create_topics([wanted]).all()[name]
    assert (told.name, told.partition_count, told.replication_factor) == (name, 3, REPLICAS)
    assert told.config["retention.ms"].value == "60000"
    assert told.config["cleanup.policy"].value == "delete"
    known(side, name)
    listed = side.admin.list_topics()[name]
    described = side.admin.describe_topics([name]).all()[name]
    assert listed.topic_id == told.topic_id == described.topic_id
    assert not described.is_internal
    assert described.authorized_operations is None
    assert [one.partition for one in described.partitions] == [0, 1, 2]
    for one in described.partitions:
        assert one.leader is not None
        assert one.leader == one.replicas[0]
        assert sorted(node.node_id for node in one.replicas) == NODE_IDS
        assert sorted(node.node_id for node in one.isr) == NODE_IDS
        assert one.elr == ()
        assert one.leader_epoch == 0


def test_each_topic_has_an_outcome_of_its_own(side: Side) -> None:
    name, other = created(side), new_topic("other")
    outcomes = side.admin.create_topics([NewTopic(name, 1, 1), NewTopic(other, 1, 1)])
    assert outcomes[other].result().name == other
    assert list(outcomes.succeeded) == [other]
    assert isinstance(outcomes.errors[name], TopicAlreadyExists)
    assert str(outcomes[name].error) == f"Topic '{name}' already exists."
    with pytest.raises(TopicAlreadyExists):
        outcomes.all()


def test_numbers_that_are_left_out_are_the_clusters_defaults(side: Side) -> None:
    name = new_topic("defaults")
    told = side.admin.create_topics([NewTopic(name)]).all()[name]
    assert (told.partition_count, told.replication_factor) == (1, REPLICAS if side.name != "fake" else 1)


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (NewTopic("wrong", 1, 7), InvalidReplicationFactor),
        (NewTopic("wrong", 1, 0), InvalidReplicationFactor),
        (NewTopic("wrong", 0, 1), InvalidPartitions),
        (NewTopic("wrong/name", 1, 1), InvalidTopicException),
        (NewTopic("..", 1, 1), InvalidTopicException),
        (NewTopic("wrong", 1, 1, configs={"retention.days": "1"}), InvalidConfig),
        (NewTopic("wrong", 1, 1, configs={"retention.ms": "soon"}), InvalidConfig),
        (NewTopic("wrong", assignments={0: [99]}), InvalidReplicaAssignment),
        (NewTopic("wrong", assignments={1: [1]}), InvalidReplicaAssignment),
    ],
)
def test_what_cannot_be_a_topic_is_refused_and_not_made(side: Side, wanted: NewTopic, error: type[Exception]) -> None:
    with pytest.raises(error):
        side.admin.create_topics([wanted]).all()
    assert wanted.name not in side.admin.list_topics()


def test_numbers_and_assignments_are_not_given_together(side: Side) -> None:
    with pytest.raises(InvalidRequest, match="not both"):
        side.admin.create_topics([NewTopic("wrong", 1, 1, assignments={0: [1]})]).all()


def test_validation_creates_nothing(side: Side) -> None:
    name = new_topic("validated")
    told = side.admin.create_topics([NewTopic(name, 2, 1)], validate_only=True).all()[name]
    assert told.partition_count == 2
    assert name not in side.admin.list_topics()
    with pytest.raises(InvalidReplicationFactor):
        side.admin.create_topics([NewTopic(name, 2, 5)], validate_only=True).all()


def test_replicas_can_be_assigned_by_hand(side: Side) -> None:
    name = new_topic("assigned")
    side.admin.create_topics([NewTopic(name, assignments={0: [side.broker_id], 1: [side.broker_id]})]).all()
    known(side, name)
    described = side.admin.describe_topics([name]).all()[name]
    assert [[node.node_id for node in one.replicas] for one in described.partitions] == [[side.broker_id]] * 2


def test_topics_are_deleted_by_name_and_by_id(side: Side) -> None:
    by_name, by_id = created(side), created(side)
    topic_id = side.admin.describe_topics([by_id]).all()[by_id].topic_id
    outcomes = side.admin.delete_topics([by_name, topic_id])
    assert outcomes.all() == {by_name: None, topic_id: None}
    eventually(lambda: not {by_name, by_id} & set(side.admin.list_topics()), "both are gone")


def test_a_topic_that_is_not_there_cannot_be_deleted(side: Side) -> None:
    nowhere = Uuid(b"there-is-no-such")
    errors = side.admin.delete_topics(["not-there", nowhere]).errors
    assert isinstance(errors["not-there"], UnknownTopicOrPartition)
    assert isinstance(errors[nowhere], UnknownTopicId)


def test_topics_are_described_page_by_page(side: Side) -> None:
    """Five partitions in pages of two: a topic is put together from several, and others begin in the middle."""
    first, second, third = created(side, partitions=5), created(side, partitions=1), created(side, partitions=3)
    names = [first, "not-there", second, third]
    outcomes = side.admin.describe_topics(names, partitions_a_page=2)
    assert list(outcomes) == names
    assert {
        name: [one.partition for one in described.partitions] for name, described in outcomes.succeeded.items()
    } == {first: [0, 1, 2, 3, 4], second: [0], third: [0, 1, 2]}
    assert isinstance(outcomes["not-there"].error, UnknownTopicOrPartition)


def test_topics_are_described_by_id(side: Side) -> None:
    name = created(side, partitions=2)
    topic_id = side.admin.list_topics()[name].topic_id
    nowhere = Uuid(b"there-is-no-such")
    outcomes = side.admin.describe_topics([topic_id, nowhere])
    assert outcomes[topic_id].result().name == name
    assert len(outcomes[topic_id].result().partitions) == 2
    assert isinstance(outcomes[nowhere].error, UnknownTopicId)


def test_a_topic_gets_more_partitions_and_never_fewer(side: Side) -> None:
    name = created(side, partitions=2)
    side.admin.create_partitions({name: NewPartitions(4)}, validate_only=True).all()
    assert len(side.admin.describe_topics([name]).all()[name].partitions) == 2
    side.admin.create_partitions({name: NewPartitions(3, [NODE_IDS[:REPLICAS]])}).all()
    eventually(lambda: len(side.admin.describe_topics([name]).all()[name].partitions) == 3, "the third is there")
    outcomes = side.admin.create_partitions({name: NewPartitions(3), "not-there": NewPartitions(3)})
    assert isinstance(outcomes.errors[name], InvalidPartitions)
    assert str(outcomes.errors[name]) == "Topic already has 3 partition(s)."
    assert isinstance(outcomes.errors["not-there"], UnknownTopicOrPartition)
    with pytest.raises(InvalidPartitions, match="would not be an increase"):
        side.admin.create_partitions({name: NewPartitions(1)}).all()
    with pytest.raises(InvalidReplicaAssignment):
        side.admin.create_partitions({name: NewPartitions(5, [NODE_IDS[:REPLICAS]])}).all()


# Offsets and records


def test_every_offset_of_a_partition_can_be_asked_for(side: Side) -> None:
    name = created(side)
    partition = TopicPartition(name, 0)
    side.put_records(partition, 3, 1000)
    side.put_records(partition, 1, 9000)
    side.put_records(partition, 2, 5000)

    def offset(spec: OffsetSpec) -> tuple[int, int]:
        found = side.admin.list_offsets({partition: spec}).all()[partition]
        return found.offset, found.timestamp

    assert offset(OffsetSpec.earliest()) == (0, -1)
    assert offset(OffsetSpec.latest()) == (6, -1)
    assert offset(OffsetSpec.for_timestamp(1000)) == (0, 1000)
    assert offset(OffsetSpec.for_timestamp(1001)) == (3, 9000)
    assert offset(OffsetSpec.for_timestamp(9001)) == (-1, -1)
    assert offset(OffsetSpec.max_timestamp()) == (3, 9000)
    assert offset(OffsetSpec.earliest_local()) == (0, -1)
    assert offset(OffsetSpec.latest_tiered()) == (-1, -1)
    committed = side.admin.list_offsets({partition: OffsetSpec.latest()}, isolation_level="read_committed")
    assert committed.all()[partition].offset == 6
    with pytest.raises(InvalidRequest, match="read_uncommitted"):
        side.admin.list_offsets({partition: OffsetSpec.latest()}, isolation_level="serializable")


def test_offsets_of_a_partition_that_is_not_there_are_waited_for_and_not_found(side: Side) -> None:
    there, missing = TopicPartition(created(side), 0), TopicPartition("not-there", 0)
    outcomes = side.admin.list_offsets({there: OffsetSpec.latest(), missing: OffsetSpec.latest()}, timeout=0.5)
    assert outcomes[there].result().offset == 0
    error = outcomes[missing].error
    assert isinstance(error, KafkaTimeout)
    assert isinstance(error, TimeoutError)
    assert isinstance(error.__cause__, UnknownTopicOrPartition)
    assert "within 500 ms" in str(error)


def test_a_broker_says_where_its_own_logs_end(side: Side) -> None:
    """As Kafka's ReplicaVerificationTool asks: also for what it only follows. What it does not have is left out."""
    topic = created(side, partitions=2)
    there, missing = TopicPartition(topic, 1), TopicPartition("not-there", 0)
    side.put_records(there, 5, 1000)
    description = side.admin.describe_topics([topic]).all()[topic].partitions[1]
    everywhere = {node.node_id: {there: 5} for node in description.replicas}

    def ends() -> dict[int, dict[TopicPartition, int]]:
        return side.admin.list_log_ends({one: [there, missing] for one in everywhere}).all()

    eventually(lambda: ends() == everywhere, "all replicas have the records")


def test_records_are_deleted_up_to_an_offset(side: Side) -> None:
    partition = TopicPartition(created(side), 0)
    side.put_records(partition, 10, 1000)
    assert side.admin.delete_records({partition: 4}).all() == {partition: 4}
    assert side.admin.list_offsets({partition: OffsetSpec.earliest()}).all()[partition].offset == 4
    with pytest.raises(OffsetOutOfRange):
        side.admin.delete_records({partition: 11}).all()
    assert side.admin.delete_records({partition: -1}).all() == {partition: 10}
    assert side.admin.list_offsets({partition: OffsetSpec.earliest()}).all()[partition].offset == 10


def test_records_of_a_topic_that_is_only_compacted_are_not_deleted(side: Side) -> None:
    partition = TopicPartition(created(side, configs={"cleanup.policy": "compact"}), 0)
    with pytest.raises(PolicyViolation):
        side.admin.delete_records({partition: -1}).all()


# Settings


def test_a_topics_settings_tell_where_their_values_come_from(side: Side) -> None:
    resource = ConfigResource.topic(created(side, configs={"retention.ms": "60000"}))
    config = side.admin.describe_configs([resource], include_synonyms=True).all()[resource]
    retention, size = config["retention.ms"], config["segment.bytes"]
    assert (retention.value, retention.source) == ("60000", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert (retention.type, retention.is_default, retention.is_sensitive) == (ConfigType.LONG, False, False)
    assert next((one.name, one.source) for one in retention.synonyms) == (
        "retention.ms",
        ConfigSource.DYNAMIC_TOPIC_CONFIG,
    )
    assert (size.value, size.source) == (str(1 << 30), ConfigSource.DEFAULT_CONFIG)
    assert size.is_default
    only = side.admin.describe_configs([resource], names=["retention.ms"]).all()[resource]
    assert list(only) == ["retention.ms"]
    assert only["retention.ms"].synonyms == ()
    assert only["retention.ms"].documentation is None


def test_settings_are_changed_one_by_one(side: Side) -> None:
    resource = ConfigResource.topic(created(side, configs={"retention.ms": "60000"}))

    def values() -> dict[str, str | None]:
        names = ["retention.ms", "segment.ms", "cleanup.policy"]
        config = side.admin.describe_configs([resource], names=names).all()[resource]
        return {name: entry.value for name, entry in config.items()}

    changes = [AlterConfigOp.set("segment.ms", "7000"), AlterConfigOp.append("cleanup.policy", "compact")]
    side.admin.incremental_alter_configs({resource: changes}, validate_only=True).all()
    assert values() == {"retention.ms": "60000", "segment.ms": "604800000", "cleanup.policy": "delete"}
    side.admin.incremental_alter_configs({resource: changes}).all()
    after = {"retention.ms": "60000", "segment.ms": "7000", "cleanup.policy": "delete,compact"}
    eventually(lambda: values() == after, f"{after}")
    changes = [AlterConfigOp.delete("retention.ms"), AlterConfigOp.subtract("cleanup.policy", "delete")]
    side.admin.incremental_alter_configs({resource: changes}).all()
    after = {"retention.ms": "604800000", "segment.ms": "7000", "cleanup.policy": "compact"}
    eventually(lambda: values() == after, f"{after}")


def test_settings_that_cannot_be_are_refused_and_others_are_not(side: Side) -> None:
    good, bad = ConfigResource.topic(created(side)), ConfigResource.topic(created(side))
    outcomes = side.admin.incremental_alter_configs(
        {
            good: [AlterConfigOp.set("segment.ms", "7000")],
            bad: [AlterConfigOp.set("segment.ms", "soon")],
            ConfigResource.topic("not-there"): [AlterConfigOp.set("segment.ms", "7000")],
        }
    )
    assert outcomes[good].result() is None
    assert isinstance(outcomes[bad].error, InvalidConfig)
    assert isinstance(outcomes[ConfigResource.topic("not-there")].error, UnknownTopicOrPartition)
    with pytest.raises(InvalidConfig, match="not LIST"):
        side.admin.incremental_alter_configs({bad: [AlterConfigOp.append("segment.ms", "1")]}).all()
    with pytest.raises(UnknownTopicOrPartition):
        side.admin.describe_configs([ConfigResource.topic("not-there")]).all()


def test_a_brokers_settings_can_change_while_it_runs(side: Side) -> None:
    broker = ConfigResource.broker(side.broker_id)

    def threads() -> tuple[str | None, ConfigSource]:
        entry = side.admin.describe_configs([broker], names=["log.cleaner.threads"]).all()[broker]
        return entry["log.cleaner.threads"].value, entry["log.cleaner.threads"].source

    assert threads() == ("1", ConfigSource.DEFAULT_CONFIG)
    side.admin.incremental_alter_configs({broker: [AlterConfigOp.set("log.cleaner.threads", "2")]}).all()
    eventually(lambda: threads() == ("2", ConfigSource.DYNAMIC_BROKER_CONFIG), "the broker has the new value")
    side.admin.incremental_alter_configs({broker: [AlterConfigOp.delete("log.cleaner.threads")]}).all()
    eventually(lambda: threads() == ("1", ConfigSource.DEFAULT_CONFIG), "the broker has the default again")
    for_all = ConfigResource.broker_defaults()
    side.admin.incremental_alter_configs({for_all: [AlterConfigOp.set("log.cleaner.threads", "2")]}).all()
    eventually(lambda: threads() == ("2", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG), "all brokers have the new value")
    side.admin.incremental_alter_configs({for_all: [AlterConfigOp.delete("log.cleaner.threads")]}).all()
    with pytest.raises(InvalidRequest):
        side.admin.incremental_alter_configs({broker: [AlterConfigOp.set("node.id", "2")]}).all()
    assert side.admin.describe_configs([broker], names=["node.id"]).all()[broker]["node.id"].is_read_only


def test_groups_and_metrics_subscriptions_have_settings_too(side: Side) -> None:
    group = ConfigResource.group(new_topic("group"))
    metrics = ConfigResource.client_metrics(new_topic("metrics"))
    side.admin.incremental_alter_configs(
        {
            group: [AlterConfigOp.set("consumer.heartbeat.interval.ms", "6000")],
            metrics: [AlterConfigOp.set("interval.ms", "1000")],
        }
    ).all()
    eventually(lambda: metrics.name in side.admin.list_client_metrics_resources(), "the subscription is listed")
    configs = side.admin.describe_configs([group, metrics]).all()
    assert configs[group]["consumer.heartbeat.interval.ms"].value == "6000"
    assert configs[metrics]["interval.ms"].source == ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG
    everything = side.admin.list_config_resources()
    assert {group, metrics, ConfigResource.broker(side.broker_id)} <= set(everything)
    assert group not in side.admin.list_config_resources([ConfigResourceType.CLIENT_METRICS])


# Groups


def test_the_first_commit_of_an_admin_makes_a_group(side: Side) -> None:
    topic, group = created(side, partitions=2), new_topic("group")
    offsets: dict[TopicPartition, OffsetAndMetadata | int] = {
        TopicPartition(topic, 0): OffsetAndMetadata(5, "up to here"),
        TopicPartition(topic, 1): 7,
    }
    assert side.admin.alter_consumer_group_offsets(group, offsets).errors == {}
    listed = {one.group_id: one for one in side.admin.list_groups()}[group]
    assert (listed.type, listed.state, listed.protocol) == (GroupType.CLASSIC, GroupState.EMPTY, "")
    assert listed.is_simple
    assert group in {one.group_id for one in side.admin.list_consumer_groups(states=[GroupState.EMPTY])}
    assert group not in {one.group_id for one in side.admin.list_groups(types=[GroupType.SHARE])}
    assert group not in {one.group_id for one in side.admin.list_groups(states=[GroupState.STABLE])}
    assert group not in {one.group_id for one in side.admin.list_groups(protocol_types=["connect"])}
    described = side.admin.describe_consumer_groups([group]).all()[group]
    assert (described.state, described.members, described.is_simple) == (GroupState.EMPTY, (), True)
    assert described.coordinator.node_id in NODE_IDS
    assert side.admin.list_consumer_group_offsets([group]).all()[group] == {
        TopicPartition(topic, 0): OffsetAndMetadata(5, "up to here"),
        TopicPartition(topic, 1): OffsetAndMetadata(7),
    }


def test_offsets_are_asked_for_by_partition(side: Side) -> None:
    topic, group = created(side, partitions=2), new_topic("group")
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    side.admin.alter_consumer_group_offsets(group, {first: 5}).all()
    outcomes = side.admin.list_consumer_group_offsets({group: [first, second], "nobody": None, "none": [second]})
    assert outcomes.all() == {
        group: {first: OffsetAndMetadata(5), second: None},
        "nobody": {},
        "none": {second: None},
    }


def test_offsets_of_partitions_that_are_not_there_are_refused(side: Side) -> None:
    topic, group = created(side), new_topic("group")
    there, missing = TopicPartition(topic, 0), TopicPartition("not-there", 0)
    outcomes = side.admin.alter_consumer_group_offsets(group, {there: 1, missing: 2})
    assert outcomes[there].error is None
    assert isinstance(outcomes[missing].error, UnknownTopicOrPartition)
    deleted = side.admin.delete_consumer_group_offsets(group, [there, missing])
    assert deleted[there].error is None
    assert isinstance(deleted[missing].error, UnknownTopicOrPartition)
    assert side.admin.list_consumer_group_offsets([group]).all()[group] == {}


def test_a_group_is_deleted_with_its_offsets(side: Side) -> None:
    topic, group = created(side), new_topic("group")
    side.admin.alter_consumer_group_offsets(group, {TopicPartition(topic, 0): 5}).all()
    outcomes = side.admin.delete_groups([group, "nobody"])
    assert outcomes[group].error is None
    assert isinstance(outcomes["nobody"].error, GroupIdNotFound)
    assert group not in {one.group_id for one in side.admin.list_groups()}
    assert side.admin.list_consumer_group_offsets(group).all() == {group: {}}


def test_a_group_that_is_not_there_is_an_error(side: Side) -> None:
    for outcomes in (
        side.admin.describe_consumer_groups(["nobody"]),
        side.admin.describe_classic_groups(["nobody"]),
        side.admin.delete_consumer_groups(["nobody"]),
        side.admin.delete_consumer_group_offsets("nobody", [TopicPartition(created(side), 0)]),
    ):
        assert [type(error) for error in outcomes.errors.values()] == [GroupIdNotFound]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_described_and_not_taken_apart(side: Side, protocol: str) -> None:
    topic, group = created(side, partitions=2), new_topic("group")
    partition = TopicPartition(topic, 0)
    with side.joined(group, topic, protocol) as instance_id:

        def is_stable() -> bool:
            return side.admin.describe_consumer_groups([group]).all()[group].state is GroupState.STABLE

        eventually(is_stable, "the group is stable")
        described = side.admin.describe_consumer_groups([group]).all()[group]
        assert described.type is (GroupType.CONSUMER if protocol == "consumer" else GroupType.CLASSIC)
        assert not described.is_simple
        (member,) = described.members
        assert member.group_instance_id == instance_id
        assert member.assignment == {TopicPartition(topic, 0), TopicPartition(topic, 1)}
        assert (member.target_assignment is not None) == (protocol == "consumer")
        assert isinstance(side.admin.delete_groups([group])[group].error, NonEmptyGroup)
        altered = side.admin.alter_consumer_group_offsets(group, {partition: 1})[partition]
        assert isinstance(altered.error, UnknownMemberId)
        deleted = side.admin.delete_consumer_group_offsets(group, [partition])[partition]
        assert isinstance(deleted.error, GroupSubscribedToTopic)
        listed = {one.group_id: one for one in side.admin.list_consumer_groups()}[group]
        assert listed.protocol == "consumer"
        assert (listed.type, listed.state) == (described.type, GroupState.STABLE)


def test_static_members_are_taken_out_of_a_group(side: Side) -> None:
    topic, group = created(side), new_topic("group")
    with side.joined(group, topic, "classic") as instance_id:
        outcomes = side.admin.remove_members_from_consumer_group(group, [instance_id, "somebody"])
        assert outcomes[instance_id].error is None
        assert isinstance(outcomes["somebody"].error, UnknownMemberId)


def test_all_members_are_taken_out_of_a_group(side: Side) -> None:
    topic, group = created(side), new_topic("group")
    with side.joined(group, topic, "classic") as instance_id:
        assert side.admin.remove_members_from_consumer_group(group, reason="the end").all() == {instance_id: None}
    with pytest.raises(GroupIdNotFound):
        side.admin.remove_members_from_consumer_group("nobody")


def test_what_groups_have_committed_goes_with_the_topic(side: Side) -> None:
    topic, group = created(side), new_topic("group")
    side.admin.alter_consumer_group_offsets(group, {TopicPartition(topic, 0): 5}).all()
    side.admin.delete_topics([topic]).all()
    eventually(lambda: not side.admin.list_consumer_group_offsets([group]).all()[group], "the offsets are gone")


# The cluster and its disks


def test_the_cluster_tells_its_brokers(side: Side) -> None:
    cluster = side.admin.describe_cluster()
    assert sorted(node.node_id for node in cluster.nodes) == NODE_IDS
    assert cluster.controller in cluster.nodes
    assert cluster.cluster_id
    assert cluster.authorized_operations is None
    assert side.admin.describe_cluster(include_fenced_brokers=True).fenced == frozenset()


def test_log_directories_tell_which_replicas_they_hold(side: Side) -> None:
    topic = created(side, partitions=2)
    both, wanted = {TopicPartition(topic, 0), TopicPartition(topic, 1)}, [TopicPartition(topic, 1)]

    def are_made() -> bool:
        (directory,) = side.admin.describe_log_dirs([side.broker_id]).all()[side.broker_id].values()
        return both <= set(directory.replicas)

    eventually(are_made, "both replicas are made")  # a moment after the topic is known
    dirs = side.admin.describe_log_dirs([side.broker_id], partitions=wanted).all()[side.broker_id]
    (directory,) = dirs.values()
    assert directory.error is None
    assert list(directory.replicas) == wanted
    assert not directory.replicas[wanted[0]].is_future
