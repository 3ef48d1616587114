"""Kafka Connect 4.3.1's own transformations and ours on the same records: equal keys, values, topics and headers.

All cases go through one Java process (`connect_transforms/Main.java`), which says for each record what Connect makes of
it, or that it refuses it. Ours run on Spark over the same records. Types are compared as well as values.
"""

from __future__ import annotations

import base64
import json
import struct
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ottla.pipelines.connect import Pipeline, record, transforms
from ottla.pipelines.connect.keys import KEY, meta_type
from ottla.pipelines.connect.record import META, META_TYPE
from ottla.pipelines.connect.smt import HEADERS
from ottla.pipelines.connect.smt_check import names
from ottla.pipelines.connect.smt_kinds import PACKAGE, PREDICATE_PACKAGE, PREDICATES, SMTS
from tests.support.kafka import KAFKA_VERSION
from tests.support.maven import jars
from tests.support.programs import java_program

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.java
PROGRAM = Path(__file__).parent / "connect_transforms"
SPARK = {
    "int8": T.ByteType(), "int16": T.ShortType(), "int32": T.IntegerType(), "int64": T.LongType(),
    "float32": T.FloatType(), "float64": T.DoubleType(), "boolean": T.BooleanType(), "string": T.StringType(),
    "bytes": T.BinaryType(), "decimal2": T.DecimalType(20, 2), "decimal9": T.DecimalType(38, 9), "date": T.DateType(),
    "timestamp": T.TimestampType(),
}  # fmt: skip
NAMES: dict[type[T.DataType], str] = {type(type_): name for name, type_ in SPARK.items()}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Type = Any
"""As the Java program takes it: a name, a list of fields, or a map with `array` or `map`."""

EVERY: Type = [[f"a_{name}", name] for name in SPARK]
LONG_BYTES = base64.b64encode(bytes(range(256))).decode()
ROWS: list[list[Any]] = [
    [1, 300, 70_000, 2**40, "1.5", "2.75", True, "12", "AP8=", "3.50", "1.000000001", 20_000, 1_700_000_000_123],
    [None] * 13,
    [-128, -32768, -(2**31), -(2**63), "-0.0", "-1e300", False, "-7", "", "-3.99", "-0.000000001", -1, -1],
    [127, 32767, 2**31 - 1, 2**63 - 1, "3.4e38", "NaN", True, "+5", LONG_BYTES, "999999999999999999.99",
     "99999999999999999999999999999.999999999", 0, 0],
    [0, 0, 0, 0, "Infinity", "-Infinity", False, "300", "AA==", "0.00", "0E-9", 1, 86_400_000],
    [5, 5, 128, 32768, "1e-10", "1e20", True, "9999999999999999999", "AA==", "-128.00", "12345678901234567890.5",
     19_000, 1_700_000_000_000],
    [5, 5, 256, 65536, "0.1", "0.1", True, " 5", "AA==", "2147483648.00", "9223372036854775808", 19_000, 172_800_000],
    [5, 5, 255, 4294967296, "1e10", "4294967297.9", True, "TRUE", "AA==", "0.99", "0.5", 19_000, 1],
    [5, 5, 255, 1, "-1.5", "-2.5", True, "1.5", "AA==", "0.01", "0.000001", 19_000, -86_400_000],
    [5, 5, 255, 1, "16777217", "9007199254740993", True, "true ", "AA==", "0.01", "0.0000001", 365,
     253_402_214_400_000],
    [5, 5, 255, 1, "1", "1", True, "NaN", "AA==", "1.00", "1.1", 365, 5],
    [5, 5, 255, 1, "1", "1", True, "infinity", "AA==", "1.00", "1.1", 365, 5],
    [5, 5, 255, 1, "1", "1", True, "-Infinity", "AA==", "1.00", "1.1", 365, 5],
    [5, 5, 255, 1, "1", "1", True, "1e3d", "AA==", "1.00", "1.1", 365, 5],
    [5, 5, 255, 1, "1", "1", True, "", "AA==", "1.00", "1.1", 365, 5],
]  # fmt: skip
SINGLE = [[one if at == place else None for at, one in enumerate(row)] for row in ROWS for place in range(len(EVERY))]
"""Each value in a record of its own, where it is refused alone."""

