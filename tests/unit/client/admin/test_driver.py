"""How calls are carried out when brokers fail, move, load, lie and are slow: on a fake cluster that does all that."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ottla.client.admin import (
    Admin,
    AsyncAdmin,
    AsyncFakeAdmin,
    ConfigResource,
    FakeAdmin,
    FakeCluster,
    GroupListing,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)
from ottla.client.admin.fake.admin import FakeNetwork
from ottla.client.errors import ClientClosed, InternalError, KafkaTimeout
from ottla.client.network import MAIN, OnAnswer, Request
from ottla.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidRequest,
    KafkaError,
    NetworkException,
    NotController,
    NotCoordinator,
    NotLeaderOrFollower,
    RequestTimedOut,
    ThrottlingQuotaExceeded,
    TopicAuthorizationFailed,
    UnknownServerError,
)
from ottla.types import TopicPartition
from ottla.wire import APIS, Message
from ottla.world import ClientWorld
from ottla.world.threads import running_world

Fault = Callable[[Message], Message | None]


class FaultyCluster(FakeCluster):
    """Faults by the name of the API: each is raised, or edits the answer, once."""

    def __init__(self, brokers: int = 1) -> None:
        super().__init__(brokers)
        self.faults: dict[str, list[KafkaError | Fault]] = {}
        self.asked: list[tuple[str, int]] = []

    def fail(self, api: str, *faults: KafkaError | Fault) -> None:
        self.faults.setdefault(api, []).extend(faults)

    def count(self, api: str) -> int:
        return Counter(name for name, _ in self.asked)[api]

    def answer(self, node_id: int, request: Message) -> Message:
        api = APIS[request.schema.api_key or 0].name
        self.asked.append((api, node_id))
        faults = self.faults.get(api)
        fault = faults.pop(0) if faults else None
        if isinstance(fault, KafkaError):
            raise fault
        response = super().answer(node_id, request)
        return response if fault is None else fault(response) or response


@pytest.fixture
def cluster() -> FaultyCluster:
    return FaultyCluster(2)


@pytest.fixture
def admin(cluster: FaultyCluster) -> FakeAdmin:
    return FakeAdmin(cluster)


def coded(part: str, error: type[KafkaError]) -> Fault:
    """An answer in which everything has failed so."""

    def edit(response: Any) -> None:
        for one in getattr(response, part):
            one.error_code = error.code

    return edit


def partitions_coded(error: type[KafkaError]) -> Fault:
    def edit(response: Any) -> None:
        for topic in response.topics:
            for one in topic.partitions:
                one.error_code = error.code

    return edit


@pytest.mark.parametrize(
    "fault",
    [NetworkException("cut"), RequestTimedOut("late"), coded("topics", NotController)],
    ids=["cut", "late", "not-controller"],
)
def test_what_passes_is_tried_again_with_fresh_nodes(
    admin: FakeAdmin, cluster: FaultyCluster, fault: KafkaError | Fault
) -> None:
    cluster.fail("CreateTopics", fault)
    assert admin.create_topics([NewTopic("a", 1, 1)], validate_only=True).all()["a"].partition_count == 1
    assert cluster.count("CreateTopics") == 2
    assert cluster.count("Metadata") == 2


def test_a_quota_on_changes_is_waited_for(admin: FakeAdmin, cluster: FaultyCluster) -> None:
    cluster.fail("CreatePartitions", coded("results", ThrottlingQuotaExceeded))
    admin.create_topics([NewTopic("a", 1, 1)]).all()
    admin.create_partitions({"a": NewPartitions(2)}, validate_only=True).all()
    assert cluster.count("CreatePartitions") == 2


def test_what_does_not_pass_is_told_at_once(admin: FakeAdmin, cluster: FaultyCluster) -> None:
    admin.create_topics([NewTopic("a", 1, 1)]).all()
    cluster.fail("ListOffsets", partitions_coded(TopicAuthorizationFailed))
    partition = TopicPartition("a", 0)
    assert isinstance(admin.list_offsets({partition: OffsetSpec.latest()})[partition].error, TopicAuthorizationFailed)
    assert cluster.count("ListOffsets") == 1


def test_a_leader_that_has_moved_is_looked_for_again(admin: FakeAdmin, cluster: FaultyCluster) -> None:
    admin.create_topics([NewTopic("a", assignments={0: [1, 2]})]).all()

    def moved(response: Any) -> None:
        cluster.topics["a"].partitions[0].replicas = [2, 1]

    cluster.fail("Metadata", moved)  # just after it was told
    partition = TopicPartition("a", 0)
    assert admin.list_offsets({partition: OffsetSpec.latest()}).all()[partition].offset == 0
    assert [node for api, node in cluster.asked if api == "ListOffsets"] == [1, 2]


def test_partitions_are_asked_for_at_their_leaders_all_at_once(admin: FakeAdmin, cluster: FaultyCluster) -> None:
    admin.create_topics([NewTopic("a", 4, 1), NewTopic("b", 2, 1)]).all()
    wanted = {TopicPartition(topic, index): OffsetSpec.latest() for topic in "ab" for index in range(2)}
    assert list(admin.list_offsets(wanted).all()) == list(wanted)
    assert Counter(cluster.asked)["ListOffsets", 1] == Counter(cluster.asked)["ListOffsets", 2] == 1


def test_only_what_has_failed_is_asked_for_again(admin: FakeAdmin, cluster: FaultyCluster) -> None:
    admin.create_topics([NewTopic("a", assignments={0: [1], 1: [1]})]).all()
    sizes = []

    def first_fails(response: Any) -> None:
        response.topics[0].partitions[0].error_code = NotLeaderOrFollower.code

    def count(response: Any) -> None:
        sizes.append(len(response.topics[0].partitions))

    cluster.fail("ListOffsets", first_fails, count)
    admin.list_offsets({TopicPartition("a", index): OffsetSpec.latest() for index in range(2)}).all()
    assert sizes == [1]


@pytest.mark.parametrize("error", [NotCoordinator, CoordinatorNotAvailable, CoordinatorLoadInProgress])
def test_a_coordinator_that_moves_or_loads_is_found_again(
    admin: FakeAdmin, cluster: FaultyCluster, error: type[KafkaError]
) -> None:
    cluster.put_group("g")
    cluster.fail("ConsumerGroupDescribe", coded("groups", error))
    assert admin.describe_consumer_groups(["g"]).all()["g"].group_id == "g"
    assert cluster.count("FindCoordinator") == 2
    admin.describe_consumer_groups(["g"]).all()
    assert cluster.count("FindCoordinator") == 2, "it is remembered"


def test_a_coordinator_that_is_not_there_yet_is_waited_for(admin: FakeAdmin, cluster: FaultyCluster) -> None:
    cluster.put_group("g")
    cluster.fail("FindCoordinator", coded("coordinators", CoordinatorNotAvailable))
    assert admin.delete_groups(["g"]).all() == {"g": None}


def test_groups_are_asked_for_at_their_coordinators_all_at_once(admin: FakeAdmin, cluster: FaultyCluster) -> None:
    groups = [f"g{index}" for index in range(10)]
    for group in groups:
        cluster.put_group(group)
    assert list(admin.list_consumer_group_offsets(groups).all()) == groups
    assert cluster.count("FindCoordinator") == 1
    assert cluster.count("OffsetFetch") == 2


def test_a_broker_that_loads_does_not_hide_its_groups(admin: FakeAdmin, cluster: FaultyCluster) -> None:
    cluster.put_group("g")

    def loading(response: Any) -> None:
        response.error_code = CoordinatorLoadInProgress.code
        response.groups = []

    cluster.fail("ListGroups", loading, loading)
    listed: list[GroupListing] = admin.list_groups()
    assert [one.group_id for one in listed] == ["g"]


def test_a_key_that_the_answer_leaves_out_has_failed(admin: FakeAdmin, cluster: FaultyCluster) -> None:
    def shortened(response: Any) -> None:
        response.results.pop()

    cluster.fail("DescribeConfigs", shortened)
    admin.create_topics([NewTopic("a", 1, 1), NewTopic("b", 1, 1)]).all()
    outcomes = admin.describe_configs([ConfigResource.topic("a"), ConfigResource.topic("b")])
    assert outcomes[ConfigResource.topic("a")].error is None
    with pytest.raises(UnknownServerError, match="says nothing of topic b"):
        outcomes.all()


def test_a_call_ends_with_its_time_and_says_what_it_waited_for(cluster: FaultyCluster) -> None:
    admin = AsyncFakeAdmin(cluster)
    clock = admin._network.world.clock
    begun_ms = clock.monotonic_ms()
    cluster.fail("CreateTopics", *[NetworkException("cut")] * 100)
    error = admin.create_topics([NewTopic("a", 1, 1)], timeout=5)["a"].error
    assert isinstance(error, KafkaTimeout)
    assert str(error) == "CreateTopics was not done within 5000 ms (8 attempts). The last error: cut"
    assert isinstance(error.__cause__, NetworkException)
    # 100, 200, 400, 800, then a second each: the ninth attempt would be too late.
    assert clock.monotonic_ms() - begun_ms == 4500


def test_a_broker_that_is_not_there_is_waited_for(admin: FakeAdmin) -> None:
    """It may be on its way back; the others are told of meanwhile."""
    outcomes = admin.describe_log_dirs([1, 2, 99], timeout=5)
    assert list(outcomes.succeeded) == [1, 2]
    assert "Node 99 is not one of the live ones" in str(outcomes[99].error)


def test_attempts_are_counted_too(cluster: FaultyCluster) -> None:
    admin = FakeAdmin(cluster, retries=1)
    cluster.fail("CreateTopics", *[NetworkException("cut")] * 3)
    with pytest.raises(KafkaTimeout, match=r"\(2 attempts\)"):
        admin.create_topics([NewTopic("a", 1, 1)]).all()
    assert cluster.count("CreateTopics") == 2


def test_nothing_asked_for_asks_nobody(admin: FakeAdmin, cluster: FaultyCluster) -> None:
    assert admin.describe_topics([]).all() == {}
    assert admin.delete_groups([]).all() == {}
    assert cluster.asked == []


def test_a_name_alone_is_not_taken_for_its_letters(admin: FakeAdmin, cluster: FaultyCluster) -> None:
    cluster.put_group("group")
    assert list(admin.describe_consumer_groups("group")) == ["group"]
    assert list(admin.list_consumer_group_offsets("group")) == ["group"]


def test_a_value_that_the_wire_cannot_carry_is_the_calls_error(admin: FakeAdmin) -> None:
    """Also before there is a connection, where the codec would fail long after the call."""
    wrong: Any = 5
    with pytest.raises(InvalidRequest, match=r"topics\[0\]\.name: is int 5, not a str"):
        admin.create_topics([NewTopic(wrong)]).all()
    with pytest.raises(InvalidRequest, match="is int 5"):
        admin.delete_groups([wrong]).all()
    with pytest.raises(InvalidRequest, match="is int 5"):
        admin.list_offsets({TopicPartition(wrong, 0): OffsetSpec.latest()}).all()


def test_what_is_asked_is_counted(admin: FakeAdmin, cluster: FaultyCluster) -> None:
    admin.list_topics()
    cluster.fail("DescribeCluster", NetworkException("cut"))
    admin.describe_cluster()
    metrics = admin.metrics()
    assert metrics.value("request-total", "admin-client-metrics") == len(cluster.asked) == 3
    assert metrics.value("response-total", "admin-client-metrics") == 2
    assert metrics.value("connection-count") == 0, "there are no connections"
    admin.close()
    assert admin.metrics() == metrics


def test_a_closed_admin_says_so(admin: FakeAdmin) -> None:
    admin.close()
    admin.close()
    with pytest.raises(ClientClosed):
        admin.list_topics()
    with pytest.raises(ClientClosed):
        admin.create_topics([NewTopic("a")])


# With time that really passes


class SlowNetwork(FakeNetwork):
    """A broker that takes its time, among others that do not."""

    slow = -1

    def send_then(
        self,
        node_id: int,
        request: Request,
        on_answer: OnAnswer,
        *,
        timeout_ms: float | None = None,
        lane: str = MAIN,
    ) -> None:
        def send() -> None:
            FakeNetwork.send_then(self, node_id, request, on_answer)

        self.world.tasks.later(50 if node_id == self.slow else 0, send)


class SlowAdmin(AsyncAdmin):
    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        super().__init__(bootstrap_servers="fake:9092")

    def _connect(self, world: ClientWorld) -> SlowNetwork:
        network = SlowNetwork(world, self.config, self.cluster)
        network.slow = 2
        return network


def test_a_slow_broker_holds_up_only_its_own(cluster: FaultyCluster) -> None:
    FakeAdmin(cluster).create_topics([NewTopic("a", assignments={0: [1], 1: [2]})]).all()

    async def main() -> None:
        async with SlowAdmin(cluster) as admin:
            fast, slow = TopicPartition("a", 0), TopicPartition("a", 1)
            outcomes = admin.list_offsets({slow: OffsetSpec.latest(), fast: OffsetSpec.latest()})
            assert (await outcomes[fast]).offset == 0
            assert not outcomes[slow].done
            assert (await outcomes).errors == {}

    asyncio.run(main())


def test_a_fault_of_our_own_ends_the_call_and_is_its_error(cluster: FaultyCluster) -> None:
    def broken(response: Any) -> Message:
        response.topics = None
        return response  # type: ignore[no-any-return]

    cluster.fail("CreateTopics", broken)

    async def main() -> None:
        async with SlowAdmin(cluster) as admin:
            with pytest.raises(InternalError, match="CreateTopics could not be read: TypeError") as caught:
                await admin.create_topics([NewTopic("a", 1, 1)])["a"]
            assert isinstance(caught.value.__cause__, TypeError)

    asyncio.run(main())


def test_closing_ends_what_is_under_way() -> None:
    async def main() -> None:
        admin = AsyncAdmin(bootstrap_servers="127.0.0.1:1")
        outcomes = admin.create_topics([NewTopic("a", 1, 1)])
        await asyncio.sleep(0.01)
        await admin.close()
        with pytest.raises(ClientClosed):
            await asyncio.wait_for(_all(outcomes["a"]), 5)

    async def _all(outcome: Any) -> Any:
        return await outcome

    asyncio.run(main())


@pytest.mark.parametrize("backoff_ms", [1, 60_000])
def test_closing_from_another_thread_ends_the_wait(backoff_ms: int) -> None:
    """Whether the call waits for a connection just then, or for its next attempt."""
    admin = Admin(
        bootstrap_servers="127.0.0.1:1",
        retry_backoff_ms=backoff_ms,
        reconnect_backoff_ms=1,
        retry_backoff_max_ms=60_000,
    )
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(admin.create_topics, [NewTopic("a", 1, 1)], timeout=120)
        while not admin._admin._network._links:  # not yet asked for: nothing is counted before it was sent
            time.sleep(0.001)
        admin.close()
        try:
            error = waiting.result(10)["a"].error
        except ClientClosed as raised:
            error = raised
    assert isinstance(error, ClientClosed)


def test_a_world_is_that_of_the_running_loop() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        AsyncAdmin(bootstrap_servers="localhost:9092")

    async def main() -> None:
        async with AsyncAdmin(bootstrap_servers="localhost:9092", world=running_world()) as admin:
            assert admin.config.client_id.startswith("adminclient-")

    asyncio.run(main())


def test_a_new_topic_without_configs_may_say_none(admin: FakeAdmin) -> None:
    admin.create_topics([NewTopic("plain", 1, 1, configs=None)], timeout=5).all()
    assert "plain" in admin.list_topics()
