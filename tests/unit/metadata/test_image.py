"""The image: replay of every record type, snapshots, sharing; and the golden log of a real Kafka."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from ottla.metadata import (
    BROKER,
    MIGRATING,
    TOPIC,
    Image,
    ImageBuilder,
    LeaderRecoveryState,
    MetadataVersion,
    PartitionImage,
    ReplayError,
    between,
)
from ottla.records import batches
from ottla.types import Uuid
from ottla.wire import Message, message_class
from ottla.wire.json_form import to_json
from ottla.wire.metadata import (
    RECORD_TYPES,
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    VersionedRecord,
    ZkMigrationStateRecord,
    read_record,
    write_record,
)
from ottla.wire.metadata.brokers import BrokerEndpoint, BrokerFeature, ControllerEndpoint, ControllerFeature
from ottla.wire.metadata.configs import EntityData
from tests.support.golden import golden_data_dir


def uuid(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


def build(*records: Message, base: Image | None = None) -> Image:
    builder = ImageBuilder(base or Image("cluster"))
    builder.replay_all(records)
    return builder.build(offset=len(records), epoch=1, timestamp_ms=7)[1]


LEVEL = FeatureLevelRecord(name="metadata.version", feature_level=30)


def partition_record(topic_id: Uuid, index: int, **fields: object) -> PartitionRecord:
    record = PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=[1, 2],
        isr=[1, 2],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=[uuid(1001), uuid(1002)],
    )
    for name, value in fields.items():
        setattr(record, name, value)
    return record


def everything() -> list[Message]:
    """A log with something of every kind in it."""
    return [
        LEVEL,
        FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1),
        FeatureLevelRecord(name="group.version", feature_level=1),
        RegisterControllerRecord(
            controller_id=1,
            incarnation_id=uuid(5),
            end_points=[ControllerEndpoint("CONTROLLER", "localhost", 9093, 0)],
            features=[ControllerFeature("metadata.version", 7, 30)],
        ),
        RegisterBrokerRecord(
            broker_id=1,
            incarnation_id=uuid(6),
            broker_epoch=3,
            end_points=[BrokerEndpoint("PLAINTEXT", "localhost", 9092, 0), BrokerEndpoint("SSL", "localhost", 9094, 1)],
            features=[BrokerFeature("metadata.version", 7, 30)],
            rack="a",
            log_dirs=[uuid(1001), uuid(2**127 + 1)],
        ),
        RegisterBrokerRecord(broker_id=2, incarnation_id=uuid(7), broker_epoch=4, log_dirs=[uuid(1002)]),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=3, cordoned_log_dirs=[]),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=3, fenced=-1),
        UnfenceBrokerRecord(id=2, epoch=4),
        BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=4, in_controlled_shutdown=1),
        TopicRecord(name="a", topic_id=uuid(201)),
        ConfigRecord(resource_type=TOPIC, resource_name="a", name="retention.ms", value="5"),
        ConfigRecord(resource_type=TOPIC, resource_name="a", name="segment.bytes", value="1048576"),
        ConfigRecord(resource_type=BROKER, resource_name="", name="min.insync.replicas", value="1"),
        partition_record(uuid(201), 0),
        partition_record(uuid(201), 1, isr=[], leader=-1, eligible_leader_replicas=[2], last_known_elr=[1]),
        TopicRecord(name="b", topic_id=uuid(202)),
        partition_record(
            uuid(202), 0, adding_replicas=[2], removing_replicas=[1], leader_recovery_state=1, leader_epoch=5
        ),
        ClientQuotaRecord(
            entity=[EntityData("user", "u"), EntityData("client-id", None)], key="producer_byte_rate", value=1.5
        ),
        ProducerIdsRecord(broker_id=1, broker_epoch=3, next_producer_id=2000),
        AccessControlEntryRecord(
            id=uuid(301), resource_type=2, resource_name="a", pattern_type=3, principal="User:u", host="*",
            operation=3, permission_type=3,
        ),
        UserScramCredentialRecord(
            name="u", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
        ),
        DelegationTokenRecord(
            owner="User:u", requester="User:r", renewers=["User:w"], issue_timestamp=1, max_timestamp=3,
            expiration_timestamp=2, token_id="t",
        ),
        NoOpRecord(),
        ZkMigrationStateRecord(zk_migration_state=1),
    ]  # fmt: skip


def test_an_image_that_is_written_and_read_is_the_same() -> None:
    image = build(*everything())
    read_back = [read_record(write_record(*record)) for record in image.records()]
    builder = ImageBuilder(Image("cluster"))
    builder.replay_all(record for record, _ in read_back)
    _, again = builder.build(offset=image.offset, epoch=image.epoch, timestamp_ms=image.timestamp_ms)
    assert again == image
    assert list(again.records()) == list(image.records())


def test_a_snapshot_is_in_the_order_of_kafkas_image_writers() -> None:
    kinds = [type(record).__name__.removesuffix("Record") for record, _ in build(*everything()).records()]
    assert list(dict.fromkeys(kinds)) == [
        "FeatureLevel", "RegisterBroker", "RegisterController", "Topic", "Partition", "Config", "ClientQuota",
        "ProducerIds", "AccessControlEntry", "UserScramCredential", "DelegationToken",
    ]  # fmt: skip


def test_the_records_of_a_snapshot_have_the_versions_that_the_metadata_version_allows() -> None:
    old = [FeatureLevelRecord(name="metadata.version", feature_level=16), *everything()[2:]]
    versions = {type(record).__name__: version for record, version in build(*old).records()}
    assert versions["PartitionRecord"] == 0
    assert versions["RegisterBrokerRecord"] == 2
    latest = {type(record).__name__: version for record, version in build(*everything()).records()}
    assert latest["PartitionRecord"] == 2
    assert latest["RegisterBrokerRecord"] == 4


def test_every_record_type_is_known_to_the_builder_or_to_the_loader() -> None:
    from ottla.metadata.builder import _REPLAYS

    transactions = {"BeginTransactionRecord", "EndTransactionRecord", "AbortTransactionRecord"}
    assert {cls.__name__ for cls in _REPLAYS} | transactions == set(RECORD_TYPES.values())
    assert len(RECORD_TYPES) == 26


def test_a_change_names_only_what_changes_and_a_named_leader_begins_an_epoch() -> None:
    topic = uuid(201)
    image = build(LEVEL, TopicRecord(name="a", topic_id=topic), partition_record(topic, 0))
    before = image.topics.by_name["a"].partitions[0]
    changed = build(PartitionChangeRecord(partition_id=0, topic_id=topic, isr=[1]), base=image)
    after = changed.topics.by_name["a"].partitions[0]
    assert (after.isr, after.leader, after.leader_epoch, after.partition_epoch) == ((1,), 1, 0, 1)
    assert after.directories == before.directories
    again = build(PartitionChangeRecord(partition_id=0, topic_id=topic, leader=1), base=changed)
    same = again.topics.by_name["a"].partitions[0]
    assert (same.leader, same.leader_epoch, same.partition_epoch) == (1, 1, 2)
    assert same.leader_recovery_state is LeaderRecoveryState.RECOVERED


def test_a_partition_of_an_old_log_has_no_directories_yet() -> None:
    topic = uuid(201)
    image = build(LEVEL, TopicRecord(name="a", topic_id=topic), partition_record(topic, 0, directories=[]))
    assert image.topics.by_id[topic].partitions[0].directories == (MIGRATING, MIGRATING)


def test_a_topic_takes_its_settings_with_it() -> None:
    image = build(*everything())
    builder = ImageBuilder(image)
    builder.replay(RemoveTopicRecord(topic_id=uuid(201)))
    delta, after = builder.build(offset=99, epoch=2, timestamp_ms=8)
    assert "a" not in after.topics.by_name
    assert (TOPIC, "a") not in after.configs
    assert list(delta.deleted_topics) == [uuid(201)]
    assert delta.changed_configs[TOPIC, "a"].new == {}
    assert not delta.changed_topics
    assert image.topics.by_name["a"].id == uuid(201), "the image before is untouched"


def test_a_topic_that_is_deleted_and_made_again_in_one_delta_is_two_topics() -> None:
    image = build(*everything())
    builder = ImageBuilder(image)
    builder.replay(RemoveTopicRecord(topic_id=uuid(201)))
    builder.replay(TopicRecord(name="a", topic_id=uuid(203)))
    builder.replay(partition_record(uuid(203), 0))
    delta, after = builder.build(offset=99, epoch=2, timestamp_ms=8)
    assert after.topics.by_name["a"].id == uuid(203)
    assert list(delta.deleted_topics) == [uuid(201)]
    assert delta.changed_topics[uuid(203)].old is None
    assert list(delta.changed_topics[uuid(203)].changed_partitions) == [0]


def test_a_delta_of_one_topic_copies_the_partitions_of_no_other() -> None:
    records: list[Message] = [LEVEL]
    for number in range(200):
        records.append(TopicRecord(name=f"t{number}", topic_id=uuid(1000 + number)))
        records += [partition_record(uuid(1000 + number), index) for index in range(20)]
    image = build(*records)
    builder = ImageBuilder(image)
    builder.replay(PartitionChangeRecord(partition_id=3, topic_id=uuid(1007), isr=[1]))
    delta, after = builder.build(offset=9999, epoch=1, timestamp_ms=9)
    assert list(delta.changed_topics) == [uuid(1007)]
    assert list(delta.changed_topics[uuid(1007)].changed_partitions) == [3]
    for topic_id, topic in after.topics.by_id.items():
        shared = image.topics.by_id[topic_id]
        assert (topic is shared) == (topic_id != uuid(1007))
        assert after.topics.by_name[topic.name] is topic
    old = image.topics.by_id[uuid(1007)].partitions
    new = after.topics.by_id[uuid(1007)].partitions
    assert [index for index in old if old[index] is not new[index]] == [3]
    assert after.brokers is image.brokers, "a table that nothing touched is not copied"


def test_settings_come_and_go_one_by_one() -> None:
    image = build(*everything())
    drop = ConfigRecord(resource_type=TOPIC, resource_name="a", name="retention.ms", value=None)
    after = build(drop, base=image)
    assert after.config_of(TOPIC, "a") == {"segment.bytes": "1048576"}
    last = ConfigRecord(resource_type=TOPIC, resource_name="a", name="segment.bytes", value=None)
    assert (TOPIC, "a") not in build(last, base=after).configs
    assert image.config_of(TOPIC, "a")["retention.ms"] == "5"


def test_brokers_come_change_and_go() -> None:
    image = build(*everything())
    assert image.brokers[1].is_active
    assert image.brokers[1].cordoned_log_dirs == ()
    assert list(image.brokers[1].endpoints) == ["PLAINTEXT", "SSL"]
    assert image.brokers[1].log_dirs == (uuid(2**127 + 1), uuid(1001)), "sorted as signed numbers, as Kafka sorts"
    assert image.brokers[2].is_shutting_down
    assert not image.brokers[2].is_fenced
    builder = ImageBuilder(image)
    builder.replay(FenceBrokerRecord(id=1, epoch=3))
    builder.replay(UnregisterBrokerRecord(broker_id=2, broker_epoch=4))
    delta, after = builder.build(offset=99, epoch=2, timestamp_ms=8)
    assert after.brokers[1].is_fenced
    assert list(after.brokers) == [1]
    assert delta.changed_brokers[2].new is None
    change = delta.changed_brokers[1]
    assert change.old is not None
    assert change.new is not None
    assert (change.old.is_fenced, change.new.is_fenced) == (False, True)


def test_eligible_leaders_are_cleared_for_one_topic_or_for_all() -> None:
    image = build(*everything())
    for name in ("a", ""):
        partition = build(ClearElrRecord(topic_name=name), base=image).topics.by_name["a"].partitions[1]
        assert (partition.elr, partition.last_known_elr) == ((), ())
    untouched = build(ClearElrRecord(topic_name="b"), base=image)
    assert untouched.topics.by_name["a"].partitions[1].elr == (2,)


def test_a_feature_at_level_0_is_gone_and_the_delta_says_so() -> None:
    image = build(*everything())
    builder = ImageBuilder(image)
    builder.replay(FeatureLevelRecord(name="group.version", feature_level=0))
    builder.replay(FeatureLevelRecord(name="kraft.version", feature_level=1))
    delta, after = builder.build(offset=99, epoch=2, timestamp_ms=8)
    assert delta.changed_features == {"group.version": 0}
    assert "kraft.version" not in after.features
    assert after.metadata_version == MetadataVersion(30)
    assert after.metadata_version.name == "4.3-IV0"
    assert after.features_epoch == 99


def test_rules_are_kept_and_removed() -> None:
    image = build(*everything())
    assert image.quotas == {(("client-id", None), ("user", "u")): {"producer_byte_rate": 1.5}}
    assert image.next_producer_id == 2000
    after = build(
        RemoveAccessControlEntryRecord(id=uuid(301)),
        RemoveUserScramCredentialRecord(name="u", mechanism=1),
        RemoveDelegationTokenRecord(token_id="t"),
        ClientQuotaRecord(
            entity=[EntityData("client-id", None), EntityData("user", "u")], key="producer_byte_rate", remove=True
        ),
        base=image,
    )
    assert not after.access_rules
    assert not after.scram_credentials
    assert not after.delegation_tokens
    assert not after.quotas


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (partition_record(uuid(999), 0), "no topic with id"),
        (PartitionChangeRecord(partition_id=9, topic_id=uuid(201), isr=[1]), "no partition 9"),
        (RemoveTopicRecord(topic_id=uuid(999)), "no topic with id"),
        (TopicRecord(name="a", topic_id=uuid(204)), "a topic a already"),
        (UnregisterBrokerRecord(broker_id=1, broker_epoch=99), "not registered at epoch 99"),
        (FenceBrokerRecord(id=8, epoch=1), "broker 8 is not registered"),
        (ClearElrRecord(topic_name="nothing"), "no topic nothing"),
        (RemoveAccessControlEntryRecord(id=uuid(999)), "no access rule"),
    ],
)
def test_a_record_that_fits_nothing_is_refused(record: Message, reason: str) -> None:
    with pytest.raises(ReplayError, match=reason):
        build(record, base=build(*everything()))


def test_between_finds_what_differs_between_unrelated_images() -> None:
    image = build(*everything())
    other = build(LEVEL, TopicRecord(name="c", topic_id=uuid(205)), partition_record(uuid(205), 0))
    delta = between(image, other, is_snapshot=True)
    assert set(delta.deleted_topics) == {uuid(201), uuid(202)}
    assert set(delta.changed_topics) == {uuid(205)}
    assert set(delta.changed_brokers) == {1, 2}
    assert set(delta.changed_configs) == {(TOPIC, "a"), (BROKER, "")}
    assert delta.changed_features == {"eligible.leader.replicas.version": 0, "group.version": 0}
    same = between(image, build(*everything()))
    assert not same.changed_brokers
    assert not same.changed_configs
    assert not same.changed_features


def test_partitions_round_trip_through_their_records() -> None:
    chance = Random(20)
    version = MetadataVersion(30)
    for _ in range(200):
        brokers = chance.sample(range(6), chance.randint(1, 6))
        isr = [broker for broker in brokers if chance.random() < 0.6]
        rest = tuple(broker for broker in brokers if broker not in isr)
        partition = PartitionImage(
            replicas=tuple(brokers),
            directories=tuple(uuid(chance.getrandbits(126)) for _ in brokers),
            isr=tuple(isr),
            leader=isr[0] if isr else -1,
            leader_epoch=chance.randrange(100),
            partition_epoch=chance.randrange(100),
            leader_recovery_state=LeaderRecoveryState(chance.randrange(2)),
            adding=tuple(brokers[:1]) if chance.random() < 0.5 else (),
            removing=tuple(brokers[1:2]),
            elr=rest,
            last_known_elr=rest[:1],
        )
        record = partition.to_record(uuid(201), 4, metadata_version=version, has_elr=True)
        read_back = read_record(write_record(*record)).record
        assert isinstance(read_back, PartitionRecord)
        assert PartitionImage.from_record(read_back) == partition


# The golden log: 482 offsets that a real Kafka 4.3.1 wrote.


@pytest.fixture(scope="module")
def golden_records(tmp_path_factory: pytest.TempPathFactory) -> list[VersionedRecord]:
    directory = golden_data_dir(tmp_path_factory.mktemp("golden"))
    data = (directory / "__cluster_metadata-0" / "00000000000000000000.log").read_bytes()
    found = []
    for batch in batches(data):
        if not batch.is_control:
            found += [read_record(value) for _, _, _, value, _ in batch.rows() if value is not None]
    return found


def golden_image(records: list[VersionedRecord]) -> Image:
    transactions = message_class("BeginTransactionRecord"), message_class("EndTransactionRecord")
    builder = ImageBuilder(Image("WdKyKKmQSAiEX4-qKEX5tw"))
    builder.replay_all(record for record, _ in records if not isinstance(record, transactions))
    return builder.build(offset=481, epoch=1, timestamp_ms=0)[1]


def test_the_golden_log_replays_to_what_its_broker_had(golden_records: list[VersionedRecord], tmp_path: Path) -> None:
    image = golden_image(golden_records)
    directories = {path.name for path in golden_data_dir(tmp_path).iterdir() if path.is_dir()}
    partitions = {f"{topic.name}-{index}" for topic in image.topics.by_name.values() for index in topic.partitions}
    assert partitions == directories - {"__cluster_metadata-0"}
    assert image.features == {
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    }
    broker = image.brokers[1]
    assert (broker.epoch, broker.is_fenced, broker.is_shutting_down) == (19, True, True)
    assert [str(directory) for directory in broker.log_dirs] == ["EZvBZ5H5Xy8vTy_pCaxVTw"]
    assert image.config_of(TOPIC, "plain") == {"retention.ms": "-1", "internal.segment.bytes": "16384"}
    assert image.config_of(BROKER, "") == {"min.insync.replicas": "1"}
    assert image.next_producer_id == 1000
    # A lone broker that shut down leads nothing, and is the one that may lead again.
    for topic in image.topics.by_name.values():
        for partition in topic.partitions.values():
            assert (partition.replicas, partition.isr, partition.leader) == ((1,), (), -1)
            assert (partition.elr, partition.last_known_elr) == ((1,), (1,))


def test_the_golden_image_survives_a_snapshot(golden_records: list[VersionedRecord]) -> None:
    image = golden_image(golden_records)
    assert golden_image(list(image.records())) == image


def test_golden_registrations_are_written_as_they_were_read(golden_records: list[VersionedRecord]) -> None:
    """What a snapshot writes for a broker, a controller and a partition is the record that first told of them."""
    first = {type(record): (record, version) for record, version in reversed(golden_records)}
    for kind in (RegisterBrokerRecord, RegisterControllerRecord, PartitionRecord, TopicRecord):
        record, version = first[kind]
        needed: list[Message] = [LEVEL, record]
        if isinstance(record, PartitionRecord):
            needed.insert(1, TopicRecord(name="a", topic_id=record.topic_id))
        written = [one for one in build(*needed).records() if type(one.record) is kind]
        expected = json.dumps(to_json(record, version), sort_keys=True)
        assert [json.dumps(to_json(one, number), sort_keys=True) for one, number in written] == [expected]
        assert [number for _, number in written] == [version]
