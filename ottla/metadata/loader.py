"""`ImageLoader`: follows the metadata log and publishes every new image, on controllers and brokers alike.

Promises: publishers are told in the order in which they were added, each image once, and never the middle of a
transaction. A publisher that is added late gets one delta from nothing to the current image. What a snapshot no longer
names is told as deleted. A publisher that raises ends the node, because what it acts on would no longer be the log.
Called by raft with what is committed; calls the publishers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from ottla.metadata.builder import ImageBuilder, ReplayError
from ottla.metadata.delta import Delta, between
from ottla.metadata.image import Image
from ottla.wire import Message
from ottla.wire.metadata import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord, VersionedRecord

if TYPE_CHECKING:
    from ottla.raft import CommittedBatch

log = logging.getLogger(__name__)


class Publisher(Protocol):
    """Who acts on metadata."""

    def on_metadata(self, delta: Delta, image: Image) -> None:
        """The metadata is `image` now, and differs from the one told before by `delta`."""
        ...


class ImageLoader:
    """The current image, kept current."""

    def __init__(self, cluster_id: str) -> None:
        self._image = Image(cluster_id)
        self._builder = ImageBuilder(self._image)
        # Where the builder stands: the last offset that it has replayed.
        self._offset = -1
        self._epoch = -1
        self._timestamp_ms = -1
        self._batch_end = -1
        self._in_transaction = False
        self._publishers: list[Publisher] = []

    @property
    def image(self) -> Image:
        """The image that was published last."""
        return self._image

    def add_publisher(self, publisher: Publisher) -> None:
        """Tell `publisher` what there is, as one delta, and then every change."""
        self._publishers.append(publisher)
        if self._image.offset >= 0:
            empty = Image(self._image.cluster_id)
            publisher.on_metadata(between(empty, self._image, is_snapshot=True), self._image)

    def remove_publisher(self, publisher: Publisher) -> None:
        self._publishers.remove(publisher)

    # What raft tells

    def on_commit(self, batches: list[CommittedBatch]) -> None:
        """Replay committed batches and publish the image after them, unless a transaction is still open."""
        for batch in batches:
            self._epoch, self._timestamp_ms = batch.epoch, batch.timestamp
            self._offset = batch.base_offset - 1
            self._batch_end = batch.last_offset
            for record, _ in batch.records:
                self._replay(record)
                self._offset += 1
            self._offset = batch.last_offset  # a control batch takes up offsets and has no records
        if not self._in_transaction and self._offset > self._image.offset:
            self._publish()

    def on_snapshot(self, records: Iterable[VersionedRecord], *, offset: int, epoch: int, timestamp_ms: int) -> None:
        """The log begins with a snapshot, or has been replaced by one: `offset` is the last that it contains."""
        builder = ImageBuilder(Image(self._image.cluster_id))
        builder.replay_all(record for record, _ in records)
        _, image = builder.build(offset=offset, epoch=epoch, timestamp_ms=timestamp_ms)
        delta = between(self._image, image, is_snapshot=True)
        self._in_transaction = False
        self._offset, self._epoch, self._timestamp_ms = offset, epoch, timestamp_ms
        self._tell(delta, image)

    def on_leader(self, epoch: int) -> None:
        """Who leads changes nothing about what is committed."""

    def on_resign(self) -> None:
        """Who leads changes nothing about what is committed."""

    def _replay(self, record: Message) -> None:
        if isinstance(record, BeginTransactionRecord):
            if self._in_transaction:
                raise ReplayError("a metadata transaction begins inside another")
            if self._builder.has_changes:
                self._publish()  # what came before must not be lost if the transaction is aborted
            self._in_transaction = True
        elif isinstance(record, EndTransactionRecord | AbortTransactionRecord):
            if not self._in_transaction:
                raise ReplayError("a metadata transaction ends that never began")
            self._in_transaction = False
            if isinstance(record, AbortTransactionRecord):
                log.info("[MetadataLoader] a metadata transaction was aborted: %s", record.reason or "no reason given")
                self._builder = ImageBuilder(self._image)
        else:
            self._builder.replay(record)

    def _publish(self) -> None:
        delta, image = self._builder.build(
            offset=self._offset,
            epoch=self._epoch,
            timestamp_ms=self._timestamp_ms,
            is_batch_aligned=self._offset == self._batch_end,
        )
        self._tell(delta, image)

    def _tell(self, delta: Delta, image: Image) -> None:
        self._image = image
        self._builder = ImageBuilder(image)
        for publisher in list(self._publishers):
            publisher.on_metadata(delta, image)
