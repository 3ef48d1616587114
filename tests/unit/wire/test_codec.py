"""The codecs on messages of one's own making: null, defaults, versions, tags, views, parts, and what they refuse."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from ottla.errors import UnsupportedVersion
from ottla.types import Uuid
from ottla.wire import (
    DecodeError,
    EncodeError,
    Message,
    decode,
    decode_prefix,
    encode,
    encode_into,
    encode_parts,
    message_class,
    message_names,
)
from ottla.wire.decoder import decoder_source
from ottla.wire.encoder import COPIED_MAX, encoder_source
from ottla.wire.explain import slow_encode
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.metadata import MetadataResponse
from tests.unit.wire.samples import (
    Child,
    Everything,
    Grandchild,
    Hollow,
    Nothing,
    Nullable,
    Sent,
    SentPartition,
    Tagged,
)

ID = Uuid(bytes(range(16)))


def full() -> Everything:
    return Everything(
        flag=True, tiny=-1, short=-2, plain=-3, long=-4, port=65535, crc=0xFFFFFFFF, ratio=0.5, id=ID,
        text="Ünï", text_or_null="x" * 200, data=b"data", data_or_null=b"", records=b"r" * 300,
        child=Child("c", [Grandchild(1)]), child_or_null=Child("d"), flags=[True, False], numbers=[1, -1],
        numbers_or_null=list(range(100)), longs=[1 << 62], ids=[ID, ID], texts=["", "é" * 100], blobs=[b"", b"b"],
        children=[Child("e", [Grandchild(2), Grandchild(3)]), Child("f")],
    )  # fmt: skip


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("message", [full(), Everything()], ids=["full", "default"])
def test_every_kind_of_field_is_read_back(message: Everything, version: int) -> None:
    data = encode(message, version)
    assert decode(Everything, version, data) == message
    assert slow_encode(Everything.schema, version, message) == data


def test_null_and_empty_are_kept_apart() -> None:
    for version in (0, 1):
        message = Everything(text_or_null="", data_or_null=b"", records=b"", numbers_or_null=[], child_or_null=Child())
        made = decode(Everything, version, encode(message, version))
        assert made == message
        assert decode(Everything, version, encode(Everything(), version)).numbers_or_null is None


def test_a_field_that_a_version_lacks_has_its_default_when_decoded() -> None:
    data = encode(FetchRequest(rack_id="r"), 11)
    assert decode(FetchRequest, 11, data).rack_id == "r"
    assert decode(FetchRequest, 4, encode(FetchRequest(rack_id="r"), 4)).rack_id == ""
    assert decode(FetchRequest, 4, encode(FetchRequest(), 4)).session_epoch == -1


def test_a_value_that_a_version_cannot_carry_is_refused_unless_it_may_be_ignored() -> None:
    assert encode(Everything(gone_and_ignored=5), 2) == encode(Everything(), 2)
    with pytest.raises(UnsupportedVersion, match=r"Everything\.gone is set, and version 2 has no such field"):
        encode(Everything(gone=5), 2)
    partitions = [FetchPartition(), FetchPartition(last_fetched_epoch=3)]
    with pytest.raises(UnsupportedVersion, match=r"FetchRequest\.topics\[0\]\.partitions\[1\]\.last_fetched_epoch"):
        encode(FetchRequest(topics=[FetchTopic(partitions=partitions)]), 11)


@pytest.mark.parametrize("version", [-1, 3, 32767])
def test_a_version_that_does_not_exist_is_refused(version: int) -> None:
    with pytest.raises(UnsupportedVersion, match=f"Everything has versions 0-2, not {version}"):
        encode(Everything(), version)
    with pytest.raises(UnsupportedVersion, match=f"Everything has versions 0-2, not {version}"):
        decode(Everything, version, b"")
    with pytest.raises(UnsupportedVersion, match=f"Everything has versions 0-2, not {version}"):
        encode_parts(Everything(), version)


def test_a_removed_api_has_no_version_at_all() -> None:
    with pytest.raises(UnsupportedVersion, match="LeaderAndIsrRequest has versions none, not 0"):
        encode(message_class("LeaderAndIsrRequest")(), 0)


# Tagged fields.


def test_a_tagged_field_is_written_only_when_it_is_not_at_its_default() -> None:
    assert encode(Tagged(plain=1), 1) == bytes.fromhex("0000000100")
    assert encode(Tagged(plain=1, number=8), 1) == bytes.fromhex("00000001 01 00 04 00000008".replace(" ", ""))
    assert encode(Tagged(plain=1, child=Grandchild()), 1) == bytes.fromhex("0000000100")


def test_tagged_fields_of_every_kind_are_read_back() -> None:
    message = Tagged(1, 2, "three", Grandchild(4, 5), [6, 7], Grandchild(8), ID)
    assert decode(Tagged, 1, encode(message, 1)) == message


def test_a_nullable_tagged_struct_can_be_null() -> None:
    data = encode(Tagged(nullable_child=None), 1)
    assert data == bytes.fromhex("00000000 01 05 01 00".replace(" ", ""))
    assert decode(Tagged, 1, data).nullable_child is None
    assert decode(Tagged, 1, encode(Tagged(), 1)).nullable_child == Grandchild()


def test_a_tagged_field_in_a_version_without_tags_is_refused_unless_it_may_be_ignored() -> None:
    assert encode(Tagged(1, id=ID), 0) == encode(Tagged(1), 0)
    with pytest.raises(UnsupportedVersion, match=r"Tagged\.child is set"):
        encode(Tagged(1, child=Grandchild(1)), 0)


def test_unknown_tags_are_kept_and_written_back_among_the_known_ones() -> None:
    data = bytes.fromhex("00000001 03 0004 00000008 0302 abcd 6300".replace(" ", ""))
    message = decode(Tagged, 1, data)
    assert message.number == 8
    assert message.unknown_tags == ((3, b"\xab\xcd"), (99, b""))
    assert encode(message, 1) == data


def test_unknown_tags_of_nested_structs_are_kept() -> None:
    message = Everything(children=[Child("a", [Grandchild(1)])])
    message.children[0].grandchildren[0].unknown_tags = ((1000, b"newer"),)
    message.unknown_tags = ((0, b"x"),)
    again = decode(Everything, 1, encode(message, 1))
    assert again == message
    assert again.children[0].grandchildren[0].unknown_tags == ((1000, b"newer"),)


def test_unknown_tags_are_written_in_the_order_of_their_tags() -> None:
    message = Tagged(number=8)
    message.unknown_tags = [(99, b"b"), (3, b"a")]
    assert decode(Tagged, 1, encode(message, 1)).unknown_tags == ((3, b"a"), (99, b"b"))


def test_unknown_tags_cannot_be_written_without_tags_or_twice() -> None:
    message = Tagged()
    message.unknown_tags = ((3, b"x"),)
    with pytest.raises(UnsupportedVersion, match="Tagged has unknown tags, and version 0 has no tags"):
        encode(message, 0)
    message.unknown_tags = ((0, b"x"),)
    message.number = 1
    with pytest.raises(EncodeError, match="Tagged: tag 0 is given twice"):
        encode(message, 1)


@pytest.mark.parametrize(
    ("tags", "reason"),
    [
        ("02 03 00 03 00", "tag 3 follows tag 3"),
        ("02 09 00 03 00", "tag 3 follows tag 9"),
        ("01 03 05 00", "tag 3 has 5 bytes, 1 remain"),
        ("01 00 05 00000001 00", "took 4 bytes of the 5 that its tag gives it"),
        ("01 00 03 000000 00", "took 4 bytes of the 3 that its tag gives it"),
        ("ff ff ff ff ff", "longer than 32 bits"),
        ("01 03 ff", "cut off"),
        ("01 01 ff ff ff ff 7f", "longer than 32 bits"),
        ("05", "has 5 tags, 0 bytes remain"),
    ],
)
def test_bad_tags_are_refused(tags: str, reason: str) -> None:
    data = bytes(4) + bytes.fromhex(tags.replace(" ", ""))
    with pytest.raises(DecodeError, match=reason):
        decode(Tagged, 1, data)


def test_a_tag_of_another_version_is_refused_as_kafka_refuses_it() -> None:
    """Fetch has tags 0 and 1 in version 12, and tag 1 of a partition only since version 18."""
    request = FetchRequest(topics=[FetchTopic(partitions=[FetchPartition(high_watermark=5)])])
    assert decode(FetchRequest, 18, encode(request, 18)) == request
    request.topics[0].partitions[0] = FetchPartition()
    request.topics[0].partitions[0].unknown_tags = ((1, bytes(8)),)
    with pytest.raises(DecodeError, match=r"partitions\[0\]\.tags at byte .*: tag 1 is not one of version 17"):
        decode(FetchRequest, 17, encode(request, 17))
    with pytest.raises(DecodeError, match=r"partitions\[0\]\.tags at byte .*: tag 1 is not one of version 12"):
        decode(FetchRequest, 12, encode(request, 12))


# What is wrong, and where.

FETCH = FetchRequest(
    topics=[FetchTopic(topic="a", partitions=[FetchPartition()]), FetchTopic(topic="b", partitions=[FetchPartition()])]
)


def test_an_error_names_the_field_the_position_and_the_reason() -> None:
    data = encode(FETCH, 12)
    position = len(data) - 16
    with pytest.raises(DecodeError) as caught:
        decode(FetchRequest, 12, data[:position])
    error = caught.value
    assert error.path == "FetchRequest.topics[1].partitions[0].log_start_offset"
    assert error.position <= position
    assert error.reason == "needs 8 bytes, 1 remain"
    assert str(error) == f"{error.path} at byte {error.position}: needs 8 bytes, 1 remain"


@pytest.mark.parametrize(
    ("version", "text", "path", "position", "reason"),
    [
        (0, "fffe", "Nullable.text", 0, "has the negative length -2"),
        (0, "0005 61", "Nullable.text", 0, "has 5 bytes, 1 remain"),
        (0, "0001 ff", "Nullable.text", 2, "is not UTF-8: invalid start byte"),
        (0, "0000 ffff", "Nullable.plain_text", 2, "is null, which version 0 does not allow"),
        (0, "0000 0000 fffffffe", "Nullable.data", 4, "has the negative length -2"),
        (0, "0000 0000 00000000 ffffffff", "Nullable.numbers", 8, "is null, which version 0 does not allow"),
        (0, "0000 0000 00000000 80000000", "Nullable.numbers", 8, "has the negative length -2147483648"),
        (0, "0000 0000 00000000 00000002 00000001", "Nullable.numbers[1]", 16, "needs 4 bytes, 0 remain"),
        (1, "01 00", "Nullable.plain_text", 1, "is null, which version 1 does not allow"),
        (1, "01 80808080", "Nullable.plain_text", 1, "the varint is cut off"),
        (1, "01 808080808001", "Nullable.plain_text", 1, "the varint is longer than 32 bits"),
        (1, "818002", "Nullable.text", 0, "has 32768 bytes, and a string has at most 32767"),
        (1, "01 01 01 00", "Nullable.numbers", 3, "is null, which version 1 does not allow"),
        (1, "01 01 01 ffffffff0f", "Nullable.numbers", 3, "has 4294967294 elements, 0 bytes remain"),
    ],
)  # fmt: skip
def test_each_kind_of_bad_bytes_has_its_reason(version: int, text: str, path: str, position: int, reason: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(Nullable, version, bytes.fromhex(text.replace(" ", "")))
    assert (caught.value.path, caught.value.position) == (path, position)
    assert caught.value.reason.startswith(reason)


def test_bytes_after_the_message_are_refused_or_left_to_the_caller() -> None:
    data = encode(Grandparent, 1) + b"rest"
    with pytest.raises(DecodeError, match="4 bytes follow the end of the message"):
        decode(Everything, 1, data)
    message, end = decode_prefix(Everything, 1, b"head" + data, 4)
    assert message == Grandparent
    assert data[end - 4 :] == b"rest"


Grandparent = Everything(children=[Child("a", [Grandchild(1)])])


def test_elements_of_no_size_cannot_be_declared() -> None:
    """Kafka has none. A short frame could ask for any number of them, again and again."""
    with pytest.raises(AssertionError, match="Hollow v0: nothing bounds a count of elements that have no bytes"):
        decode(Hollow, 0, b"\0\0\0\2")


def test_every_message_of_kafka_compiles_and_its_source_can_be_read() -> None:
    for name in message_names():
        schema = message_class(name).schema
        for version in range(schema.versions.first, schema.versions.last + 1):
            assert decoder_source(schema, version).startswith("def decode(buf, pos):")
            assert encoder_source(schema, version).startswith("def encode(message, out):")


def test_a_message_without_fields_has_no_bytes() -> None:
    assert encode(Nothing(), 0) == b""
    assert decode(Nothing, 0, b"") == Nothing()


def test_a_position_beyond_the_data_is_refused() -> None:
    with pytest.raises(DecodeError, match=r"Grand|Tagged\.plain"):
        decode_prefix(Tagged, 0, b"abcd", 9)


@pytest.mark.parametrize(
    ("message", "path", "reason"),
    [
        (Everything(tiny=128), "Everything.tiny", "is int 128, not int8"),
        (Everything(port=-1), "Everything.port", "is int -1, not uint16"),
        (Everything(plain=None), "Everything.plain", "is null, not int32"),  # type: ignore[arg-type]
        (Everything(plain="1"), "Everything.plain", "is str '1', not int32"),  # type: ignore[arg-type]
        (Everything(text=None), "Everything.text", "is null, which version 1 does not allow"),  # type: ignore[arg-type]
        (Everything(text=b"x"), "Everything.text", "is bytes b'x', not a str"),  # type: ignore[arg-type]
        (Everything(text="\ud800"), "Everything.text", "cannot be written as UTF-8: surrogates not allowed"),
        (Everything(text="x" * 32768), "Everything.text", "has 32768 bytes, and a string has at most 32767"),
        (Everything(data=None), "Everything.data", "is null, which version 1 does not allow"),  # type: ignore[arg-type]
        (Everything(data="x"), "Everything.data", "is str 'x', which is not in memory"),  # type: ignore[arg-type]
        (Everything(numbers=[1, 1 << 40]), "Everything.numbers[1]", "is int 1099511627776, not int32"),
        (Everything(numbers=5), "Everything.numbers", "is int 5, not a list"),  # type: ignore[arg-type]
        (Everything(ids=[ID, Uuid(b"short")]), "Everything.ids[1]", "is Uuid Uuid('c2hvcnQ'), not a Uuid"),
        (Everything(child=None), "Everything.child", "is null, which version 1 does not allow"),  # type: ignore[arg-type]
        (Everything(children=[Child(), None]), "Everything.children[1]", "is null, which version 1"),  # type: ignore[list-item]
        (Everything(children=[Child(), 5]), "Everything.children[1]", "is int 5, not Child"),  # type: ignore[list-item]
        (Everything(children=[Child(name=5)]), "Everything.children[0].name", "is int 5, not a str"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_a_value_that_the_wire_cannot_carry_is_named(message: Everything, path: str, reason: str) -> None:
    out = bytearray(b"before")
    for attempt in (lambda: encode_into(message, 1, out), lambda: encode_parts(message, 1)):
        with pytest.raises(EncodeError) as caught:
            attempt()
        assert caught.value.path == path
        assert caught.value.reason.startswith(reason)
        assert str(caught.value).startswith(f"{path}: {reason}")
    assert out == b"before"


def test_a_field_that_was_deleted_is_named() -> None:
    message = Grandchild(1)
    del message.number
    with pytest.raises(EncodeError, match=r"Everything\.children\[0\]\.grandchildren\[0\]\.number: is not set"):
        encode(Everything(children=[Child("a", [message])]), 1)


def test_a_refusal_does_not_keep_the_data_alive() -> None:
    """No cycle of exception and frame: the buffer is free again at once, and not when the collector comes by."""

    class Buffer(bytearray):
        """A bytearray that can be watched."""

    data = Buffer(encode(FETCH, 12)[:-20])
    watched = weakref.ref(data)
    gc.disable()
    try:
        with pytest.raises(DecodeError):
            decode(FetchRequest, 12, data)
        del data
        assert watched() is None
    finally:
        gc.enable()


# Views and parts.


def test_bulk_fields_are_views_of_the_buffer_and_not_copies() -> None:
    buffer = bytearray(encode(full(), 1))
    message = decode(Everything, 1, buffer)
    assert isinstance(message.data, memoryview)
    assert isinstance(message.records, memoryview)
    assert message.records.obj is buffer
    at = bytes(buffer).index(b"r" * 300)
    buffer[at] = ord("!")
    assert message.records[0] == ord("!")


class FileSlice:
    """Stands for a part of a file that a link would send."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size


