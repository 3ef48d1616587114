"""A transactional producer, as both generations of clients do it: before transaction version 2 partitions are announced
and epochs stay; with it (KIP-890) the brokers announce partitions themselves, and every end gives a new epoch.

It holds the brokers to this: a producer that was replaced gets nothing acknowledged, and a transaction whose commit was
acknowledged is committed. Everything else may fail, and then it gives the transaction up and begins anew (`GivenUp`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from ottla.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaError,
    ProducerFenced,
    TransactionAbortable,
    error_class,
)
from ottla.records import build_batch
from ottla.sim.clients.client import Client, Topic
from ottla.sim.clients.link import LOST
from ottla.sim.clients.membership import MUST_REJOIN, Membership
from ottla.sim.history import Violation
from ottla.sim.ledger import SINK, SOURCE, Copy, Ledger, TransactionHistory
from ottla.wire import Message
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

TIMEOUT_MS = 5_000
GIVE_UP_CHANCE = 0.1
"""How often a producer that is in doubt about a batch does not ask again."""
_PRODUCE, _ADD_PARTITIONS, _ADD_OFFSETS, _END, _OFFSETS, _INIT = 0, 24, 25, 26, 28, 22
_OVER = (ProducerFenced, InvalidProducerEpoch, InvalidTxnState, TransactionAbortable)
"""What tells a producer that its transaction is lost: it was replaced, or has taken too long."""


class GivenUp(Exception):
    """The transaction is lost, and the producer has to begin anew."""


class Transactor:
    """One producer with a transactional id. `has_epoch_bump` is whether it speaks transaction version 2."""

    def __init__(
        self, client: Client, ledger: Ledger, transactional_id: str, sink: Topic, *, has_epoch_bump: bool
    ) -> None:
        self.client = client
        self.ledger = ledger
        self.transactional_id = transactional_id
        self.sink = sink
        self.has_epoch_bump = has_epoch_bump
        self.timeout_ms = 30_000
        self._producer: tuple[int, int] | None = None
        self._former: tuple[int, int] | None = None
        """Who this producer was, if it may go on from there (KIP-360)."""
        self._sequences: dict[int, int] = {}
        self._is_in_doubt = False
        """Whether a request was not answered in the current epoch, and may still arrive."""

    @property
    def is_ready(self) -> bool:
        return self._producer is not None

    def give_up(self) -> None:
        """Forget the current epoch; `begin` gets another."""
        self._former, self._producer = self._producer, None

    async def begin(self) -> None:
        """Become the producer of the transactional id, which ends whatever was open. One try; see `is_ready`."""
        former = self._former if self._former is not None and self.client.chance.random() < 0.5 else None
        await self.client.link()
        version = self.client.version_of(_INIT)
        request = InitProducerIdRequest(self.transactional_id, self.timeout_ms)
        if former is not None and version >= 3:
            request.producer_id, request.producer_epoch = former
        self._former = None
        response: InitProducerIdResponse = await self.client.ask(request, version)
        if response.error_code:
            self._check("InitProducerId", response.error_code)
            return
        self._producer = (response.producer_id, response.producer_epoch)
        self.ledger.on_producer(self.transactional_id, self._producer)
        self.client.trace(f"{self.client.name} is producer {response.producer_id} in epoch {response.producer_epoch}")
        self._sequences.clear()
        self._is_in_doubt = False

    async def run(
        self,
        transaction: TransactionHistory,
        copies: Mapping[int, Sequence[Copy]],
        member: Membership,
        *,
        is_commit: bool,
    ) -> None:
        """Write copies to partitions of the sink and the group's offsets, and end it. `GivenUp` when it is lost."""
        if not self.has_epoch_bump:
            topics = [AddPartitionsToTxnTopic(SINK, sorted(copies))]
            await self._ask("AddPartitionsToTxn", lambda: self._add_partitions(topics))
        for index, some in copies.items():
            await self._produce(index, some)
        if not self.has_epoch_bump:
            await self._ask("AddOffsetsToTxn", lambda: self._add_offsets(member.group))
        await self._commit_offsets(transaction, member)
        await self._end(transaction, is_commit=is_commit)

    # The steps

    async def _add_partitions(self, topics: list[AddPartitionsToTxnTopic]) -> list[int]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._current[0],
            v3_and_below_producer_epoch=self._current[1],
            v3_and_below_topics=topics,
        )
        response = await self._send(request, _ADD_PARTITIONS, 0, 3)
        return [
            one.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        ]

    async def _add_offsets(self, group: str) -> list[int]:
        request = AddOffsetsToTxnRequest(self.transactional_id, *self._current, group)
        return [(await self._send(request, _ADD_OFFSETS, 0, 4)).error_code]

    async def _produce(self, index: int, copies: Sequence[Copy]) -> None:
        sequence = self._sequences.get(index, 0)
        now_ms = self.client.world.clock.now_ms()
        data = build_batch(
            [(at, now_ms, None, copy.encode(), ()) for at, copy in enumerate(copies)],
            producer_id=self._current[0],
            producer_epoch=self._current[1],
            base_sequence=sequence,
            is_transactional=True,
        )

        async def produce() -> list[int]:
            request = ProduceRequest(
                self.transactional_id,
                acks=-1,
                timeout_ms=TIMEOUT_MS,
                topic_data=[TopicProduceData(SINK, self.sink.id, [PartitionProduceData(index, data)])],
            )
            versions = (12, 13) if self.has_epoch_bump else (3, 11)
            response = await self._send(request, _PRODUCE, *versions)
            return [one.error_code for topic in response.responses for one in topic.partition_responses]

        await self._ask("Produce", produce)
        self.client.history.count("copies acknowledged", len(copies))
        self._sequences[index] = sequence + len(copies)

    async def _commit_offsets(self, transaction: TransactionHistory, member: Membership) -> None:
        async def commit() -> list[int]:
            request = TxnOffsetCommitRequest(
                self.transactional_id,
                member.group,
                *self._current,
                generation_id=member.epoch,
                member_id=member.member_id,
                topics=[
                    TxnOffsetCommitRequestTopic(
                        SOURCE,
                        [
                            TxnOffsetCommitRequestPartition(
                                partition_index=index, committed_offset=offset, committed_metadata=""
                            )
                            for index, offset in transaction.offsets.items()
                        ],
                    )
                ],
            )
            versions = (5, 5) if self.has_epoch_bump else (3, 4)
            response = await self._send(request, _OFFSETS, *versions)
            return [one.error_code for topic in response.topics for one in topic.partitions]

        await self._ask("TxnOffsetCommit", commit, member)

    async def _end(self, transaction: TransactionHistory, *, is_commit: bool) -> None:
        """Ask until there is an answer: nobody else can tell what became of it."""
        request = EndTxnRequest(self.transactional_id, *self._current, is_commit)
        versions = (5, 5) if self.has_epoch_bump else (0, 4)
        is_doubtful = False
        while True:
            was_fenced = self._is_fenced
            self.ledger.on_ending(transaction, is_commit=is_commit)
            try:
                response: EndTxnResponse = await self._send(request, _END, *versions)
            except LOST as error:
                self.client.trace(f"{self.client.name}: EndTxn has no answer: {error}")
                is_doubtful = self._is_in_doubt = True
                await self.client.pause()
                continue
            if not response.error_code:
                break
            error_type = self._check("EndTxn", response.error_code, *_OVER)
            if error_type in _OVER:
                if is_commit and not is_doubtful:
                    self.ledger.on_refused(transaction)
                raise GivenUp(error_type.name)
            # One that could not be written may be in the log all the same.
            is_doubtful = is_doubtful or error_type.name not in (
                "CONCURRENT_TRANSACTIONS",
                "COORDINATOR_LOAD_IN_PROGRESS",
            )
            await self.client.pause()
        self._check_fenced("EndTxn", was_fenced)
        if is_commit:
            self.ledger.on_committed(transaction)
        self.client.history.count("transactions committed" if is_commit else "transactions aborted")
        if self.has_epoch_bump:
            self._producer = (response.producer_id, response.producer_epoch)
            self._sequences.clear()
        elif self._is_in_doubt:
            # Without an epoch for each transaction, what comes late could be taken for a part of the next.
            self.give_up()

    # Asking

    async def _ask(self, what: str, send: Callable[[], Awaitable[list[int]]], member: Membership | None = None) -> None:
        """Send until it is done, or known to be in vain."""
        while True:
            was_fenced = self._is_fenced
            try:
                codes = await send()
            except LOST as error:
                self.client.trace(f"{self.client.name}: {what} has no answer: {error}")
                self._is_in_doubt = True
                if self.client.chance.random() < GIVE_UP_CHANCE:
                    raise GivenUp("in doubt") from error
                await self.client.pause()
                continue
            failed = [code for code in codes if code]
            if not failed:
                self._check_fenced(what, was_fenced)
                return
            for code in failed:
                error_type = self._check(what, code, *_OVER, *(MUST_REJOIN if member is not None else ()))
                if member is not None and error_type in MUST_REJOIN:
                    member.on_refused(error_type)
                if not error_type.retriable:
                    raise GivenUp(error_type.name)
            await self.client.pause()

    async def _send(self, request: Message, api_key: int, first: int, last: int) -> Any:
        await self.client.link()
        return await self.client.ask(request, min(self.client.version_of(api_key, first=first), last))

    def _check(self, what: str, code: int, *allowed: type[KafkaError]) -> type[KafkaError]:
        error = error_class(code)
        self.client.trace(f"{self.client.name}: {what} is answered with {error.name}")
        self.client.history.count(f"transaction: {error.name}")
        if not error.retriable and error not in (*allowed, ProducerFenced, InvalidProducerEpoch):
            raise Violation(f"{self.client.name}: {what} is answered with {error.name}")
        return error

    @property
    def _current(self) -> tuple[int, int]:
        assert self._producer is not None, "it has begun"
        return self._producer

    @property
    def _is_fenced(self) -> bool:
        return self.ledger.is_fenced(self.transactional_id, self._current)

    def _check_fenced(self, what: str, was_fenced: bool) -> None:
        if was_fenced:
            raise Violation(
                f"{self.client.name}: {what} of producer {self._current} is acknowledged, and {self.transactional_id} "
                "has had a newer one since before"
            )
