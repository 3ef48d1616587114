"""One micro-batch, one transaction: its producer id and epoch, and what the coordinators are asked about it.

`begin` is for the planner, once a micro-batch: it aborts what an earlier try left open, fences every task of that try,
and learns which batch was committed last. `Transaction` is what all tasks and the committer share; it is a value, and
everything that is asked in its name is asked with its producer id and epoch, so that it fails once they are fenced.

The id of a committed batch is an offset: `batch id + 1`, with the query's id as its metadata, committed in the
transaction itself for the group that is named like the transactional id. A group has as many offsets as it wrote first
topics; the highest that is this query's counts.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ottla.client.network import Build, CoordinatorKind
from ottla.errors import (
    ClusterAuthorizationFailed,
    GroupIdNotFound,
    InvalidTransactionTimeout,
    KafkaError,
    UnknownServerError,
    error_class,
)
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.sink.link import Link
from ottla.pipelines.sink.memory import Committed
from ottla.types import TopicPartition
from ottla.wire import Message
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

log = logging.getLogger(__name__)

OFFSET_FETCH_KEY, INIT_PRODUCER_ID_KEY, ADD_PARTITIONS_KEY = 9, 22, 24
ADD_OFFSETS_KEY, END_TXN_KEY, TXN_OFFSET_COMMIT_KEY = 25, 26, 28
FEATURE = "transaction.version"
ADD_PARTITIONS_VERSION_MAX = 3
"""Above it the request is one that brokers send to each other."""
VERSION_1_MAX = 4
"""The highest version of EndTxn and TxnOffsetCommit that does not claim `transaction.version` 2."""
GROUPS_VERSION = 8
NAMES_VERSION_MAX = 9
"""OffsetFetch: from here on it asks for many groups; after this one topics have ids instead of names."""
DESCRIBE_CONFIGS_KEY, BROKER_RESOURCE, OFFSETS_RETENTION = 32, 4, "offsets.retention.minutes"
MINUTE_MS = 60 * 1000
OFFSETS_KEPT_MS_MIN = MINUTE_MS
"""The least that `offsets.retention.minutes` may be."""
OFFSETS_KEPT_MS_UNTOLD = 24 * 60 * MINUTE_MS
TRANSACTION, GROUP = CoordinatorKind.TRANSACTION, CoordinatorKind.GROUP


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction that is open, or will be with the first record. It goes to the tasks and comes back."""

    transactional_id: str
    producer_id: int
    epoch: int
    is_version_2: bool
    """Whether brokers add partitions and groups by themselves (KIP-890); before, the coordinator is told of each."""

    async def add_partitions(self, link: Link, partitions: Iterable[TopicPartition]) -> None:
        """Before the first record of a partition; nothing to do in version 2."""
        if self.is_version_2:
            return
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name, indexes) for name, indexes in topics.items()],
        )

        def codes(response: Any) -> Iterator[int]:
            for topic in response.results_by_topic_v3_and_below:
                for one in topic.results_by_partition:
                    yield one.partition_error_code

        build = Build(ADD_PARTITIONS_KEY, lambda version: request, version_max=ADD_PARTITIONS_VERSION_MAX)
        await link.ask(TRANSACTION, self.transactional_id, build, codes)

    async def commit_batch_id(self, link: Link, batch_id: int, query_id: str, place: TopicPartition) -> None:
        """Make the batch's id part of the transaction, as an offset of `place`."""
        group = self.transactional_id
        if not self.is_version_2:
            request: Message = AddOffsetsToTxnRequest(self.transactional_id, self.producer_id, self.epoch, group)
            build = Build(ADD_OFFSETS_KEY, lambda version: request)
            await link.ask(TRANSACTION, self.transactional_id, build, _own_code)
        partition = TxnOffsetCommitRequestPartition(place.partition, batch_id + 1, -1, query_id)
        commit = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(place.topic, [partition])],
        )

        def codes(response: Any) -> Iterator[int]:
            for topic in response.topics:
                for one in topic.partitions:
                    yield one.error_code

        await link.ask(GROUP, group, self._build(TXN_OFFSET_COMMIT_KEY, commit), codes)

    async def commit(self, link: Link) -> None:
        """End it: everything that was written counts. Asking again after an answer that was lost does no harm."""
        request = EndTxnRequest(self.transactional_id, self.producer_id, self.epoch, True)
        await link.ask(TRANSACTION, self.transactional_id, self._build(END_TXN_KEY, request), _own_code)

    async def abort(self, link: Link, timeout_ms: int) -> None:
        """End it: nothing of it counts, and no task that still runs can write another record.

        By a new epoch and not by EndTxn, which before version 2 would leave the epoch to those tasks. Raises what kept
        it from being so, such as that somebody else has ended it.
        """
        await _init_producer_id(link, self.transactional_id, timeout_ms, self.producer_id, self.epoch)

    def _build(self, api_key: int, request: Message) -> Build:
        if self.is_version_2:
            return Build(api_key, lambda version: request)
        return Build(api_key, lambda version: request, version_max=VERSION_1_MAX)


