"""Scripts of transactions (`tests/support/transactions.py`) played to a running broker: Ottla's, or a real Kafka."""

from __future__ import annotations

import itertools
import time
from typing import Any

from ottla.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator
from ottla.types import Buffer, TopicPartition
from ottla.wire import response_class
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tests.support.clients import eventually
from tests.support.raw import RawClient
from tests.support.transactions import FIRST_PRODUCER_ID, STATE_TOPIC, Stable, TransactionScript

FETCH_VERSION = 12
GROUP, TRANSACTION = 0, 1
NOT_YET = {CoordinatorLoadInProgress.code, CoordinatorNotAvailable.code, NotCoordinator.code}
TOPICS = {"t": 3, "u": 2}
_numbers = itertools.count()


class WireScript(TransactionScript):
    """Plays to a broker, with topics and transactional ids of its own."""

    def __init__(self, client: RawClient) -> None:
        super().__init__(suffix=f"-of-{next(_numbers)}")
        self.client = client
        """May be replaced: another broker goes on where the one before has stopped."""

    def prepare(self) -> None:
        """Make the topics, and wait until the broker is ready for them."""
        for name, count in TOPICS.items():
            self.client.create_topic(self.own(name), partitions=count)
        self.wait()
        self.shift = self._next_producer_id() + 1 - FIRST_PRODUCER_ID
        self.started_ms = self.now_ms
        self.written()

    def wait(self) -> None:
        """Until the coordinators answer, and all partitions have their leader."""
        eventually(lambda: self._has_coordinator(TRANSACTION), "a transaction coordinator")
        eventually(lambda: self._has_coordinator(GROUP), "a group coordinator")
        eventually(lambda: all(map(self._has_leader, self.partitions())), "leaders")
        eventually(self._is_loaded, "the state of transactions")

    def _is_loaded(self) -> bool:
        request = DescribeTransactionsRequest([self.own("tx")])
        (found,) = self.client.send(request, 0, DescribeTransactionsResponse).transaction_states
        return found.error_code not in NOT_YET

    def _has_leader(self, partition: TopicPartition) -> bool:
        return not self._fetch(partition, 0, isolation_level=0).error_code

    def _has_coordinator(self, key_type: int) -> bool:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[self.own("tx")])
        return not self.client.send(request, 5, FindCoordinatorResponse).coordinators[0].error_code

    def _next_producer_id(self) -> int:
        """What a producer without transactions is given; the script's first comes next."""
        response = self.client.send(InitProducerIdRequest(None), 5, InitProducerIdResponse)
        while response.error_code:
            time.sleep(0.1)
            response = self.client.send(InitProducerIdRequest(None), 5, InitProducerIdResponse)
        return response.producer_id

    @property
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def send(self, request: Any, version: int) -> Any:
        """The answer, asked for again while the coordinator is not ready."""
        answer = response_class(request.schema.api_key)
        for _ in range(100):
            response: Any = self.client.send(request, version, answer)
            if getattr(response, "error_code", 0) not in NOT_YET:
                break
            time.sleep(0.1)
        return response

    def settle(self) -> None:
        """Markers are written when the client has been answered: wait for the end of the transaction."""

        def is_settled() -> bool:
            request = ListTransactionsRequest(["PrepareCommit", "PrepareAbort"])
            return not self.client.send(request, 2, ListTransactionsResponse).transaction_states

        eventually(is_settled, "the end of the transaction")

    def do_time(self, amount: str) -> None:
        time.sleep(float(amount.removesuffix("s")))

    def partitions(self) -> list[TopicPartition]:
        own = [TopicPartition(self.own(name), index) for name, count in TOPICS.items() for index in range(count)]
        return [TopicPartition(STATE_TOPIC, 0), TopicPartition("__consumer_offsets", 0), *own]

    def read_log(self, partition: TopicPartition, offset: int) -> Buffer:
        return self._fetch(partition, offset, isolation_level=0).records or b""

    def stable(self, partition: TopicPartition) -> Stable:
        found = self._fetch(partition, 0, isolation_level=1)
        aborted = [(one.producer_id, one.first_offset) for one in found.aborted_transactions or ()]
        return Stable(found.last_stable_offset, found.high_watermark, aborted)

    def _fetch(self, partition: TopicPartition, offset: int, *, isolation_level: int) -> Any:
        wanted = FetchPartition(partition.partition, -1, offset, partition_max_bytes=1_000_000)
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=0,
            isolation_level=isolation_level,
            topics=[FetchTopic(partition.topic, partitions=[wanted])],
        )
        return self.client.send(request, FETCH_VERSION, FetchResponse).responses[0].partitions[0]
