"""Which elections a controller counts, by what the leader was before."""

from __future__ import annotations

import pytest

from ottla.metadata import ElectionCounts, Image
from ottla.metadata.builder import ImageBuilder
from ottla.types import Uuid
from ottla.wire import Message
from ottla.wire.metadata import PartitionChangeRecord, PartitionRecord, TopicRecord

TOPIC = Uuid(bytes(15) + b"\x07")


@pytest.mark.parametrize(
    ("change", "unclean", "from_elr"),
    [
        (PartitionChangeRecord(0, TOPIC, leader=2), 0, 0),  # in the ISR
        (PartitionChangeRecord(0, TOPIC, leader=3, isr=[3]), 0, 1),  # was eligible
        (PartitionChangeRecord(0, TOPIC, leader=4, isr=[4], leader_recovery_state=1), 1, 0),
        (PartitionChangeRecord(0, TOPIC, leader=-1), 0, 0),
        (PartitionChangeRecord(0, TOPIC, isr=[1]), 0, 0),
    ],
)
def test_an_election_counts_by_what_the_leader_was(change: PartitionChangeRecord, unclean: int, from_elr: int) -> None:
    counts, image = ElectionCounts(), Image("cluster")
    created = PartitionRecord(
        0,
        TOPIC,
        replicas=[1, 2, 3, 4],
        isr=[1, 2],
        leader=1,
        eligible_leader_replicas=[3],
        directories=[Uuid(bytes(16))] * 4,
    )
    steps: list[list[Message]] = [[TopicRecord("t", TOPIC), created], [change]]
    for offset, records in enumerate(steps):
        builder = ImageBuilder(image)
        builder.replay_all(records)
        delta, image = builder.build(offset=offset, epoch=1, timestamp_ms=0)
        counts.on_metadata(delta, image)
    assert (counts.unclean_count, counts.from_elr_count) == (unclean, from_elr)