async def begin(link: Link, transactional_id: str, timeout_ms: int) -> Transaction:
    """A new transaction under the name; one that was open under it is aborted, and its tasks are fenced."""
    try:
        response = await _init_producer_id(link, transactional_id, timeout_ms)
    except InvalidTransactionTimeout:
        raise PipelineError(
            f"the brokers do not allow transactions of {timeout_ms} ms: set the option transactionTimeoutMs to less, "
            "or the brokers' transaction.max.timeout.ms to more"
        ) from None
    is_version_2 = link.feature(TRANSACTION, transactional_id, FEATURE) >= 2
    return Transaction(transactional_id, response.producer_id, response.producer_epoch, is_version_2)


async def _init_producer_id(
    link: Link, transactional_id: str, timeout_ms: int, producer_id: int = -1, epoch: int = -1
) -> Any:
    request = InitProducerIdRequest(transactional_id, timeout_ms, producer_id, epoch)
    build = Build(INIT_PRODUCER_ID_KEY, lambda version: request, version_min=0 if producer_id < 0 else 3)
    return await link.ask(TRANSACTION, transactional_id, build, _own_code)


def _own_code(response: Any) -> tuple[int]:
    return (response.error_code,)


async def last_committed(link: Link, transactional_id: str) -> list[Committed]:
    """What was committed under the name, by any query; asked after `begin`, it cannot change under the tasks."""
    group = transactional_id

    def make(version: int) -> OffsetFetchRequest:
        if version >= GROUPS_VERSION:
            asked = OffsetFetchRequestGroup(group_id=group, topics=None)
            return OffsetFetchRequest(groups=[asked], require_stable=True)
        # Before version 7 nothing can be said of offsets in open transactions; `begin` has ended the one there was.
        return OffsetFetchRequest(group_id=group, topics=None, require_stable=version >= 7)

    def codes(response: Any) -> Iterator[int]:
        for one in response.groups or (response,):
            yield one.error_code
            for topic in one.topics:
                for partition in topic.partitions:
                    yield partition.error_code

    build = Build(OFFSET_FETCH_KEY, make, version_min=2, version_max=NAMES_VERSION_MAX)
    try:
        response = await link.ask(GROUP, group, build, codes)
    except GroupIdNotFound:
        return []
    highest: dict[str, int] = {}
    for one in response.groups or (response,):
        for topic in one.topics:
            for partition in topic.partitions:
                query_id = partition.metadata or ""
                highest[query_id] = max(highest.get(query_id, 0), partition.committed_offset)
    return [Committed(offset, query_id) for query_id, offset in sorted(highest.items())]


async def offsets_kept_ms(link: Link, group: str) -> int:
    """How long the brokers keep an offset that nobody commits again, as the group's coordinator says.

    A day where it does not tell us, which takes the permission DescribeConfigs on the cluster: its default is a week.
    """

    async def once() -> Any:
        node_id = await link.coordinators.find(GROUP, group, link.config.delivery_timeout_ms)
        resource = DescribeConfigsResource(BROKER_RESOURCE, str(node_id), [OFFSETS_RETENTION])
        request = DescribeConfigsRequest(resources=[resource])
        (told,) = (await link.network.send(node_id, Build(DESCRIBE_CONFIGS_KEY, lambda version: request))).results
        if told.error_code:
            raise error_class(told.error_code)(told.error_message or f"the settings of broker {node_id}")
        return told.configs

    try:
        configs = await link.persist(once)
    except ClusterAuthorizationFailed as error:
        log.info(
            "[Sink %s] Taking %s for a day, since the broker does not tell it: %s", group, OFFSETS_RETENTION, error
        )
        return OFFSETS_KEPT_MS_UNTOLD
    minutes = [int(one.value) for one in configs if one.name == OFFSETS_RETENTION and one.value is not None]
    return minutes[0] * MINUTE_MS if minutes else OFFSETS_KEPT_MS_UNTOLD


def reason(error: KafkaError) -> str:
    """An error as a line, with its name where it has one of Kafka's and the text does not say it."""
    text = str(error)
    return text if error.code == UnknownServerError.code or error.name in text else f"{error.name}: {text}"
