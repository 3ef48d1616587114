"""`MarkerSender`: how the markers that end a transaction get to the leaders of its partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ottla.coordinator.record import EndMarker
from ottla.types import TopicPartition
from ottla.world import Promise


class MarkerSender(Protocol):
    """Brings markers to partitions, wherever they are led."""

    def send(
        self, marker: EndMarker, partitions: Sequence[TopicPartition], *, transaction_version: int
    ) -> Promise[Mapping[TopicPartition, int]]:
        """Write `marker` to each of the partitions; the error codes come when all have answered, 0 for those that are
        safe as acks=all asks. The promise does not fail."""
        ...
