"""A follower for tests: a fetcher over logs of its own, whose requests a test node answers, or the test by hand."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from ottla.replica.fetcher import Fact, Fetcher, FetcherSettings
from ottla.sim import VirtualWorld, virtual_world
from ottla.storage import FileSlice, Log, LogManager
from ottla.types import TopicPartition
from ottla.wire import Message, decode, encode, request_class
from ottla.wire.messages.fetch import FetchResponse
from tests.unit.replica.node import TestNode, topic_id

FOLLOWER_ID = 2
BROKER_EPOCH = 8
VERSIONS = {1: 17, 2: 10, 23: 4}


class FollowerLogs:
    """The logs of a node that follows, as `ReplicaManager` has them."""

    def __init__(self, world: VirtualWorld | None = None) -> None:
        self.world = world or virtual_world(random.Random(2))
        self.manager = LogManager(self.world, ["/logs"])
        self.manager.start()
        self.fetched: list[tuple[TopicPartition, int]] = []

    def log_of(self, partition: TopicPartition) -> Log | None:
        return self.manager.get(partition)

    def truncate_to(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.manager.truncate_to(offsets)

    def truncate_fully_and_start_at(self, partition: TopicPartition, offset: int) -> None:
        self.manager.truncate_fully_and_start_at(partition, offset)

    def on_fetched(self, partition: TopicPartition, size: int) -> None:
        self.fetched.append((partition, size))


class Following:
    """Broker 2, which follows partitions of topic `t` that `node` leads."""

    def __init__(self, node: TestNode, **settings: Any) -> None:
        self.node = node
        self.logs = FollowerLogs()
        self.broker_epoch = BROKER_EPOCH
        self.fetcher = Fetcher(self.logs, FetcherSettings(FOLLOWER_ID, **settings), lambda: self.broker_epoch)
        self.requests: list[Message] = []

    @property
    def now_ms(self) -> int:
        return self.node.world.clock.monotonic_ms()

    def follow(self, index: int = 0, *, leader_epoch: int = 0, topic: str = "t") -> Log:
        name = TopicPartition(topic, index)
        log = self.logs.log_of(name) or self.logs.manager.create(name)
        self.fetcher.add(name, topic_id(topic), leader_epoch)
        return log

    def step(self) -> list[Fact]:
        """One request and its answer."""
        request = self.ask()
        return self.fetcher.on_response(request, self.answer(request), self.now_ms)

    def ask(self) -> Message:
        request = self.fetcher.next_request(self.now_ms)
        assert request is not None, "there is nothing to ask for"
        self.requests.append(request)
        return request

    def answer(self, request: Message) -> Message:
        """The node's answer, as it comes over the wire."""
        api_key = request.schema.api_key
        assert api_key is not None
        version = VERSIONS[api_key]
        read = decode(request_class(api_key), version, memoryview(bytearray(encode(request, version))))
        response = self.node.send(read, version)
        if isinstance(response, FetchResponse):
            for topic in response.responses:
                for one in topic.partitions:
                    if isinstance(one.records, FileSlice):
                        one.records = one.records.read()
        answer: Message = decode(type(response), version, memoryview(bytearray(encode(response, version))))
        return answer
