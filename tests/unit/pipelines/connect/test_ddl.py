"""Schemas and types that are plainly right; tests/pipelines/connect/test_sql.py holds each to Spark's own parser."""

from __future__ import annotations

import pytest

from ottla.pipelines.connect.ddl import is_plain_schema, is_plain_type

PLAIN_TYPES = (
    "BIGINT", "decimal", "DECIMAL(10,2)", "dec(38)", "numeric(5, 5)", "varchar(10)", "char(1)", "timestamp_ntz",
    "array<array<int>>", "MAP<string, array<struct<a: int, b string not null comment 'x'>>>", "variant", "real",
)  # fmt: skip
PLAIN_SCHEMAS = (
    "id BIGINT",
    "id BIGINT, card STRING, amount STRING, at STRING, place STRUCT<city STRING, zip INT>",
    "id BIGINT NOT NULL COMMENT 'the id',\n  `a b` string, `x``y` date",
    "value STRING, timestamp TIMESTAMP, date DATE, order INT, select INT, type STRING",
)
UNSURE_TYPES = (
    "BIGNT",
    "decimal(39)",
    "decimal(3,4)",
    "char(0)",
    "array<int",
    "array int",
    "int int",
    "",
    "interval day",
)
UNSURE_SCHEMAS = ("id BIGNT card", "id", "id BIGINT,", "id: BIGINT", "id BIGINT; x", "1a INT", "not INT", "", "bigint")


@pytest.mark.parametrize("text", PLAIN_TYPES)
def test_types_that_spark_lists_are_plain(text: str) -> None:
    assert is_plain_type(text)


@pytest.mark.parametrize("text", PLAIN_SCHEMAS)
def test_names_with_such_types_are_plain(text: str) -> None:
    assert is_plain_schema(text)


def test_everything_else_is_for_spark_to_judge() -> None:
    assert not [text for text in UNSURE_TYPES if is_plain_type(text)]
    assert not [text for text in UNSURE_SCHEMAS if is_plain_schema(text)]
