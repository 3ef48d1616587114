"""`ottla/server/handlers/describe_share_group_offsets.py`: a lag beyond what the answer can hold."""

from __future__ import annotations

from ottla.coordinator.share import StateUpdate
from ottla.wire import encode
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from ottla.wire.metadata import FeatureLevelRecord
from tests.unit.coordinator.share.scripts import STATE_TOPIC
from tests.unit.coordinator.share.test_coordinator import KEY, Play

FIRST_OFFSET = -(2**63)


def test_the_lag_of_a_group_that_starts_before_all_offsets_fits_the_answer() -> None:
    play = Play()
    play.publish(STATE_TOPIC, 1)
    play.node.publish(FeatureLevelRecord(name="share.version", feature_level=1))
    play.initialize(KEY)
    play.coordinator.write(KEY, StateUpdate(0, 0, FIRST_OFFSET, 0, ())).result()
    topics = [DescribeShareGroupOffsetsRequestTopic("t", [KEY.partition])]
    asked = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(KEY.group_id, topics)])
    answer = play.node.send(asked, 1)
    assert encode(answer, 1)
    (partition,) = answer.groups[0].topics[0].partitions
    assert (partition.start_offset, partition.lag, partition.error_code) == (FIRST_OFFSET, 2**63 - 1, 0)