NESTED: Type = [
    ["id", "int64"],
    ["name", "string"],
    ["place", [["city", "string"], ["zip", "int32"], ["geo", [["lat", "float64"]]]]],
    ["tags", {"array": "string"}],
    ["with.dot", "int32"],
]
NESTED_ROWS: list[Any] = [
    [1, "a", ["Brno", 60200, ["49.2"]], ["x", "y"], 7],
    [2, None, None, None, None],
    [3, 'q"\\', [None, 1, None], [], 8],
    None,
    [None, "", ["", None, [None]], [None, 'a"b'], 9],
]
MAPS: Type = [["id", "int64"], ["counts", {"map": ["string", "int32"]}], ["list", {"array": "int64"}]]
MAPS_ROWS: list[Any] = [[1, [["a", 1]], [1, 2]], [2, None, None], [3, [], []], [4, [["b", None]], [None]], None]
KEYS: Type = [["id", "int64"], ["part", [["no", "int32"]]]]
KEY_ROWS: list[Any] = [[1, [5]], None, [None, None], [4, [None]]]


@dataclass(frozen=True)
class Case:
    steps: Sequence[Mapping[str, Any]]
    value: Type
    rows: Sequence[Any]
    key: Type = "bytes"
    keys: Sequence[Any] = ("azE=", None)
    topics: Sequence[str] = ("orders",)
    timestamps: Sequence[int | None] = (1_700_000_000_123,)
    headers: Sequence[Sequence[tuple[str, str]]] = ((("from", "test"),), (), (("a", "1"), ("from", "x"), ("from", "y")))

    def records(self) -> list[dict[str, Any]]:
        """Each row with a key, a topic, a time and headers, taken in turn."""
        count = max(map(len, (self.rows, self.keys, self.topics, self.timestamps, self.headers)))

        def of(values: Sequence[Any], index: int) -> Any:
            return values[index % len(values)]

        return [
            {
                "value": of(self.rows, index), "key": of(self.keys, index), "topic": of(self.topics, index),
                "timestamp": of(self.timestamps, index), "headers": of(self.headers, index),
                "partition": index % 3, "offset": index,
            }
            for index in range(count)
        ]  # fmt: skip


def step(
    kind: str, predicate: Mapping[str, str] | None = None, *, negate: bool = False, **config: Any
) -> dict[str, Any]:
    return {
        "type": kind, "config": {name.replace("_", "."): value for name, value in config.items()},
        "predicate": predicate, "negate": negate,
    }  # fmt: skip


def nested(*steps: Mapping[str, Any], **more: Any) -> Case:
    return Case(steps, NESTED, NESTED_ROWS, **more)


def every(*steps: Mapping[str, Any]) -> Case:
    return Case(steps, EVERY, ROWS)


def keyed(*steps: Mapping[str, Any]) -> Case:
    return Case(steps, NESTED, NESTED_ROWS[:3], KEYS, KEY_ROWS)


def times(target: str, type_: str, values: Sequence[Any], format_: str = "", precision: str = "milliseconds") -> Case:
    one = step("TimestampConverter$Value", field="at", target_type=target, format=format_, unix_precision=precision)
    return Case([one], [["at", type_], ["id", "int64"]], [*([value, 1] for value in values), None])


