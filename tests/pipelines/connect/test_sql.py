"""What `ottla pipeline validate` takes without Spark, Spark takes; the rest is judged by Spark's parser as in a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.pipelines.connect.spec import Sql
from ottla.pipelines.connect.sql_check import SparkParser, is_plain
from ottla.pipelines.connect.transforms import parsed_schema
from tests.unit.pipelines.connect.test_ddl import PLAIN_SCHEMAS, PLAIN_TYPES, UNSURE_SCHEMAS, UNSURE_TYPES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_spark_agrees_with_what_is_told_without_it(spark: SparkSession) -> None:
    parser = SparkParser(spark._jvm)
    for text in PLAIN_TYPES:
        assert parser.complaint(Sql("type", text, ())) is None, text
    for text in PLAIN_SCHEMAS:
        assert parser.complaint(Sql("schema", text, ())) is None, text
        assert parsed_schema(text).fields, text
    right_for_spark = [text for text in UNSURE_SCHEMAS if parser.complaint(Sql("schema", text, ())) is None]
    assert right_for_spark == ["id: BIGINT", "1a INT", "not INT", ""]
    right_for_spark = [text for text in UNSURE_TYPES if parser.complaint(Sql("type", text, ())) is None]
    assert right_for_spark == ["char(0)", "interval day"]


def test_java_judges_regular_expressions_that_are_not_plain(spark: SparkSession) -> None:
    parser = SparkParser(spark._jvm)
    plain = ["orders", r"(.*)", r"raw-(\w+)-(.*)", r"a\.b.+", "(a|b)c", "(.+)+"]
    for text in plain:
        assert is_plain(Sql("pattern", text, ())), text
        assert parser.complaint(Sql("pattern", text, ())) is None, text
    unsure = {"(?<a>x)": None, "[a-z]+": None, "[a": "Unclosed character class", "a{2,1}": "Illegal repetition range"}
    for text, said in unsure.items():
        assert not is_plain(Sql("pattern", text, ())), text
        found = parser.complaint(Sql("pattern", text, ()))
        assert (found is None) if said is None else (found is not None and said in found), (text, found)
