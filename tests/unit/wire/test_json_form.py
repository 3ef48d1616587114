"""The JSON form: what golden messages do not show, and what is refused."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from ottla.errors import UnsupportedVersion
from ottla.types import Uuid
from ottla.wire.json_form import JsonFormError, from_json, to_json
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.unit.wire.samples import Child, Everything, Grandchild, Nullable, Tagged

NULLABLE: dict[str, Any] = {"text": "t", "plainText": "p", "data": "ZGF0YQ==", "numbers": [1, 2]}


def test_names_are_lower_camel_case_and_bulk_is_base64() -> None:
    topics = [TopicProduceData("t", partition_data=[PartitionProduceData(0, memoryview(b"records"))])]
    form = to_json(ProduceRequest(acks=-1, topic_data=topics), 9)
    assert form == {
        "transactionalId": None,
        "acks": -1,
        "timeoutMs": 0,
        "topicData": [{"name": "t", "partitionData": [{"index": 0, "records": "cmVjb3Jkcw=="}]}],
    }
    assert from_json(ProduceRequest, 9, form) == ProduceRequest(acks=-1, topic_data=topics)


def test_a_uuid_is_url_safe_base64() -> None:
    form = to_json(FetchRequest(topics=[FetchTopic(topic_id=Uuid(b"\xff" * 16))]), 13)
    assert form["topics"][0]["topicId"] == "_____________________w"


def test_a_tagged_field_is_there_only_when_it_is_not_at_its_default() -> None:
    assert to_json(Tagged(plain=1), 1) == {"plain": 1}
    assert to_json(Tagged(1, 2, child=Grandchild(3)), 1) == {
        "plain": 1,
        "number": 2,
        "child": {"number": 3, "late": 0},
    }
    assert to_json(Tagged(1, nullable_child=None), 1) == {"plain": 1, "nullableChild": None}
    assert from_json(Tagged, 1, {"plain": 1, "nullableChild": None}) == Tagged(1, nullable_child=None)
    assert from_json(Tagged, 1, {"plain": 1}) == Tagged(1)


def test_unknown_tags_are_kept() -> None:
    message = Tagged(1)
    message.unknown_tags = ((9, b"nine"), (70000, b""))
    form = to_json(message, 1)
    assert form["unknownTaggedFields"] == [{"tag": 9, "data": "bmluZQ=="}, {"tag": 70000, "data": ""}]
    assert from_json(Tagged, 1, form) == message


@pytest.mark.parametrize(("value", "text"), [(math.inf, "Infinity"), (-math.inf, "-Infinity"), (math.nan, "NaN")])
def test_a_float_that_json_lacks_is_a_string(value: float, text: str) -> None:
    form = to_json(Everything(ratio=value), 1)
    assert form["ratio"] == text
    json.dumps(form, allow_nan=False)
    made = from_json(Everything, 1, form).ratio
    assert made == value or (made != made and value != value)


def test_a_whole_number_is_taken_for_a_float() -> None:
    form = to_json(Everything(), 1) | {"ratio": 3}
    made = from_json(Everything, 1, form).ratio
    assert (made, type(made)) == (3.0, float)


def test_a_field_that_the_version_lacks_is_not_shown() -> None:
    assert "rackId" not in to_json(FetchRequest(rack_id="r"), 10)
    assert to_json(FetchRequest(rack_id="r"), 11)["rackId"] == "r"
    with pytest.raises(
        UnsupportedVersion, match=r"FetchRequest\.topics\[0\]\.partitions\[0\]\.last_fetched_epoch is set"
    ):
        to_json(FetchRequest(topics=[FetchTopic(partitions=[FetchPartition(last_fetched_epoch=1)])]), 11)


@pytest.mark.parametrize(
    ("change", "path", "reason"),
    [
        ({"numbers": None}, "Nullable.numbers", "null is not allowed in version 1"),
        ({"numbers": 5}, "Nullable.numbers", "expected an array, found 5"),
        ({"numbers": [1, "2"]}, "Nullable.numbers[1]", "expected an integer, found '2'"),
        ({"numbers": [True]}, "Nullable.numbers[0]", "expected an integer, found True"),
        ({"numbers": [1.5]}, "Nullable.numbers[0]", "expected an integer, found 1.5"),
        ({"numbers": [1 << 31]}, "Nullable.numbers[0]", "2147483648 does not fit in an int32"),
        ({"plainText": None}, "Nullable.plain_text", "null is not allowed in version 1"),
        ({"plainText": 5}, "Nullable.plain_text", "expected a string, found 5"),
        ({"data": "not base64!"}, "Nullable.data", "expected base64"),
        ({"data": "é"}, "Nullable.data", "expected base64"),
        ({"dta": 1}, "Nullable", "version 1 has no field `dta`"),
        ({"unknownTaggedFields": 1}, "Nullable.unknownTaggedFields", "expected an array, found 1"),
        ({"unknownTaggedFields": [{}]}, "Nullable.unknownTaggedFields[0]", "expected an object with `tag` and `data`"),
        ({"unknownTaggedFields": [{"tag": -1, "data": ""}]}, "Nullable.unknownTaggedFields[0]", "-1 does not fit"),
    ],
)
def test_json_that_is_not_the_form_is_refused_by_name(change: dict[str, Any], path: str, reason: str) -> None:
    with pytest.raises(JsonFormError) as caught:
        from_json(Nullable, 1, NULLABLE | change)
    assert caught.value.path == path
    assert caught.value.reason.startswith(reason)


def test_a_missing_field_is_refused_by_name() -> None:
    with pytest.raises(JsonFormError, match=r"Nullable\.plain_text: `plainText` is missing, which version 0 requires"):
        from_json(Nullable, 0, {"text": None, "data": None, "numbers": []})


@pytest.mark.parametrize("form", [None, [], "x", 5])
def test_what_is_no_object_is_refused(form: object) -> None:
    with pytest.raises(JsonFormError, match="Nullable: expected an object"):
        from_json(Nullable, 0, form)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"flag": 1}, "expected true or false"),
        ({"ratio": "much"}, "expected a number"),
        ({"id": "AAAA"}, "holds 3 bytes, and a UUID has 16"),
    ],
)
def test_other_types_are_checked_too(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(JsonFormError, match=reason):
        from_json(Everything, 1, to_json(Everything(child=Child("x")), 1) | change)
