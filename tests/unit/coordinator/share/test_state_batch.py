"""`ottla/coordinator/share/state_batch.py`: batches that a leader never sends, and anyone may.

What it does with others is compared with Kafka in test_shard_kafka.py.
"""

from __future__ import annotations

import pytest

from ottla.coordinator.share import StateBatch, StateUpdate
from ottla.coordinator.share.state_batch import combine
from ottla.errors import InvalidRequest
from tests.unit.coordinator.share.scripts import STATE_TOPIC
from tests.unit.coordinator.share.test_coordinator import KEY, Play

KNOWN = StateBatch(0, 10, 1, 0)
INVERTED = StateBatch(5, 3, 2, 2)


def test_a_batch_that_ends_before_it_begins_is_not_combined_for_ever() -> None:
    assert combine([KNOWN], [INVERTED], -1) == (KNOWN,)
    assert combine([INVERTED], [], -1) == ()


def test_a_batch_that_ends_before_it_begins_is_refused() -> None:
    play = Play()
    play.publish(STATE_TOPIC, 1)
    play.initialize(KEY)
    with pytest.raises(InvalidRequest):
        play.coordinator.write(KEY, StateUpdate(0, 0, -1, 0, (KNOWN, INVERTED))).result()
    assert play.coordinator.read(KEY, leader_epoch=0).result().batches == ()
