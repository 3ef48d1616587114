"""Which batches count as written, and where the sink refuses to guess."""

from __future__ import annotations

import pytest

from ottla.pipelines.sink.memory import CheckpointBehind, Committed, is_written

BY_ID, FORMERLY, BY_ADDRESS, OF_ANOTHER = "4f1c", "ottla-4f1c", "ottla-a81b", "77d0"


def written(batch_id: int, *committed: Committed) -> bool:
    return is_written(committed, batch_id, BY_ID, group="words-counts", address_name=BY_ADDRESS)


@pytest.mark.parametrize("name", [BY_ID, FORMERLY, BY_ADDRESS])
def test_the_last_batch_is_known_by_every_name_that_a_query_has_had(name: str) -> None:
    assert written(4, Committed(5, name), Committed(9, OF_ANOTHER))
    assert not written(5, Committed(5, name), Committed(9, OF_ANOTHER))


def test_the_batches_of_a_new_checkpoint_are_new_ones() -> None:
    assert not written(0, Committed(5, OF_ANOTHER))
    assert not written(0)


def test_what_is_remembered_by_the_id_counts_before_older_names() -> None:
    assert not written(2, Committed(2, BY_ID), Committed(5, BY_ADDRESS))
    assert written(0, Committed(1, BY_ID), Committed(5, BY_ADDRESS))


@pytest.mark.parametrize("name", [BY_ID, FORMERLY])
def test_a_checkpoint_that_is_an_old_copy_is_refused_with_the_way_out(name: str) -> None:
    with pytest.raises(
        CheckpointBehind, match=r"Batch 2 .* batch 4 of this query .*delete the consumer group words-counts"
    ):
        written(2, Committed(5, name))
    assert written(0, Committed(1, name)), "its first batch may be tried again"


@pytest.mark.parametrize("count", [1, 5])
def test_a_new_checkpoint_at_the_address_of_another_is_refused_with_the_way_out(count: int) -> None:
    with pytest.raises(
        CheckpointBehind, match=r"same address\. If this checkpoint is new, delete the consumer group words-counts"
    ):
        written(0, Committed(count, BY_ADDRESS))
