"""A share session with one broker: which partitions it fetches, and the epoch that numbers its requests (KIP-932).

No I/O. Promises: a request names only what has changed since the last one that the broker took; after an answer that
says the session is lost, and after a request that was not answered, the next one begins a new session with everything
in it; acknowledgements never go out with the first request of a session, because the broker has forgotten what it gave.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.client.share.acknowledgements import Acknowledgements
from ottla.errors import InvalidShareSessionEpoch, ShareSessionLimitReached, ShareSessionNotFound
from ottla.types import Uuid
from ottla.wire.messages.share_acknowledge import AcknowledgementBatch as AcknowledgeBatch
from ottla.wire.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from ottla.wire.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
)

FIRST_EPOCH, FINAL_EPOCH = 0, -1
EPOCH_MAX = 0x7FFF_FFFF


class IdPartition(NamedTuple):
    """A partition as share requests name it."""

    topic_id: Uuid
    partition: int


Acks = Mapping[IdPartition, Acknowledgements]


class FetchLimits(NamedTuple):
    """How much a fetch may bring, and how long it may wait; all 0 for one that only acknowledges."""

    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 0
    max_records: int = 0
    batch_size: int = 0


class ShareSession:
    def __init__(self, group_id: str, member_id: str, *, acquire_mode: int) -> None:
        self._group_id = group_id
        self._member_id = member_id
        self._acquire_mode = acquire_mode
        self.epoch = FIRST_EPOCH
        self._partitions: dict[IdPartition, None] = {}
        """What the broker has in the session, once it has answered."""

    @property
    def is_new(self) -> bool:
        """Whether the next request begins a session: it can acknowledge nothing."""
        return self.epoch == FIRST_EPOCH

    def needs(self, wanted: Iterable[IdPartition]) -> bool:
        """Whether the broker fetches other partitions than these."""
        return self.is_new or dict.fromkeys(wanted) != self._partitions

    def fetch_request(self, wanted: Iterable[IdPartition], acks: Acks, limits: FetchLimits) -> ShareFetchRequest:
        """Fetch from these partitions, and acknowledge on the way."""
        assert not (self.is_new and acks), "a new session has nothing to acknowledge"
        partitions = dict.fromkeys(wanted)
        added = [one for one in partitions if self.is_new or one not in self._partitions]
        gone = [] if self.is_new else [one for one in self._partitions if one not in partitions]
        self._partitions = partitions
        topics: dict[Uuid, list[FetchPartition]] = {}
        for one in dict.fromkeys([*added, *acks]):
            ranges = acks[one].ranges() if one in acks else []
            topics.setdefault(one.topic_id, []).append(
                FetchPartition(one.partition, acknowledgement_batches=[AcknowledgementBatch(*run) for run in ranges])
            )
        forgotten: dict[Uuid, list[int]] = {}
        for one in gone:
            forgotten.setdefault(one.topic_id, []).append(one.partition)
        is_renewal = any(one.has_renewals for one in acks.values())
        if is_renewal:
            limits = FetchLimits()  # a renewal is not to wait for records
        return ShareFetchRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=self.epoch,
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            max_records=limits.max_records,
            batch_size=limits.batch_size,
            share_acquire_mode=self._acquire_mode,
            is_renew_ack=is_renewal,
            topics=[FetchTopic(topic_id, found) for topic_id, found in topics.items()],
            forgotten_topics_data=[ForgottenTopic(topic_id, found) for topic_id, found in forgotten.items()],
        )

    def acknowledge_request(self, acks: Acks, *, is_final: bool = False) -> ShareAcknowledgeRequest:
        """Acknowledge only; the final one ends the session, and the broker releases what was not acknowledged."""
        assert not self.is_new, "a new session has nothing to acknowledge"
        topics: dict[Uuid, list[AcknowledgePartition]] = {}
        for one, found in acks.items():
            batches = [AcknowledgeBatch(*run) for run in found.ranges()]
            topics.setdefault(one.topic_id, []).append(AcknowledgePartition(one.partition, batches))
        return ShareAcknowledgeRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=FINAL_EPOCH if is_final else self.epoch,
            is_renew_ack=any(one.has_renewals for one in acks.values()),
            topics=[AcknowledgeTopic(topic_id, partitions) for topic_id, partitions in topics.items()],
        )

    def on_answer(self, error_code: int) -> None:
        """The broker has answered a request of this session."""
        if error_code in (ShareSessionNotFound.code, InvalidShareSessionEpoch.code, ShareSessionLimitReached.code):
            self.reset()
        else:
            self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1

    def reset(self) -> None:
        """Nobody knows what the broker has of this session: the next request begins another."""
        self.epoch = FIRST_EPOCH
        self._partitions = {}
