"""Keys go where any Kafka producer sends them; stamps tell attempts apart."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.pipelines.sink.exactly_once import stamp_ms
from ottla.pipelines.sink.partitioning import key_partitions
from ottla.records import partition_of

NOW = st.integers(1_700_000_000_000, 1_900_000_000_000)


@settings(deadline=None)
@given(keys=st.lists(st.one_of(st.none(), st.binary(max_size=40)), max_size=30), count=st.integers(1, 50))
def test_a_keys_partition_is_the_producers(keys: list[bytes | None], count: int) -> None:
    expected = [None if key is None else partition_of(key, count) for key in keys]
    assert key_partitions(pa.array(keys, pa.binary()), count).to_pylist() == expected


@given(
    now_ms=st.integers(1_700_000_000_000, 1_900_000_000_000), first=st.integers(0, 1 << 40), apart=st.integers(1, 63)
)
def test_attempts_that_begin_together_have_other_stamps_that_are_not_in_the_future(
    now_ms: int, first: int, apart: int
) -> None:
    stamps = {stamp_ms(now_ms, first), stamp_ms(now_ms, first + apart)}
    assert len(stamps) == 2
    assert all(now_ms - 128 < stamp < now_ms for stamp in stamps)


@given(now_ms=NOW, later_ms=st.integers(64, 1 << 30))
def test_attempts_of_the_same_number_have_other_stamps_at_other_times(now_ms: int, later_ms: int) -> None:
    assert stamp_ms(now_ms, 5) != stamp_ms(now_ms + later_ms, 5)