TOMBSTONE = {"type": "RecordIsTombstone"}
HAS_A = {"type": "HasHeaderKey", "name": "a"}
ORDERS = {"type": "TopicNameMatches", "pattern": "orders|x-.*"}
TOPICS = ("orders", "x-orders", "other", "orders2")
INSTANTS = (0, 1, -1, 86_399_999, 86_400_000, 1_700_000_000_123, -62_000_000_123, 951_782_400_000, 1_709_164_800_000)
UNIX = (*INSTANTS, None, -1001, -999, 999, 2**62, -(2**62))
TEXTS = (
    "2024-02-29 13:14:15.016", "1999-12-31 23:59:59.999", None, "2024-13-45 25:61:61.1", "2024-1-2 3:4:5.6", "x", "",
    "2024-01-02 03:04:05.678 and more", " 2024-01-02 03:04:05.678", "2024-01-02", "1969-12-31 00:00:00.000",
    "2024-01-02 03:04:05.6789", "2024-02-30 00:00:00.0", "2024-00-00 00:00:00.000",
)  # fmt: skip
MASKED = ",".join(name for name, type_ in EVERY if type_ != "bytes")
CAST = ",".join(name for name, type_ in EVERY if type_ != "bytes")
REPLACED = ",".join(name for name, type_ in EVERY if type_ not in ("boolean", "bytes", "date", "timestamp"))
CASES: dict[str, Case] = {
    **{
        f"Cast-{to}": Case([step("Cast$Value", spec=f"nobody:int8,{CAST.replace(',', f':{to},')}:{to}")], EVERY, SINGLE)
        for to in ("int8", "int16", "int32", "int64", "float32", "float64", "boolean")
    },
    "Cast-to-text": every(step("Cast$Value", spec=",".join(f"a_{one}:string" for one in SPARK))),
    "Cast-a-whole": Case([step("Cast$Value", spec="int32")], "string", ["12", "x", None, "-5"]),
    "Cast-a-key": Case([step("Cast$Key", spec="int64")], NESTED, NESTED_ROWS, "string", ["12", None, "x"]),
    "Cast-fields-of-keys": keyed(step("Cast$Key", spec="id:string")),
    "DropHeaders": nested(step("DropHeaders", headers="from,b")),
    "ExtractField": nested(step("ExtractField$Value", field="id")),
    "ExtractField-with-a-dot": nested(step("ExtractField$Value", field="with.dot")),
    "ExtractField-a-record": nested(step("ExtractField$Value", field="place")),
    "ExtractField-V2": nested(step("ExtractField$Value", field="place.geo.lat", field_syntax_version="V2")),
    "ExtractField-V2-ticks": nested(step("ExtractField$Value", field="`with.dot`", field_syntax_version="V2")),
    "ExtractField-Key": keyed(step("ExtractField$Key", field="id")),
    "ExtractField-Key-a-record": keyed(step("ExtractField$Key", field="part")),
    "Filter-tombstones": nested(step("Filter", TOMBSTONE)),
    "Filter-others": nested(step("Filter", TOMBSTONE, negate=True)),
    "Filter-header": nested(step("Filter", HAS_A)),
    "Filter-topic": nested(step("Filter", ORDERS), topics=TOPICS),
    "Flatten": nested(step("Flatten$Value")),
    "Flatten-delimiter": nested(step("Flatten$Value", delimiter="_")),
    "Flatten-Key": keyed(step("Flatten$Key", delimiter="-")),
    "HeaderFrom-copy": nested(
        step("HeaderFrom$Value", fields="id,name,place,tags", headers="i,n,p,t", operation="copy")
    ),
    "HeaderFrom-move": nested(step("HeaderFrom$Value", fields="id,name", headers="i,from", operation="move")),
    "HeaderFrom-Key": keyed(step("HeaderFrom$Key", fields="id", headers="i", operation="move")),
    "HeaderFrom-maps": Case(
        [step("HeaderFrom$Value", fields="counts,list", headers="c,l", operation="copy")], MAPS, MAPS_ROWS
    ),
    "HeaderFrom-every-type": every(
        step("HeaderFrom$Value", fields=",".join(n for n, _ in EVERY), headers=",".join(SPARK), operation="copy")
    ),
    "HoistField": nested(step("HoistField$Value", field="it")),
    "HoistField-a-whole": Case([step("HoistField$Value", field="it")], "string", ["a", None]),
    "HoistField-as-value": Case([step("HoistField$Value", field="value")], "string", ["a", None]),
    "HoistField-Key": Case([step("HoistField$Key", field="k")], NESTED, NESTED_ROWS, "string", ["12", None, "x"]),
    "InsertField": nested(
        step(
            "InsertField$Value",
            topic_field="t",
            partition_field="p?",
            offset_field="o!",
            timestamp_field="ts",
            static_field="s",
            static_value="same",
        ),
        timestamps=(1_700_000_000_123, None),
    ),
    "InsertField-Key": keyed(step("InsertField$Key", topic_field="t")),
    "InsertHeader": nested(step("InsertHeader", header="h", value_literal="text with words")),
    **{
        f"InsertHeader-{text}": nested(step("InsertHeader", header="from", value_literal=text))
        for text in ("true", "007", "+5", "-12", "1.50", "2.0", "null", "2024-01-02", "a/b c", "12.34", "-0.5")
    },
    "MaskField": every(step("MaskField$Value", fields=f"{MASKED},nobody")),
    "MaskField-bytes": every(step("MaskField$Value", fields="a_bytes")),
    **{
        f"MaskField-by-{text}": every(step("MaskField$Value", fields=REPLACED, replacement=text))
        for text in ("7", "300", "-1.5", "1e2")
    },
    "MaskField-by-text": every(step("MaskField$Value", fields="a_string", replacement="***")),
    "MaskField-number-by-text": every(step("MaskField$Value", fields="a_int32", replacement="***")),
    "MaskField-truth-by-text": every(step("MaskField$Value", fields="a_boolean", replacement="true")),
    "MaskField-lists": Case([step("MaskField$Value", fields="counts,list")], MAPS, MAPS_ROWS),
    "MaskField-record": nested(step("MaskField$Value", fields="place")),
    "MaskField-Key": keyed(step("MaskField$Key", fields="id")),
    "MaskField-values-only": nested(step("MaskField$Value", TOMBSTONE, negate=True, fields="name")),
    "MaskField-by-header": nested(step("MaskField$Value", {"type": "HasHeaderKey", "name": "a"}, fields="name")),
    "RegexRouter": nested(step("RegexRouter", regex="(x-)?(.*)s", replacement="$2-$1z"), topics=TOPICS),
    "RegexRouter-shorter-first": nested(step("RegexRouter", regex="o|orders", replacement="T"), topics=TOPICS),
    "RegexRouter-named": nested(step("RegexRouter", regex="(?<a>ord)ers", replacement="${a}-a"), topics=TOPICS),
    "RegexRouter-then-predicate": nested(
        step("RegexRouter", regex="other", replacement="x-other"), step("Filter", ORDERS), topics=TOPICS
    ),
    "ReplaceField-exclude": nested(step("ReplaceField$Value", exclude="id,nobody")),
    "ReplaceField-include": nested(step("ReplaceField$Value", include="name,id")),
    "ReplaceField-both": nested(step("ReplaceField$Value", include="name,id", exclude="id", renames="name:n")),
    "ReplaceField-swap": nested(step("ReplaceField$Value", renames="id:name,name:id")),
    "ReplaceField-Key": keyed(step("ReplaceField$Key", renames="id:no", exclude="part")),
    "TimestampRouter": nested(step("TimestampRouter"), timestamps=(1_700_000_000_123, None, 0), topics=TOPICS),
    "TimestampRouter-format": nested(
        step("TimestampRouter", topic_format="${timestamp}.${topic}.${topic}", timestamp_format="yyyy'w'MM-dd_HH.mm"),
        timestamps=(1_700_000_000_123, -1),
    ),
    **{
        f"TimestampConverter-{type_}-{target}": times(target, type_, values, "yyyy-MM-dd HH:mm:ss.SSS")
        for target in ("string", "unix", "Date", "Timestamp")
        for type_, values in (
            ("string", TEXTS),
            ("int64", [one for one in UNIX if abs(one or 0) < 10**14]),
            ("timestamp", (*INSTANTS, None)),
            ("date", (0, -1, 19_000, None)),
        )
    },
    **{
        f"TimestampConverter-{precision}": times("unix", "timestamp", INSTANTS, precision=precision)
        for precision in ("seconds", "microseconds", "nanoseconds")
    },
    **{
        f"TimestampConverter-of-{precision}": times(
            "Timestamp", "int64", (0, 1, -1, -1001, 1_500_000_000, None), precision=precision
        )
        for precision in ("seconds", "microseconds", "nanoseconds")
    },
    **{
        f"TimestampConverter-pattern-{pattern}": times("string", "timestamp", INSTANTS, pattern)
        for pattern in (
            "EEE, d MMM yyyy hh:mm a",
            "yy-M-d H:m:s.S",
            "EEEE MMMM dd DDD kk KK",
            "yyyy-MM-dd'T'HH:mm:ssXXX",
            "HH:mm:ss Z '' z",
        )
    },
    "TimestampConverter-read-zone": times(
        "unix",
        "string",
        ("2024-01-02T03:04:05+01:30", "2024-01-02T03:04:05Z", "2024-01-02T03:04:05-08:00", "no"),
        "yyyy-MM-dd'T'HH:mm:ssXXX",
    ),
    "TimestampConverter-read-digits": times("unix", "string", ("20240102", "2024010", "20241301x"), "yyyyMMdd"),
    "TimestampConverter-a-whole": Case(
        [step("TimestampConverter$Value", target_type="unix", format="yyyy")], "string", ["2024", None, "x"]
    ),
    "TimestampConverter-Key": Case(
        [step("TimestampConverter$Key", target_type="Timestamp")], NESTED, NESTED_ROWS, "int64", [5, None]
    ),
    "ValueToKey": nested(step("ValueToKey", fields="name,id")),
    "ValueToKey-then-ExtractField": nested(
        step("Filter", TOMBSTONE), step("ValueToKey", fields="id"), step("ExtractField$Key", field="id")
    ),
    "ValueToKey-then-Cast": nested(
        step("Filter", TOMBSTONE),
        step("ValueToKey", fields="id"),
        step("ExtractField$Key", field="id"),
        step("Cast$Key", spec="string"),
        step("HoistField$Key", field="k"),
    ),
    "chain": nested(
        step("Flatten$Value", delimiter="_"),
        step("ReplaceField$Value", exclude="tags", renames="place_city:city"),
        step("InsertField$Value", static_field="source", static_value="ottla"),
        step("HeaderFrom$Value", TOMBSTONE, negate=True, fields="id", headers="id", operation="move"),
        step("RegexRouter", HAS_A, regex="(.*)", replacement="with-a-$1"),
    ),
}


