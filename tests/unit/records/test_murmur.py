"""`murmur2`, compiled and plain: the numbers that Kafka's own classes give."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.records import twins


@pytest.fixture(scope="module", params=["native", "plain"])
def build(request: pytest.FixtureRequest) -> Any:
    return twins.named(request.param)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_a_key_hashes_as_in_kafkas_own_tests(build: Any, key: bytes, expected: int) -> None:
    assert build.murmur2(key) == expected
    assert build.murmur2(memoryview(key)) == expected
    assert build.murmur2(bytearray(key)) == expected


@settings(deadline=None)
@given(st.binary(max_size=70))
def test_both_builds_hash_alike(key: bytes) -> None:
    assert twins.native().murmur2(key) == twins.PLAIN.murmur2(key)


def test_what_has_no_bytes_is_refused(build: Any) -> None:
    with pytest.raises(TypeError):
        build.murmur2("text")
    with pytest.raises(TypeError):
        build.murmur2(None)


def test_the_partition_of_a_key_is_the_positive_hash_modulo_the_count(build: Any) -> None:
    assert build.partition_of(b"21", 7) == (-973932308 & 0x7FFFFFFF) % 7
    assert {build.partition_of(b"%d" % key, 3) for key in range(100)} == {0, 1, 2}


def test_a_topic_without_partitions_has_none_for_a_key(build: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        build.partition_of(b"key", 0)
