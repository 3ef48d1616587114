"""The settings of replication act on whole nodes: from the file, and at once where they may be changed."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from ottla.net import OnAnswer
from ottla.node import Node
from ottla.types import TopicPartition
from ottla.wire import Message
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.support.logs import make_batch
from tests.unit.node.trio import Trio

BROKER = 4
SIZE = 400
"""Of a batch, at least."""
LED_BY_1 = [[1, 2, 3]]


class Answers:
    """What a node's fetches were answered, taken down on the way: the records of each partition by answer, in bytes."""

    def __init__(self, node: Node) -> None:
        self.sizes: list[list[int]] = []
        peers: Any = node.broker.peers
        self._send_then = peers.send_then
        peers.send_then = self._noting

    def _noting(self, broker_id: int, request: Message, on_answer: OnAnswer, **how: Any) -> None:
        def note(response: Message | None, error: Any) -> None:
            if isinstance(request, FetchRequest) and isinstance(response, FetchResponse):
                parts = [len(one.records or b"") for topic in response.responses for one in topic.partitions]
                self.sizes.append([size for size in parts if size])
            on_answer(response, error)

        self._send_then(broker_id, request, note, **how)

    @property
    def with_records(self) -> list[list[int]]:
        return [sizes for sizes in self.sizes if sizes]


def append(cluster: Trio, count: int, index: int = 0) -> None:
    """Batches of `SIZE` bytes and a little, on the leader, which is node 1."""
    for _ in range(count):
        cluster.node(1).replicas.by_name["t"][index].append(bytearray(make_batch(SIZE * b"x")))


def ends(cluster: Trio, node_id: int) -> list[int]:
    logs = cluster.node(node_id).replicas.logs
    partitions = cluster.node(node_id).replicas.by_name["t"]
    return [log.log_end_offset for index in sorted(partitions) if (log := logs.get(TopicPartition("t", index)))]


def fetchers(cluster: Trio, node_id: int) -> set[tuple[int, int]]:
    """The leader and the number of each fetcher of a node that has partitions."""
    manager = cluster.node(node_id).replicas.fetchers
    return set() if manager is None else set(manager.fetchers)


def alter(cluster: Trio, node: str, name: str, value: str) -> None:
    """A dynamic setting of a broker, or of all when it is ""."""
    setting = AlterableConfig(name, 0, value)
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(BROKER, node, [setting])])
    response = cluster.run(cluster.controller.controller.handle(request, version=1))
    assert isinstance(response, IncrementalAlterConfigsResponse)
    assert response.responses[0].error_code == 0, response
    cluster.pass_seconds(2)


def test_partitions_are_spread_over_as_many_fetchers_as_the_file_says_and_as_it_is_changed_to() -> None:
    """`num.replica.fetchers`, for all brokers and for one."""
    with Trio({"num.replica.fetchers": "3"}) as cluster:
        cluster.create("t", 12 * LED_BY_1)
        assert fetchers(cluster, 2) == fetchers(cluster, 3) == {(1, 0), (1, 1), (1, 2)}
        alter(cluster, "", "num.replica.fetchers", "2")
        assert fetchers(cluster, 2) == fetchers(cluster, 3) == {(1, 0), (1, 1)}
        alter(cluster, "3", "num.replica.fetchers", "4")
        assert fetchers(cluster, 2) == {(1, 0), (1, 1)}
        assert fetchers(cluster, 3) == {(1, 0), (1, 1), (1, 2), (1, 3)}
        for index in range(12):
            append(cluster, 1, index)
        cluster.pass_seconds(2)
        assert ends(cluster, 2) == ends(cluster, 3) == 12 * [1], "every partition has a fetcher still"


@pytest.mark.parametrize("timeout_ms", [2_000, 4_000])
def test_a_leader_that_does_not_answer_is_given_up_after_the_socket_timeout(
    timeout_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    """`replica.socket.timeout.ms`."""

    def given_up() -> bool:
        return any(f"was not answered within {timeout_ms} ms" in one.getMessage() for one in caplog.records)

    with Trio({"replica.socket.timeout.ms": str(timeout_ms)}) as cluster, caplog.at_level(logging.WARNING):
        leader = next(one for one in (1, 2, 3) if one != cluster.controller.config.node_id)
        cluster.create("t", [[leader, *({1, 2, 3} - {leader})]])
        cluster.nodes.pause(f"node{leader}")
        cluster.pass_seconds(timeout_ms / 1000 - 0.6)  # the fetch under way may be half a second old
        assert not given_up()
        cluster.pass_seconds(0.7)
        assert given_up()


def test_a_fetch_takes_no_more_of_a_partition_than_its_setting_allows() -> None:
    """`replica.fetch.max.bytes`."""
    with Trio({"replica.fetch.max.bytes": "1200"}) as cluster:
        cluster.create("t", LED_BY_1)
        answers = Answers(cluster.node(2))
        append(cluster, 8)
        cluster.pass_seconds(2)
        assert ends(cluster, 2) == [8]
        assert len(answers.with_records) >= 3, "the first was under way before"
        assert all(SIZE < size <= 1200 for sizes in answers.with_records for size in sizes)
        assert any(size > 2 * SIZE for sizes in answers.with_records for size in sizes), "as much as it allows"


def test_a_fetch_takes_no_more_of_all_partitions_than_its_setting_allows() -> None:
    """`replica.fetch.response.max.bytes`."""
    with Trio({"replica.fetch.response.max.bytes": "2000"}) as cluster:
        cluster.create("t", 4 * LED_BY_1)
        answers = Answers(cluster.node(2))
        for index in range(4):
            append(cluster, 3, index)
        cluster.pass_seconds(2)
        assert ends(cluster, 2) == [3, 3, 3, 3]
        totals = [sum(sizes) for sizes in answers.with_records]
        assert max(totals) <= 2000
        assert max(totals) > 3 * SIZE, "as much as it allows"


@pytest.mark.parametrize(("bytes_min", "is_awaited"), [("1", False), ("100000", True)])
def test_a_leader_waits_until_a_fetch_would_take_as_much_as_its_setting_asks_for(
    bytes_min: str, is_awaited: bool
) -> None:
    """`replica.fetch.min.bytes`: no longer than `replica.fetch.wait.max.ms`."""
    settings = {"replica.fetch.min.bytes": bytes_min, "replica.fetch.wait.max.ms": "2000"}
    with Trio(settings) as cluster:
        cluster.create("t", LED_BY_1)
        waited_ms = []
        for count in range(1, 10):
            cluster.pass_seconds(2.3)  # an answer comes every two seconds: each time another part of them is left
            append(cluster, 1)
            begun_us = cluster.loop.now_us
            cluster.loop.run_until(lambda count=count: ends(cluster, 2) == [count])  # type: ignore[misc]
            waited_ms.append((cluster.loop.now_us - begun_us) / 1000)
        # Of a few, because the network is slow now and then.
        assert (sorted(waited_ms)[len(waited_ms) // 2] > 100) == is_awaited, waited_ms
