"""Keys go where any Kafka producer sends them."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.pipelines.sink.partitioning import key_partitions
from ottla.records import partition_of


@settings(deadline=None)
@given(keys=st.lists(st.one_of(st.none(), st.binary(max_size=40)), max_size=30), count=st.integers(1, 50))
def test_a_keys_partition_is_the_producers(keys: list[bytes | None], count: int) -> None:
    expected = [None if key is None else partition_of(key, count) for key in keys]
    assert key_partitions(pa.array(keys, pa.binary()), count).to_pylist() == expected
