"""Offsets of many partitions: their form, and shares of a limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.pipelines.source.offsets import SourceOffset, from_json, limited, names, parse, to_json
from ottla.types import TopicPartition, Uuid

PARTITIONS = [TopicPartition(topic, partition) for topic in ("a", "b") for partition in range(3)]
spans = st.dictionaries(st.sampled_from(PARTITIONS), st.tuples(st.integers(0, 1 << 40), st.integers(0, 1 << 40)))


@given(st.dictionaries(st.sampled_from(PARTITIONS), st.integers(-2, 2**63 - 1)))
def test_offsets_come_back_from_their_json(offsets: dict[TopicPartition, int]) -> None:
    assert from_json(to_json(offsets)) == offsets


def test_the_form_is_that_of_sparks_connector_and_sorted() -> None:
    offsets = {TopicPartition("b", 0): 7, TopicPartition("a", 10): 1, TopicPartition("a", 2): -1}
    assert to_json(offsets) == {"a": {"2": -1, "10": 1}, "b": {"0": 7}}
    assert names(offsets) == "a-2, a-10, b-0"


A_ID, B_ID = Uuid(b"a" * 16), Uuid(b"b" * 16)


@given(
    st.dictionaries(st.sampled_from(PARTITIONS), st.integers(0, 2**63 - 1)),
    st.dictionaries(st.sampled_from("ab"), st.binary(min_size=16, max_size=16).map(Uuid)),
)
def test_topic_ids_stand_beside_offsets_where_sparks_connector_finds_no_partition(
    offsets: dict[TopicPartition, int], topic_ids: dict[str, Uuid]
) -> None:
    offset = SourceOffset(offsets, topic_ids)
    value = offset.to_json()
    assert SourceOffset.from_json(value) == offset
    assert from_json(value) == offsets, "what Spark's connector, and an older Ottla, reads"


def test_a_topic_was_recreated_when_both_ids_are_known_and_differ() -> None:
    offset = SourceOffset({PARTITIONS[0]: 1, PARTITIONS[3]: 2}, {"a": A_ID, "b": B_ID})
    assert offset.recreated({"a": A_ID, "b": A_ID}) == {"b"}
    assert offset.recreated({"a": B_ID}) == {"a"}, "a broker that tells no id says nothing of the topic"
    assert SourceOffset(offset.offsets).recreated({"a": A_ID}) == set()
    assert offset.without({"b"}) == {PARTITIONS[0]: 1}


@pytest.mark.parametrize("text", ["1", "[]", '{"t":1}', '{"t":{"x":1}}', '{"t":{"0":1.5}}', '{"t":{"0":true}}', "{"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(text)


def test_a_limit_is_shared_in_proportion_and_starves_nobody() -> None:
    a, b, c = PARTITIONS[:3]
    start, end = {a: 0, b: 100, c: 5}, {a: 900, b: 1000, c: 6}
    assert limited(100, start, end) == {a: 49, b: 149, c: 6}
    assert limited(10_000, start, end) == end


@given(spans, st.integers(1, 1 << 41))
def test_a_limited_batch_stays_within_what_is_there(both: dict[TopicPartition, tuple[int, int]], limit: int) -> None:
    start = {one: first for one, (first, _) in both.items()}
    end = {one: first + size for one, (first, size) in both.items()}
    chosen = limited(limit, start, end)
    assert chosen.keys() == end.keys()
    assert all(start[one] <= chosen[one] <= end[one] for one in chosen)
    taken = sum(chosen[one] - start[one] for one in chosen)
    assert taken <= limit + len(chosen)
    assert all(chosen[one] > start[one] for one in chosen if end[one] > start[one] and limit >= len(chosen))
    if limit >= sum(end.values()) - sum(start.values()) + len(end) and both:
        assert taken >= (sum(end.values()) - sum(start.values())) * 0.999
