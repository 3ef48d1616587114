"""Where rows go whose topic only they know: as any producer would put them, whatever the number of partitions."""

from __future__ import annotations

import pyarrow as pa

from ottla.pipelines.sink.partitioning import key_partitions
from ottla.pipelines.streams.placing import NO_PARTITION, _partitions


def test_rows_go_by_their_topics_partitions_and_those_of_an_unknown_topic_nowhere() -> None:
    keys = [b"a", b"b", None, b"a", b"c", None, b"d"]
    topics = ["two", "five", "five", "five", "gone", "two", None]
    hashes = [1, 2, -7, 4, 5, 11, 6]
    asked: list[set[str]] = []

    def counts_of(wanted: set[str]) -> dict[str, int]:
        asked.append(wanted)
        return {"two": 2, "five": 5}

    found = _partitions(pa.array(topics), pa.array(keys, pa.binary()), pa.array(hashes, pa.int64()), counts_of)
    by_two, by_five = (key_partitions(pa.array(keys, pa.binary()), count).to_pylist() for count in (2, 5))
    assert found.to_pylist() == [by_two[0], by_five[1], 3, by_five[3], NO_PARTITION, 1, None]
    assert asked == [{"two", "five", "gone"}]
    assert found.type == pa.int32()
