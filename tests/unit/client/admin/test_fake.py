"""`FakeAdmin`, for users' unit tests, with nothing behind it. What it shares with a broker is in tests/clients."""

from __future__ import annotations

import asyncio
import time

import pytest

from ottla.client.admin import (
    Admin,
    AlterConfigOp,
    AsyncAdmin,
    AsyncFakeAdmin,
    ConfigResource,
    FakeAdmin,
    FakeCluster,
    FakeMember,
    GroupState,
    GroupType,
    NewTopic,
    OffsetSpec,
)
from ottla.client.errors import KafkaTimeout
from ottla.client.group import OffsetAndMetadata
from ottla.errors import InvalidReplicationFactor, InvalidTopicException, UnsupportedVersion
from ottla.types import TopicPartition


def make_topics(admin: Admin) -> list[str]:
    """Code of a user's, which does not know what it is given."""
    admin.create_topics([NewTopic("orders", 3, 2), NewTopic("payments", 1, 2)]).all()
    return sorted(admin.list_topics())


def test_code_that_takes_an_admin_takes_a_fake_one() -> None:
    with FakeAdmin(FakeCluster(brokers=3)) as admin:
        assert make_topics(admin) == ["orders", "payments"]
        described = admin.describe_topics(["orders"]).all()["orders"]
        replicas = [[node.node_id for node in one.replicas] for one in described.partitions]
        assert replicas == [[1, 2], [2, 3], [3, 1]]
        with pytest.raises(InvalidReplicationFactor, match="only 3 broker"):
            admin.create_topics([NewTopic("wide", 1, 4)]).all()


def test_the_async_one_needs_no_loop_and_works_on_one() -> None:
    async def make(admin: AsyncAdmin) -> list[str]:
        await admin.create_topics([NewTopic("orders", 1, 1)])
        return list(await admin.list_topics())

    async def main() -> list[str]:
        async with AsyncFakeAdmin() as admin:
            return await make(admin)

    assert asyncio.run(main()) == ["orders"]


def test_several_admins_may_share_a_cluster() -> None:
    cluster = FakeCluster()
    FakeAdmin(cluster).create_topics([NewTopic("orders", 1, 1)]).all()
    assert list(FakeAdmin(cluster).list_topics()) == ["orders"]
    assert list(FakeAdmin().list_topics()) == []


def test_the_file_of_the_brokers_can_be_chosen() -> None:
    cluster = FakeCluster(3, settings={"num.partitions": "6", "default.replication.factor": "3"})
    told = FakeAdmin(cluster).create_topics([NewTopic("orders")]).all()["orders"]
    assert (told.partition_count, told.replication_factor) == (6, 3)


def test_records_and_groups_are_put_in() -> None:
    admin = FakeAdmin()
    admin.create_topics([NewTopic("orders", 1, 1)]).all()
    partition = TopicPartition("orders", 0)
    assert admin.cluster.put_records(partition, 100, timestamp_ms=1) == 100
    assert admin.cluster.put_records(partition, timestamp_ms=2) == 101
    member = FakeMember("m-1", topics=("orders",), assignment=frozenset({partition}))
    admin.cluster.put_group("billing", [member], offsets={partition: 90}, type=GroupType.CONSUMER)
    end = admin.list_offsets({partition: OffsetSpec.latest()}).all()[partition].offset
    committed = admin.list_consumer_group_offsets(["billing"]).all()["billing"][partition]
    assert committed == OffsetAndMetadata(90)
    assert end - committed.offset == 11
    described = admin.describe_consumer_groups(["billing"]).all()["billing"]
    assert (described.state, described.members[0].assignment) == (GroupState.STABLE, frozenset({partition}))
    admin.cluster.groups["billing"].members.clear()
    admin.delete_groups(["billing"]).all()
    assert admin.list_groups() == []


def test_names_that_metrics_could_not_tell_apart_are_refused() -> None:
    admin = FakeAdmin()
    admin.create_topics([NewTopic("a.b", 1, 1)]).all()
    with pytest.raises(InvalidTopicException, match=r"collides with existing topic: a\.b"):
        admin.create_topics([NewTopic("a_b", 1, 1)]).all()


def test_a_topic_that_is_made_again_begins_with_default_settings() -> None:
    admin = FakeAdmin()
    resource = ConfigResource.topic("orders")
    first = admin.create_topics([NewTopic("orders", 1, 1, configs={"retention.ms": "1"})]).all()["orders"]
    admin.delete_topics(["orders"]).all()
    second = admin.create_topics([NewTopic("orders", 1, 1)]).all()["orders"]
    assert first.topic_id != second.topic_id
    assert admin.describe_configs([resource]).all()[resource]["retention.ms"].is_default


def test_what_is_set_for_brokers_shows_in_topics() -> None:
    admin = FakeAdmin()
    admin.create_topics([NewTopic("orders", 1, 1)]).all()
    for_all, topic = ConfigResource.broker_defaults(), ConfigResource.topic("orders")
    admin.incremental_alter_configs({for_all: [AlterConfigOp.set("log.retention.ms", "5000")]}).all()
    assert admin.describe_configs([topic]).all()[topic]["retention.ms"].value == "5000"


def test_a_time_out_takes_no_time() -> None:
    begun = time.monotonic()
    with pytest.raises(KafkaTimeout, match="within 3600000 ms"):
        FakeAdmin().list_offsets({TopicPartition("not-there", 0): OffsetSpec.latest()}, timeout=3600).all()
    assert time.monotonic() - begun < 10


def test_what_is_not_played_says_so() -> None:
    with pytest.raises(UnsupportedVersion, match="FakeAdmin does not play DescribeAcls"):
        FakeAdmin().describe_acls()
    with pytest.raises(UnsupportedVersion, match="no loggers"):
        FakeAdmin().describe_configs([ConfigResource.broker_logger(1)]).all()
