"""What holds for every call of an admin: it ends, in time and with the reason, whatever goes wrong on the way."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.admin import (
    AbortTransactionSpec,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AlterConfigOp,
    AsyncAdmin,
    ConfigResource,
    ElectionType,
    FeatureUpdate,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    Outcomes,
    QuotaEntity,
    ResourceType,
    ScramMechanism,
    SetScramPassword,
    TopicPartitionReplica,
)
from ottla.client.admin.network import AdminNetwork
from ottla.client.errors import InternalError, KafkaTimeout
from ottla.client.network import MAIN, ApiVersions, Build, OnAnswer, Request
from ottla.errors import KafkaError
from ottla.types import TopicPartition, Uuid
from ottla.wire import APIS, Message
from tests.support.broker_cluster import BrokerCluster

A0 = TopicPartition("a", 0)
REPLICA = TopicPartitionReplica("a", 0, 1)
SPEC = AbortTransactionSpec(A0, 1, 0, 0)
ACL = AclBinding(ResourceType.TOPIC, "a", "User:alice", AclOperation.READ)

CALLS: dict[str, Callable[..., Any]] = {
    "abort_transaction": lambda admin, **time: admin.abort_transaction(SPEC, **time),
    "add_raft_voter": lambda admin, **time: admin.add_raft_voter(1, Uuid(bytes(15) + b"1"), [], **time),
    "alter_client_quotas": lambda admin, **time: admin.alter_client_quotas(
        {QuotaEntity((("user", "alice"),)): {"producer_byte_rate": 1.0}}, **time
    ),
    "alter_consumer_group_offsets": lambda admin, **time: admin.alter_consumer_group_offsets("g", {A0: 1}, **time),
    "alter_partition_reassignments": lambda admin, **time: admin.alter_partition_reassignments({A0: [1]}, **time),
    "alter_replica_log_dirs": lambda admin, **time: admin.alter_replica_log_dirs({REPLICA: "/data"}, **time),
    "alter_share_group_offsets": lambda admin, **time: admin.alter_share_group_offsets("g", {A0: 1}, **time),
    "alter_streams_group_offsets": lambda admin, **time: admin.alter_streams_group_offsets("g", {A0: 1}, **time),
    "alter_user_scram_credentials": lambda admin, **time: admin.alter_user_scram_credentials(
        [SetScramPassword("alice", ScramMechanism.SCRAM_SHA_256, "secret")], **time
    ),
    "client_instance_id": lambda admin, **time: admin.client_instance_id(**time),
    "create_acls": lambda admin, **time: admin.create_acls([ACL], **time),
    "create_delegation_token": lambda admin, **time: admin.create_delegation_token(**time),
    "create_partitions": lambda admin, **time: admin.create_partitions({"a": NewPartitions(2)}, **time),
    "create_topics": lambda admin, **time: admin.create_topics([NewTopic("b")], **time),
    "delete_acls": lambda admin, **time: admin.delete_acls([AclBindingFilter()], **time),
    "delete_consumer_group_offsets": lambda admin, **time: admin.delete_consumer_group_offsets("g", [A0], **time),
    "delete_consumer_groups": lambda admin, **time: admin.delete_consumer_groups(["g"], **time),
    "delete_groups": lambda admin, **time: admin.delete_groups(["g"], **time),
    "delete_records": lambda admin, **time: admin.delete_records({A0: 1}, **time),
    "delete_share_group_offsets": lambda admin, **time: admin.delete_share_group_offsets("g", ["a"], **time),
    "delete_share_groups": lambda admin, **time: admin.delete_share_groups(["g"], **time),
    "delete_streams_group_offsets": lambda admin, **time: admin.delete_streams_group_offsets("g", [A0], **time),
    "delete_streams_groups": lambda admin, **time: admin.delete_streams_groups(["g"], **time),
    "delete_topics": lambda admin, **time: admin.delete_topics(["a"], **time),
    "describe_acls": lambda admin, **time: admin.describe_acls(**time),
    "describe_classic_groups": lambda admin, **time: admin.describe_classic_groups(["g"], **time),
    "describe_client_quotas": lambda admin, **time: admin.describe_client_quotas(**time),
    "describe_cluster": lambda admin, **time: admin.describe_cluster(**time),
    "describe_configs": lambda admin, **time: admin.describe_configs([ConfigResource.topic("a")], **time),
    "describe_consumer_groups": lambda admin, **time: admin.describe_consumer_groups(["g"], **time),
    "describe_delegation_tokens": lambda admin, **time: admin.describe_delegation_tokens(**time),
    "describe_features": lambda admin, **time: admin.describe_features(**time),
    "describe_log_dirs": lambda admin, **time: admin.describe_log_dirs([1], **time),
    "describe_metadata_quorum": lambda admin, **time: admin.describe_metadata_quorum(**time),
    "describe_producers": lambda admin, **time: admin.describe_producers([A0], **time),
    "describe_replica_log_dirs": lambda admin, **time: admin.describe_replica_log_dirs([REPLICA], **time),
    "describe_share_groups": lambda admin, **time: admin.describe_share_groups(["g"], **time),
    "describe_streams_groups": lambda admin, **time: admin.describe_streams_groups(["g"], **time),
    "describe_topics": lambda admin, **time: admin.describe_topics(["a"], **time),
    "describe_transactions": lambda admin, **time: admin.describe_transactions(["t"], **time),
    "describe_user_scram_credentials": lambda admin, **time: admin.describe_user_scram_credentials(**time),
    "elect_leaders": lambda admin, **time: admin.elect_leaders(ElectionType.PREFERRED, [A0], **time),
    "expire_delegation_token": lambda admin, **time: admin.expire_delegation_token(b"h", **time),
    "fence_producers": lambda admin, **time: admin.fence_producers(["t"], **time),
    "force_terminate_transaction": lambda admin, **time: admin.force_terminate_transaction("t", **time),
    "incremental_alter_configs": lambda admin, **time: admin.incremental_alter_configs(
        {ConfigResource.topic("a"): [AlterConfigOp.set("retention.ms", "1")]}, **time
    ),
    "list_client_metrics_resources": lambda admin, **time: admin.list_client_metrics_resources(**time),
    "list_config_resources": lambda admin, **time: admin.list_config_resources(**time),
    "list_consumer_group_offsets": lambda admin, **time: admin.list_consumer_group_offsets(["g"], **time),
    "list_consumer_groups": lambda admin, **time: admin.list_consumer_groups(**time),
    "list_groups": lambda admin, **time: admin.list_groups(**time),
    "list_log_ends": lambda admin, **time: admin.list_log_ends({1: [A0]}, **time),
    "list_offsets": lambda admin, **time: admin.list_offsets({A0: OffsetSpec.latest()}, **time),
    "list_partition_reassignments": lambda admin, **time: admin.list_partition_reassignments(**time),
    "list_share_group_offsets": lambda admin, **time: admin.list_share_group_offsets(["g"], **time),
    "list_streams_group_offsets": lambda admin, **time: admin.list_streams_group_offsets(["g"], **time),
    "list_topics": lambda admin, **time: admin.list_topics(**time),
    "list_transactions": lambda admin, **time: admin.list_transactions(**time),
    "remove_members_from_consumer_group": lambda admin, **time: admin.remove_members_from_consumer_group(
        "g", ["i"], **time
    ),
    "remove_raft_voter": lambda admin, **time: admin.remove_raft_voter(1, Uuid(bytes(15) + b"1"), **time),
    "renew_delegation_token": lambda admin, **time: admin.renew_delegation_token(b"h", **time),
    "unregister_broker": lambda admin, **time: admin.unregister_broker(1, **time),
    "update_features": lambda admin, **time: admin.update_features({"kraft.version": FeatureUpdate(1)}, **time),
}
ROUTING = ("FindCoordinator", "Metadata")
"""What a call asks to find out whom to ask."""


def test_the_table_has_every_call() -> None:
    public = {name for name, _ in inspect.getmembers(AsyncAdmin, inspect.isfunction) if not name.startswith("_")}
    assert set(CALLS) == public - {"close", "metrics"}


class RaisingNetwork(AdminNetwork):
    """Connections over which requests go whose builder raises, but for those to the APIs that are spared."""

    spared: tuple[str, ...] = ()

    def send_then(
        self, node_id: int, request: Request, on_answer: OnAnswer, *, timeout_ms: float | None = None, lane: str = MAIN
    ) -> None:
        api_key = request.api_key if isinstance(request, Build) else request.schema.api_key
        assert api_key is not None
        if APIS[api_key].name not in self.spared:
            request = Build(api_key, _raise)
        super().send_then(node_id, request, on_answer, timeout_ms=timeout_ms, lane=lane)


def _raise(version: int) -> Message:
    raise ZeroDivisionError("the builder has a bug")


class RaisingAdmin(AsyncAdmin):
    def _connect(self, world: Any) -> AdminNetwork:
        return RaisingNetwork(world, self.config, name="RaisingAdmin")


async def error_of(call: Any) -> KafkaError:
    """What the call ends with."""
    with pytest.raises(KafkaError) as caught:  # noqa: PT012  it may be told late or at once
        told = await call
        assert isinstance(told, Outcomes), "a call that cannot have been carried out has succeeded"
        told.all()
    return caught.value


@pytest.mark.parametrize("spared", [(), ROUTING], ids=["every-request", "its-own-request"])
def test_what_a_request_builder_raises_is_the_calls_error(
    spared: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice each: while the connection is not made yet and once it is, which are two ways through the client."""
    monkeypatch.setattr(RaisingNetwork, "spared", spared)
    # A request of an API that the broker does not serve would be refused before it is built.
    monkeypatch.setattr(
        ApiVersions, "usable", lambda _, key, low=0, high=0x7FFF: max(low, min(APIS[key].advertised.last, high))
    )
    cluster = BrokerCluster(1, broker_count=1)
    cluster.create_topic("a")

    async def main(world: Any) -> None:
        for name, call in CALLS.items():
            if name == "list_topics" and spared:
                continue  # its own request is the one that is spared
            async with RaisingAdmin(bootstrap_servers=cluster.bootstrap_servers, world=world) as admin:
                begun_ms = world.clock.monotonic_ms()
                for _ in range(2):
                    error = await error_of(call(admin))
                    assert isinstance(error, InternalError), error
                    assert "ZeroDivisionError: the builder has a bug" in str(error)
                    assert isinstance(error.__cause__, ZeroDivisionError)
                assert world.clock.monotonic_ms() - begun_ms < 5000

    cluster.run(main)


