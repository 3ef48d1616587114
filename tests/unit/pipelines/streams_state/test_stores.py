"""What a store's keys and values look like in bytes, and what a specification refuses."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.errors import SerializationError
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.stores import StoreKey, StoreKind, StoreSpec, changelog_topic, serde
from ottla.pipelines.streams.stores.layout import read_key, write_key

TIMES = st.integers(min_value=0, max_value=2**61)


@given(st.binary(), TIMES, TIMES, st.binary())
def test_a_key_is_read_as_it_was_written(key: bytes, start_ms: int, size_ms: int, inner: bytes) -> None:
    for kind, parts in {
        StoreKind.KEY_VALUE: StoreKey(key),
        StoreKind.WINDOW: StoreKey(key, start_ms, start_ms + 10),
        StoreKind.SESSION: StoreKey(key, start_ms, start_ms + size_ms),
        StoreKind.MAP: StoreKey(key, inner=inner),
    }.items():
        assert read_key(kind, write_key(kind, parts), window_ms=10) == parts


@given(st.binary(max_size=15))
def test_bytes_too_short_for_a_windowed_key_are_refused(data: bytes) -> None:
    for kind, size in {StoreKind.WINDOW: 12, StoreKind.SESSION: 16, StoreKind.MAP: 4}.items():
        if len(data) < size:
            with pytest.raises(SerializationError):
                read_key(kind, data, window_ms=1)


def test_a_map_key_that_says_more_than_there_is_is_refused() -> None:
    with pytest.raises(SerializationError, match="says its first part has 9"):
        read_key(StoreKind.MAP, b"\x00\x00\x00\x09abc")


def test_windowed_keys_have_kafka_streams_layouts() -> None:
    """WindowKeySchema: key, time, sequence number. SessionKeySchema: key, end, start."""
    assert write_key(StoreKind.WINDOW, StoreKey(b"k", 1)) == b"k" + b"\0\0\0\0\0\0\0\1" + b"\0\0\0\0"
    assert write_key(StoreKind.SESSION, StoreKey(b"k", 1, 2)) == b"k" + b"\0\0\0\0\0\0\0\2" + b"\0\0\0\0\0\0\0\1"


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("bytes", b"\x00\xff", b"\x00\xff"),
        ("string", "grün", "grün".encode()),
        ("integer", -2, b"\xff\xff\xff\xfe"),
        ("long", 258, b"\0\0\0\0\0\0\1\2"),
        ("double", 1.0, b"\x3f\xf0\0\0\0\0\0\0"),
        ("json", {"b": 1, "a": [None, "ü"]}, '{"a":[null,"ü"],"b":1}'.encode()),
    ],
)
def test_a_serde_writes_what_kafkas_serializer_of_that_name_writes(name: str, value: Any, data: bytes) -> None:
    one = serde(name)
    assert one.encode(value) == data
    assert one.decode(data) == value
    assert pickle.loads(pickle.dumps(one)) == one


def test_a_serde_reads_a_key_from_the_text_of_an_address() -> None:
    assert [serde(name).parse(text) for name, text in (("long", "17"), ("bytes", "00ff"), ("json", '{"a":1}'))] == [
        17,
        b"\x00\xff",
        {"a": 1},
    ]
    with pytest.raises(SerializationError, match="'seventeen'"):
        serde("long").parse("seventeen")


def test_null_is_no_value_of_a_store() -> None:
    with pytest.raises(SerializationError, match="delete the key"):
        serde("long").encode(None)


def test_an_unknown_serde_is_told_with_those_that_exist() -> None:
    with pytest.raises(PipelineError, match=r"'avro'; there are bytes, string"):
        serde("avro")


def test_a_changelog_has_the_name_and_the_policies_that_kafka_streams_gives_it() -> None:
    assert changelog_topic("words", "counts") == "words-counts-changelog"
    assert StoreSpec(name="counts").topic_settings() == {"cleanup.policy": "compact"}
    windows = StoreSpec(name="w", kind=StoreKind.WINDOW, window_ms=1000, retention_ms=5000)
    assert windows.topic_settings() == {"cleanup.policy": "compact,delete", "retention.ms": str(5000 + 86_400_000)}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"name": "a b"}, "no name for a store"),
        ({"name": "w", "kind": StoreKind.WINDOW}, "window_ms goes with a window store"),
        ({"name": "w", "window_ms": 5}, "window_ms goes with a window store"),
        ({"name": "w", "kind": StoreKind.WINDOW, "window_ms": 0}, "must be positive"),
        ({"name": "w", "retention_ms": 5}, "only windowed stores"),
        ({"name": "w", "kind": StoreKind.WINDOW, "window_ms": 5, "retention_ms": 4}, "shorter than a window"),
    ],
)
def test_a_specification_that_cannot_be_is_refused(spec: dict[str, Any], reason: str) -> None:
    with pytest.raises(PipelineError, match=reason):
        StoreSpec(**spec)