CLASSES = {
    **{PACKAGE + name: SMTS[name.partition("$")[0]].kind for name in names() if "SetSchema" not in name},
    **{PREDICATE_PACKAGE + name: kind for name, kind in PREDICATES.items()},
}


@pytest.fixture(scope="module")
def theirs() -> dict[str, list[Any]]:
    """What Connect makes of every case, and the options of every class."""
    classpath = jars(
        f"connect-transforms-{KAFKA_VERSION}",
        ("org.apache.kafka", "connect-transforms", KAFKA_VERSION),
        ("org.apache.kafka", "connect-json", KAFKA_VERSION),
        ("org.slf4j", "slf4j-nop", "1.7.36"),
    )
    lines = [
        json.dumps({"steps": case.steps, "key": case.key, "value": case.value, "records": case.records()})
        for case in CASES.values()
    ] + [json.dumps({"describe": name}) for name in CLASSES]
    done = subprocess.run(
        java_program(PROGRAM, classpath), input="\n".join(lines), capture_output=True, timeout=100,
        check=False, encoding="utf-8",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(zip([*CASES, *CLASSES], map(json.loads, done.stdout.splitlines()), strict=True))


def spark_type(type_: Type) -> T.DataType:
    if isinstance(type_, list):
        return T.StructType([T.StructField(name, spark_type(inner)) for name, inner in type_])
    if isinstance(type_, dict):
        if "array" in type_:
            return T.ArrayType(spark_type(type_["array"]))
        return T.MapType(spark_type(type_["map"][0]), spark_type(type_["map"][1]))
    return SPARK[type_]


def python_value(type_: Type, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(type_, list):
        return tuple(python_value(inner, one) for (_, inner), one in zip(type_, value, strict=True))
    if isinstance(type_, dict):
        if "array" in type_:
            return [python_value(type_["array"], one) for one in value]
        return {key: python_value(type_["map"][1], one) for key, one in value}
    match type_:
        case "float32" | "float64":
            return float(value)
        case "bytes":
            return base64.b64decode(value)
        case "decimal2" | "decimal9":
            return Decimal(value)
        case "date":
            return (EPOCH + timedelta(days=value)).date()
        case "timestamp":
            return EPOCH + timedelta(milliseconds=value)
        case _:
            return value


def frame(spark: SparkSession, case: Case) -> DataFrame:
    """The records as a source gives them, with the key seen already."""
    is_record = isinstance(case.value, list)
    value_type = spark_type(case.value)
    fields = value_type.fields if isinstance(value_type, T.StructType) else [T.StructField("value", value_type)]
    meta = T.StructType([*META_TYPE.fields, T.StructField(KEY, spark_type(case.key))])
    rows = []
    for one in case.records():
        value = python_value(case.value, one["value"])
        columns = (value or (None,) * len(fields)) if is_record else (value,)
        time = python_value("timestamp", one["timestamp"])
        headers = [(name, text.encode()) for name, text in one["headers"]]
        rows.append((
            *columns,
            (one["topic"], one["partition"], one["offset"], time, None, None, None, headers, value is None, None, None,
             python_value(case.key, one["key"])),
        ))  # fmt: skip
    df = spark.createDataFrame(rows, T.StructType([*fields, T.StructField(META, meta)]), verifySchema=False)
    if not is_record:
        df = df.withColumn(META, record.marked(F.col(META), meta, is_whole=True))
    return df


def pipeline_of(case: Case) -> Pipeline:
    """The same words as in a connector's configuration, with the classes' whole names."""
    predicates = {
        f"p{index}": {**one["predicate"], "type": PREDICATE_PACKAGE + one["predicate"]["type"]}
        for index, one in enumerate(case.steps)
        if one["predicate"]
    }
    steps = [
        {
            PACKAGE + one["type"]: one["config"]
            | ({"predicate": f"p{index}", "negate": one["negate"]} if one["predicate"] else {})
        }
        for index, one in enumerate(case.steps)
    ]
    brokers = {"type": "topic", "bootstrap.servers": "none:1"}
    return Pipeline(
        "parity", source={**brokers, "topic": "orders", "value": "bytes"}, sink=brokers, transforms=steps,
        predicates=predicates,
    )  # fmt: skip


def shown(type_: T.DataType, value: Any) -> Any:
    """A value of Spark as the Java program shows one of Connect."""
    if value is None:
        return None
    match type_:
        case T.StructType():
            fields = [[one.name, shown(one.dataType, value[index])] for index, one in enumerate(type_.fields)]
            return ["struct", fields]
        case T.ArrayType():
            return ["array", [shown(type_.elementType, one) for one in value]]
        case T.MapType():
            return ["map", [[shown(type_.keyType, k), shown(type_.valueType, v)] for k, v in value.items()]]
        case T.FloatType():
            return ["float32", str(struct.unpack("i", struct.pack("f", value))[0])]
        case T.DoubleType():
            return ["float64", str(struct.unpack("q", struct.pack("d", value))[0])]
        case T.DecimalType():
            plain = format(value, "f")
            return ["decimal", (plain.rstrip("0").rstrip(".") if "." in plain else plain) or "0"]
        case T.BinaryType():
            return ["bytes", base64.b64encode(value).decode()]
        case T.BooleanType():
            return ["boolean", str(value).lower()]
        case T.DateType():
            assert isinstance(value, date)
            return ["date", str((value - EPOCH.date()).days)]
        case T.TimestampType():
            return ["timestamp", str(round((value.astimezone(UTC) - EPOCH) / timedelta(milliseconds=1)))]
        case _:
            return [NAMES[type(type_)], str(value)]


def ours(spark: SparkSession, case: Case) -> list[Any]:
    df = transforms.apply(frame(spark, case), pipeline_of(case))
    fields = T.StructType([df.schema[name] for name in record.names(df)])
    is_whole, meta = record.is_whole(df), meta_type(df)
    found: list[Any] = [{"dropped": True} for _ in case.records()]
    for row in df.collect():
        origin = row[META]
        if origin.error is not None:
            found[origin.offset] = {"error": origin.error["class"]}
            continue
        value = None
        if not origin.is_tombstone:
            value = shown(fields[0].dataType, row[0]) if is_whole else shown(fields, row)
        headers = origin[HEADERS] if HEADERS in meta.fieldNames() else origin.headers
        found[origin.offset] = {
            "topic": origin.target or origin.topic,
            "key": shown(meta[KEY].dataType, origin[KEY]),
            "value": value,
            "headers": [[one.key, None if one.value is None else bytes(one.value).decode()] for one in headers],
        }
    return found


def test_transforms_and_predicates_have_connects_options_and_no_others(theirs: dict[str, list[Any]]) -> None:
    assert {name: sorted(theirs[name]) for name in CLASSES} == {
        name: sorted(kind.options) for name, kind in CLASSES.items()
    }


def difference(wanted: Any, found: Any) -> Any:
    """What Connect says and we do not, as far inside as both have the same form."""
    if isinstance(wanted, dict) and isinstance(found, dict) and wanted.keys() == found.keys():
        return {name: difference(wanted[name], found[name]) for name in wanted if wanted[name] != found[name]}
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found) and wanted[:1] == found[:1]:
        return [difference(*pair) for pair in zip(wanted, found, strict=True) if pair[0] != pair[1]]
    return {"connect": wanted, "ottla": found}


GROUPS = sorted({name.partition("-")[0] for name in CASES})


@pytest.mark.parametrize("group", GROUPS)
def test_records_are_what_kafka_connect_makes_of_them(
    spark: SparkSession, theirs: dict[str, list[Any]], group: str
) -> None:
    wrong = {}
    refused = passed = 0
    for name, case in CASES.items():
        if name.partition("-")[0] != group:
            continue
        for index, (wanted, found) in enumerate(zip(theirs[name], ours(spark, case), strict=True)):
            refused, passed = refused + ("error" in wanted), passed + ("error" not in wanted)
            if "error" in wanted and "error" in found:
                continue  # the kind of exception differs where Connect trips over a null
            if found != wanted:
                wrong[f"{name} record {index}"] = difference(wanted, found)
    assert not wrong, json.dumps(wrong, indent=1)[:6000]
    assert passed, "Connect refuses everything"