def test_records_become_parts_of_their_own() -> None:
    records = memoryview(bytes(COPIED_MAX + 1))
    from_file = FileSlice(3)
    message = Sent("b", [SentPartition(1, records), SentPartition(2, from_file), SentPartition(3, b"small")], 9)
    parts = encode_parts(message, 0, bytearray(b"head"))
    assert [type(part) for part in parts] == [bytearray, memoryview, bytearray, FileSlice, bytearray]
    assert parts[1] is records
    assert parts[3] is from_file
    joined = b"".join(part if not isinstance(part, FileSlice) else b"abc" for part in parts)  # type: ignore[misc]
    message.partitions[1].records = b"abc"
    assert joined == b"head" + encode(message, 0)


def test_records_that_end_a_message_leave_no_empty_part() -> None:
    message = message_class("ProduceRequest").schema.cls
    assert encode_parts(message(), 3)[-1]
    assert len(encode_parts(Sent(), 0)) == 1


def test_records_in_a_file_cannot_be_copied_into_bytes() -> None:
    with pytest.raises(EncodeError, match=r"Sent\.partitions\[0\]\.records: is FileSlice .* not in memory"):
        encode(Sent("b", [SentPartition(1, FileSlice(3))]), 0)


def test_a_bad_value_beside_records_in_a_file_is_named() -> None:
    message: Any = Sent("b", [SentPartition(1, FileSlice(3)), SentPartition("x", None)])  # type: ignore[arg-type]
    with pytest.raises(EncodeError, match=r"Sent\.partitions\[1\]\.index: is str 'x'"):
        encode_parts(message, 0)


def test_codecs_are_compiled_once_a_version() -> None:
    data = encode(MetadataResponse(), 9)
    decode(MetadataResponse, 9, data)
    encoder, decoder = MetadataResponse.schema.encoders[9], MetadataResponse.schema.decoders[9]
    decode(MetadataResponse, 9, encode(MetadataResponse(), 9))
    assert MetadataResponse.schema.encoders[9] is encoder
    assert MetadataResponse.schema.decoders[9] is decoder


def test_a_plain_message_takes_any_message_class() -> None:
    made: Message = decode(message_class("HeartbeatRequest"), 0, encode(message_class("HeartbeatRequest")(), 0))
    assert made.schema.name == "HeartbeatRequest"
