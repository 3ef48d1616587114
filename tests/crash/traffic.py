"""Clients made from a seed: producers with and without sequences, their transactions, and the leader of a follower.

A client's memory follows the log's: after a recovery it goes on from what is left, as a producer does that asks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from ottla.records import (
    Codec,
    ControlType,
    EndTransactionMarker,
    RecordBatchBuilder,
    end_transaction_batch,
)
from tests.support.log_model import WINDOW, PartitionModel, replay_producers

PRODUCERS_MAX = 4
KEYS = [b"k%d" % number for number in range(9)]


@dataclass(slots=True)
class Sent:
    """A batch that the log has: what a client would send again if the answer got lost."""

    base_sequence: int
    count: int
    first_offset: int


@dataclass(slots=True)
class Client:
    """An idempotent producer of one partition."""

    producer_id: int
    epoch: int = 0
    next_sequence: int = 0
    is_in_transaction: bool = False
    coordinator_epoch: int = 0
    sent: list[Sent] = field(default_factory=list)
    """The batches that the log must recognise."""
    is_doubtful: bool = False
    """Its records were deleted: the log may have forgotten it, and all that it can do is to end its transaction."""

    def note(self, count: int, first_offset: int) -> None:
        self.sent = [*self.sent, Sent(self.next_sequence, count, first_offset)][-WINDOW:]
        self.next_sequence += count

    def bump(self) -> None:
        self.epoch += 1
        self.next_sequence = 0
        self.sent = []


class Traffic:
    """The clients of one partition."""

    def __init__(self, model: PartitionModel, random: Random) -> None:
        self._model = model
        self._random = random
        self._count = 0
        self.clients: dict[int, Client] = {}
        self.resume()

    def resume(self) -> None:
        """Go on from what the log holds: of each producer it may remember the last batch only."""
        self.clients = {}
        for producer_id, view in replay_producers(self._model.history).items():
            client = Client(producer_id, view.epoch, view.next_sequence)
            client.is_in_transaction = view.txn_first_offset is not None
            client.coordinator_epoch = max(0, view.coordinator_epoch)
            if view.batches and view.batches[-1][2] >= self._model.start:
                first, last, last_offset = view.batches[-1]
                client.sent = [Sent(first, last - first + 1, last_offset - (last - first))]
            client.is_doubtful = bool(view.batches) and not client.sent
            self.clients[producer_id] = client

    def client(self) -> Client:
        """One of the clients, or a new one."""
        random = self._random
        usable = sorted(producer_id for producer_id, client in self.clients.items() if not client.is_doubtful)
        if not usable or (len(usable) < PRODUCERS_MAX and random.random() < 0.3):
            producer_id = max(self.clients, default=999) + 1
            self.clients[producer_id] = Client(producer_id)
            return self.clients[producer_id]
        return self.clients[random.choice(usable)]

    def open_clients(self) -> list[Client]:
        return [client for client in self.clients.values() if client.is_in_transaction]

    def batch(
        self,
        now_ms: int,
        *,
        client: Client | None = None,
        is_transactional: bool = False,
        count: int | None = None,
        base_sequence: int | None = None,
        base_offset: int = 0,
        leader_epoch: int = -1,
    ) -> bytes:
        """A batch of new records, as a producer sends it or, with an offset and an epoch, as a leader does."""
        random = self._random
        codec = random.choice((Codec.NONE, Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD))
        builder = RecordBatchBuilder(
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            codec=codec,
            producer_id=-1 if client is None else client.producer_id,
            producer_epoch=-1 if client is None else client.epoch,
            base_sequence=-1 if client is None else client.next_sequence if base_sequence is None else base_sequence,
            is_transactional=is_transactional,
        )
        if count is None:
            count = random.choice((1, 1, 1, 2, 3, 5))
        for _ in range(count):
            builder.append(now_ms - random.choice((0, 0, 1, 50, 4000)), self._key(), self._value(count))
        return builder.build()

    def marker(self, now_ms: int, client: Client, kind: ControlType, *, bumps_epoch: bool) -> bytes:
        """The end of a client's transaction, as its coordinator writes it."""
        return end_transaction_batch(
            EndTransactionMarker(kind, client.coordinator_epoch),
            producer_id=client.producer_id,
            producer_epoch=client.epoch + bumps_epoch,
            timestamp=now_ms,
        )

    def _key(self) -> bytes | None:
        random = self._random
        return random.choice(KEYS) if self._model.is_compacted or random.random() < 0.5 else None

    def _value(self, count: int) -> bytes | None:
        random = self._random
        if random.random() < 0.15:
            return None
        self._count += 1
        size = random.choice((0, 10, 40)) if count > 1 or random.random() < 0.6 else random.choice((300, 512, 1200))
        return b"%d:" % self._count + random.randbytes(size)
