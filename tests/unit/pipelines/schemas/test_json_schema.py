"""JSON Schema as Spark's types, and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import types as t

from ottla.pipelines import PipelineError
from ottla.pipelines.schemas.json_text import json_schema, spark_type


def test_a_json_schema_has_its_columns() -> None:
    schema = {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "price": {"type": ["null", "number"]},
            "note": {"oneOf": [{"type": "null"}, {"type": "string"}]},
            "is_paid": {"type": "boolean"},
            "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
            "first": {"$ref": "#/$defs/line"},
            "tags": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "$defs": {"line": {"type": "object", "properties": {"sku": {"type": "string"}}}},
    }
    assert spark_type(json.dumps(schema)).simpleString() == (
        "struct<id:bigint,price:double,note:string,is_paid:boolean,lines:array<struct<sku:string>>,"
        "first:struct<sku:string>,tags:map<string,string>>"
    )


def test_a_schema_made_of_columns_reads_back_as_what_json_has_of_them() -> None:
    columns = (
        t.StructType()
        .add("id", t.IntegerType(), False)
        .add("at", t.TimestampType())
        .add("price", t.DecimalType(5, 2))
        .add("lines", t.ArrayType(t.StructType().add("sku", t.StringType())))
        .add("tags", t.MapType(t.StringType(), t.LongType(), False))
    )
    made = json_schema(columns)
    assert json.loads(made)["required"] == ["id"]
    assert spark_type(made).simpleString() == (
        "struct<id:bigint,at:string,price:double,lines:array<struct<sku:string>>,tags:map<string,bigint>>"
    )
    with pytest.raises(PipelineError, match="has no type in JSON"):
        json_schema(t.StructType().add("i", t.DayTimeIntervalType()))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"properties": {"a": {"type": "integer"}}}, "# of the JSON schema has no one type"),
        ({"type": ["string", "integer"]}, "# of the JSON schema has no one type"),
        ({"type": "array"}, "#/items of the JSON schema allows anything"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "is a choice of several"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}}, "contains itself"),
        ({"$ref": "other.json"}, "refers to other.json, outside of it"),
        ({"$ref": "#/$defs/b"}, "refers to #/$defs/b, which is not there"),
    ],
)
def test_what_has_no_column_is_refused_by_its_place(schema: Any, words: str) -> None:
    with pytest.raises(PipelineError) as told:
        spark_type(json.dumps(schema))
    assert words in str(told.value)