def test_what_raises_while_an_answer_is_read_is_the_calls_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers that lack everything a reader looks for."""
    cluster = BrokerCluster(1, broker_count=1)
    cluster.create_topic("a")

    async def main(world: Any) -> None:
        async with AsyncAdmin(bootstrap_servers=cluster.bootstrap_servers, world=world) as admin:
            await admin.list_topics()
            send = admin._network.send

            def sent(*args: Any, **more: Any) -> Any:
                answered = world.tasks.promise()
                send(*args, **more).add_done_callback(lambda _: answered.set_result(object()))
                return answered

            monkeypatch.setattr(admin._network, "send", sent)
            for call in (
                admin.list_topics(),
                admin.create_topics([NewTopic("b")]),
                admin.list_offsets({A0: OffsetSpec.latest()}),
            ):
                assert "AttributeError" in str(await error_of(call))

    cluster.run(main)


def test_no_call_takes_longer_than_its_time_when_nobody_answers() -> None:
    """Neither the broker that is looked for nor any other: each call ends in time and says what it waited for."""
    cluster = BrokerCluster(2, broker_count=1)

    async def main(world: Any) -> None:
        cluster.nodes.pause()  # their systems take connections, and nothing comes of them
        for name, call in CALLS.items():
            async with AsyncAdmin(bootstrap_servers=cluster.bootstrap_servers, world=world) as admin:
                for time, limit_ms in (({"timeout": 3}, 3000), ({}, 60_000)):
                    begun_ms = world.clock.monotonic_ms()
                    error = await error_of(call(admin, **time))
                    assert isinstance(error, KafkaTimeout), f"{name}: {error!r}"
                    assert f"{limit_ms} ms" in str(error)
                    assert "broker1:9092" in str(error), f"{name} does not say whom it waited for: {error}"
                    assert world.clock.monotonic_ms() - begun_ms <= limit_ms + 10, name

    cluster.run(main)
