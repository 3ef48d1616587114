"""Kafka's plain serializers: the same bytes as the Java classes write, read back, and everything else refused."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.errors import SerializationError
from ottla.client.serialization import (
    BooleanDeserializer,
    BooleanSerializer,
    BytesDeserializer,
    BytesSerializer,
    Deserializer,
    DoubleDeserializer,
    DoubleSerializer,
    FloatDeserializer,
    FloatSerializer,
    IntegerDeserializer,
    IntegerSerializer,
    JsonDeserializer,
    JsonSerializer,
    ListDeserializer,
    ListSerializer,
    LongDeserializer,
    LongSerializer,
    Serializer,
    ShortDeserializer,
    ShortSerializer,
    StringDeserializer,
    StringSerializer,
    UuidDeserializer,
    UuidSerializer,
    VoidDeserializer,
    VoidSerializer,
)
from tests.support.kafka import run_java

ORACLE = Path(__file__).parent / "Serializers.java"
SOME_UUID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")

PAIRS: dict[str, tuple[Serializer[Any], Deserializer[Any]]] = {
    "string": (StringSerializer(), StringDeserializer()),
    "short": (ShortSerializer(), ShortDeserializer()),
    "integer": (IntegerSerializer(), IntegerDeserializer()),
    "long": (LongSerializer(), LongDeserializer()),
    "float": (FloatSerializer(), FloatDeserializer()),
    "double": (DoubleSerializer(), DoubleDeserializer()),
    "boolean": (BooleanSerializer(), BooleanDeserializer()),
    "uuid": (UuidSerializer(), UuidDeserializer()),
    "strings": (ListSerializer(StringSerializer()), ListDeserializer(StringDeserializer())),
    "integers": (ListSerializer(IntegerSerializer()), ListDeserializer(IntegerDeserializer())),
    "bytes": (BytesSerializer(), BytesDeserializer()),
    "json": (JsonSerializer(), JsonDeserializer()),
}

# What Kafka's classes wrote (`test_the_samples_are_what_kafka_writes`).
SAMPLES: list[tuple[str, Any, str]] = [
    ("string", "", ""),
    ("string", "žena", "c5be656e61"),
    ("short", -2, "fffe"),
    ("integer", 2147483647, "7fffffff"),
    ("integer", -1, "ffffffff"),
    ("long", -9223372036854775808, "8000000000000000"),
    ("float", 1.5, "3fc00000"),
    ("double", -0.1, "bfb999999999999a"),
    ("boolean", True, "01"),
    ("boolean", False, "00"),
    ("uuid", SOME_UUID, str(SOME_UUID).encode().hex()),
    ("strings", [], "0100000000"),
    ("strings", ["a", None, ""], "01000000030000000161ffffffff00000000"),
    ("integers", [], "000000000000000000"),
    ("integers", [7, None, -1], "0000000001000000010000000300000007ffffffff"),
]


@pytest.mark.parametrize(("kind", "value", "expected"), SAMPLES)
def test_the_bytes_are_kafkas_and_read_back(kind: str, value: Any, expected: str) -> None:
    serializer, deserializer = PAIRS[kind]
    data = serializer.serialize("t", value, [])
    assert data is not None
    assert data.hex() == expected
    assert deserializer.deserialize("t", data, []) == value


@pytest.mark.java
def test_the_samples_are_what_kafka_writes() -> None:
    def text(value: Any) -> str:
        if isinstance(value, list):
            return ",".join("-" if item is None else str(item) for item in value)
        return str(value).lower() if isinstance(value, bool) else str(value)

    commands = "".join(f"{kind} {text(value)}\n" for kind, value, _ in SAMPLES)
    done = run_java(str(ORACLE), [], stdin=commands)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == [expected for _, _, expected in SAMPLES]


@pytest.mark.parametrize("kind", PAIRS)
def test_nothing_stays_nothing(kind: str) -> None:
    serializer, deserializer = PAIRS[kind]
    assert serializer.serialize("t", None, []) is None
    assert deserializer.deserialize("t", None, []) is None


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("string", b"bytes"),
        ("string", "\ud800"),
        ("short", 40_000),
        ("integer", 2**31),
        ("integer", True),
        ("long", 1.0),
        ("float", 1e39),
        ("double", "1"),
        ("boolean", 1),
        ("uuid", str(SOME_UUID)),
        ("integers", [1, "2"]),
        ("bytes", "text"),
        ("json", {"at": object()}),
        ("json", float("nan")),
        ("json", "\ud800"),
    ],
)
def test_a_value_of_another_kind_is_refused_at_the_producer(kind: str, value: Any) -> None:
    with pytest.raises(SerializationError):
        PAIRS[kind][0].serialize("t", value, [])


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("string", b"\xff"),
        ("short", b"1"),
        ("integer", b"12345"),
        ("long", b""),
        ("float", b"12345678"),
        ("double", b"1234"),
        ("boolean", b"\2"),
        ("uuid", b"x" * 36),
        ("json", b"{"),
        ("json", b"[" * 100_000),
        ("strings", b""),
        ("strings", b"\2\0\0\0\0"),
        ("strings", b"\1\x7f\xff\xff\xff"),
        ("strings", b"\1\0\0\0\1\0\0\0\2a"),
        ("strings", b"\1\0\0\0\1\xff\xff\xff\xfe"),
        ("strings", b"\0\0\0\0\0\0\0\0\0"),
        ("integers", b"\0\x7f\xff\xff\xff"),
        ("integers", b"\0\0\0\0\0\0\0\0\2\0\0\0\1"),
    ],
)
def test_bytes_of_another_kind_are_refused(kind: str, data: bytes) -> None:
    with pytest.raises(SerializationError):
        PAIRS[kind][1].deserialize("t", data, [])


def test_where_nothing_is_expected_anything_is_refused() -> None:
    VoidSerializer().serialize("t", None, [])
    VoidDeserializer().deserialize("t", None, [])
    with pytest.raises(SerializationError):
        VoidSerializer().serialize("t", "something", [])  # type: ignore[arg-type]
    with pytest.raises(SerializationError):
        VoidDeserializer().deserialize("t", b"", [])


def test_a_text_may_have_another_encoding_and_doubtful_bytes_be_replaced() -> None:
    assert StringSerializer("latin-1").serialize("t", "é", []) == b"\xe9"
    assert StringDeserializer("latin-1").deserialize("t", b"\xe9", []) == "é"
    assert StringDeserializer(errors="replace").deserialize("t", b"\xe9", []) == "�"


def test_bytes_come_from_any_buffer() -> None:
    assert BytesSerializer().serialize("t", memoryview(b"abc")[1:], []) == b"bc"


def test_json_is_compact_and_in_utf_8() -> None:
    assert JsonSerializer().serialize("t", {"a": [1, "ž"]}, []) == '{"a":[1,"ž"]}'.encode()
    assert JsonSerializer(default=str).serialize("t", SOME_UUID, []) == f'"{SOME_UUID}"'.encode()


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]))))
def test_any_list_of_texts_reads_back(items: list[str | None]) -> None:
    serializer, deserializer = PAIRS["strings"]
    assert deserializer.deserialize("t", serializer.serialize("t", items, []), []) == items


@given(st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), min_size=1))
def test_every_truncation_of_a_list_is_refused(items: list[int | None]) -> None:
    data = PAIRS["integers"][0].serialize("t", items, [])
    assert data is not None
    assert PAIRS["integers"][1].deserialize("t", data, []) == items
    for size in range(len(data)):
        with pytest.raises(SerializationError):
            PAIRS["integers"][1].deserialize("t", data[:size], [])
