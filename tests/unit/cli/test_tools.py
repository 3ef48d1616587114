"""What the everyday tools make of their options: pure functions, without a broker. Kafka's own are in tests/cli."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from ottla.cli.configs import check_options as check_configs
from ottla.cli.configs import parse_added
from ottla.cli.delete_records import parse_offsets
from ottla.cli.formatters import formatter_of
from ottla.cli.get_offsets import parse_filter, parse_rules, parse_time
from ottla.cli.group_offsets import parse_datetime, parse_duration, read_csv
from ottla.cli.line_reader import BadLine, Line, LineReader
from ottla.cli.tool import IncludeList, Refused, admin_of, java_name, java_text, read_key_values, read_settings_file
from ottla.cli.topics import parse_configs, parse_replica_assignment
from ottla.client import ConsumerRecord
from ottla.errors import error_class
from ottla.records import TimestampType
from ottla.types import TopicPartition

FACTS = Path(__file__).parent.parent.parent / "golden" / "kafka-facts"


def test_every_error_has_the_name_of_kafkas_class() -> None:
    for fact in json.loads((FACTS / "errors.json").read_text()):
        if fact["exception"] is not None:
            assert java_name(error_class(fact["code"])()) == f"org.apache.kafka.common.errors.{fact['exception']}"
    assert java_text(error_class(3)("no such topic")) == (
        "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: no such topic"
    )


def test_topics_are_included_by_whole_names() -> None:
    include = IncludeList("'orders, bills.*'")
    assert [name for name in ("orders", "orders2", "bills", "bills-eu", "x") if include.allows(name)] == [
        "orders", "bills", "bills-eu",
    ]  # fmt: skip
    assert IncludeList(".*").allows("__consumer_offsets")
    assert not IncludeList(".*").allows("__consumer_offsets", exclude_internal=True)
    with pytest.raises(Refused, match=r"\( is an invalid regex"):
        IncludeList("(")


def test_a_property_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"Cannot read .*: No such file or directory"):
        read_settings_file(str(tmp_path / "none"))
    broken = tmp_path / "broken"
    broken.write_text("a=\\u12")
    with pytest.raises(Refused, match="Cannot read "):
        read_settings_file(str(broken))
    assert read_settings_file(None) == {}
    assert read_key_values(["a=b=c", "d", "e="]) == {"a": "b=c", "d": "", "e": ""}


def test_the_first_contact_has_five_seconds_unless_the_settings_say_otherwise(tmp_path: Path) -> None:
    with admin_of("127.0.0.1:1") as admin:
        assert admin.config.bootstrap_connect_timeout_ms == 5000
    patient = tmp_path / "patient"
    patient.write_text("bootstrap.connect.timeout.ms=-1")
    with admin_of("127.0.0.1:1", str(patient)) as admin:
        assert admin.config.bootstrap_connect_timeout_ms == -1


def test_settings_of_a_new_topic() -> None:
    assert parse_configs(["a = b", "c=d "]) == {"a": "b", "c": "d"}
    for wrong in ("a", "a=", "a=b=c"):
        with pytest.raises(Refused, match="Invalid topic config"):
            parse_configs([wrong])


def test_replicas_of_partitions() -> None:
    assert parse_replica_assignment("1:2, 2:3") == {0: [1, 2], 1: [2, 3]}
    assert parse_replica_assignment(None) == {}
    for wrong in ("1:1", "1,1:2", "a"):
        with pytest.raises(Refused):
            parse_replica_assignment(wrong)


def test_values_with_commas_are_in_brackets() -> None:
    def parse(text: str) -> dict[str, str]:
        return parse_added({"add_config": text, "add_config_file": None})

    assert parse("a=1,b=[x,y],c=") == {"a": "1", "b": "x,y", "c": ""}
    assert parse("SCRAM-SHA-256=[iterations=8192,password=se=cret]") == {
        "SCRAM-SHA-256": "iterations=8192,password=se=cret"
    }
    with pytest.raises(Refused, match="Invalid entity config"):
        parse("a")
    with pytest.raises(Refused, match="Invalid character found for config key: a b"):
        parse("a b=c")


def test_names_and_types_of_entities_belong_together_by_their_order() -> None:
    given = dict.fromkeys(
        ("topic", "client", "user", "broker", "broker_logger", "ip", "client_metrics", "group", "add_config_file",
         "bootstrap_server", "bootstrap_controller")
    ) | dict.fromkeys(
        ("client_defaults", "user_defaults", "broker_defaults", "ip_defaults", "describe"), False
    )  # fmt: skip
    options = {
        **given, "alter": True, "add_config": "a=1", "delete_config": (), "entity_type": ("users", "clients"),
        "entity_name": ("bob",), "entity_default": True,
    }  # fmt: skip
    assert check_configs(options, ["--entity-default", "--entity-name"]) == [("users", ""), ("clients", "bob")]
    assert check_configs(options, ["--entity-name", "--entity-default"]) == [("users", "bob"), ("clients", "")]


def test_rules_for_topics_and_partitions() -> None:
    rules = parse_rules("orders:1-3,bills,:7")
    assert [number for number in range(9) if rules.partition("orders", number)] == [1, 2, 7]
    assert rules.partition("bills", 99)
    assert rules.topic("anything"), "it may have a partition 7"
    assert not rules.partition("anything", 6)
    with pytest.raises(Refused, match="Invalid rule specification: a:b"):
        parse_rules("a:b")
    assert parse_filter(None, None).partition("t", 5)
    assert not parse_filter("t", "1,2").partition("t", 0)


def test_times_of_offsets() -> None:
    assert [parse_time(text).timestamp for text in ("latest", "-2", "max-timestamp", "-4", "1700000000000")] == [
        -1, -2, -3, -4, 1_700_000_000_000,
    ]  # fmt: skip
    with pytest.raises(Refused, match="Malformed time argument noon"):
        parse_time("noon")


def test_the_file_of_records_to_delete() -> None:
    entry = {"topic": "t", "partition": 1, "offset": 5}
    assert parse_offsets(json.dumps({"partitions": [entry]})) == {TopicPartition("t", 1): 5}
    for wrong in ("[]", "5", '{"partitions": 5}', '{"partitions": [{}]}', '{"partitions": [{"topic": 1}]}'):
        with pytest.raises(Refused):
            parse_offsets(wrong)


@pytest.mark.parametrize(
    ("text", "moment_ms"),
    [
        ("2026-01-01T00:00:00.000", 1_767_225_600_000),
        ("2026-01-01T00:00:00.5Z", 1_767_225_600_005),
        ("2026-01-01T02:00:00.000+02:00", 1_767_225_600_000),
        ("2025-12-31T19:00:00.000-05", 1_767_225_600_000),
    ],
)
def test_moments_are_utc_unless_they_say_otherwise(text: str, moment_ms: int) -> None:
    assert parse_datetime(text) == moment_ms


@pytest.mark.parametrize("text", ["2026-01-01", "2026-13-01T00:00:00.000", "2026-01-01T00:00", "T"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        parse_datetime(text)


def test_durations_are_javas() -> None:
    assert parse_duration("P1DT2H3M4.5S") == timedelta(days=1, hours=2, minutes=3, seconds=4.5)
    assert parse_duration("pt15m") == timedelta(minutes=15)
    assert parse_duration("-PT1H") == timedelta(hours=-1)
    for wrong in ("1D", "P", "PT", "P1H", "P1DT", ""):
        with pytest.raises(Refused):
            parse_duration(wrong)


def test_plans_of_a_file_are_of_one_group_or_name_theirs(tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    file.write_text("orders,0,5\norders,1,6\n")
    assert read_csv(str(file), ["g"]) == {"g": {TopicPartition("orders", 0): 5, TopicPartition("orders", 1): 6}}
    file.write_text("g,orders,0,5\nh,orders,0,7\n")
    assert read_csv(str(file), ["g", "h"])["h"] == {TopicPartition("orders", 0): 7}
    file.write_text("orders,zero,5\n")
    with pytest.raises(Refused, match="a line has a topic, a partition and an offset"):
        read_csv(str(file), ["g"])


def test_lines_are_headers_keys_and_values() -> None:
    reader = LineReader({"parse.key": "true", "parse.headers": "true", "null.marker": "N"})
    assert reader.parse("a:1,b:N\tkey\tvalue\twith tab") == Line(b"key", b"value\twith tab", [("a", b"1"), ("b", None)])
    assert reader.parse("N\tN\tN") == Line(None, None, [])
    with pytest.raises(BadLine, match="No key separator found on line number 3: 'a:1\tx'"):
        reader.parse("a:1\tx")
    lenient = LineReader({"parse.key": "true", "ignore.error": "true"})
    assert lenient.parse("only a value") == Line(None, b"only a value", [])


def record(**more: object) -> ConsumerRecord[bytes | None, bytes | None]:
    given: dict[str, object] = {
        "topic": "t", "partition": 2, "offset": 7, "timestamp": 5, "timestamp_type": TimestampType.CREATE_TIME,
        "key": b"k", "value": b"v",
    }  # fmt: skip
    return ConsumerRecord(**{**given, **more})  # type: ignore[arg-type]  # the fields of a record


def test_records_are_shown_with_what_is_asked_for() -> None:
    def show(settings: dict[str, str], **more: object) -> bytes:
        return formatter_of("org.apache.kafka.tools.consumer.DefaultMessageFormatter", settings).format(record(**more))

    everything = {f"print.{name}": "true" for name in ("timestamp", "partition", "offset", "headers", "key")}
    assert show({}) == b"v\n"
    assert show(everything, headers=(("a", b"1"), ("b", None))) == (
        b"CreateTime:5\tPartition:2\tOffset:7\ta:1,b:null\tk\tv\n"
    )
    assert show({"print.headers": "true"}) == b"NO_HEADERS\tv\n"
    assert show({"null.literal": "-"}, value=None) == b"-\n"
    serialization = "org.apache.kafka.common.serialization"
    assert show({"value.deserializer": f"{serialization}.LongDeserializer"}, value=bytes(8)) == b"0\n"
    with pytest.raises(ValueError, match="Size of data received by IntegerDeserializer is not 4"):
        show({"value.deserializer": f"{serialization}.IntegerDeserializer"})


def test_only_records_of_offsets_are_shown_of_the_groups_topic() -> None:
    formatter = formatter_of("org.apache.kafka.tools.consumer.OffsetsMessageFormatter", {})
    key = b"\0\1" + b"\0\1g" + b"\0\1t" + bytes(4)
    assert formatter.format(record(key=key, value=None)) == (
        b'{"key":{"type":1,"data":{"group":"g","topic":"t","partition":0}},"value":null}'
    )
    assert formatter.format(record(key=b"\0\2\0\1g", value=None)) == b"", "metadata of a group"
    assert formatter.format(record(key=None)) == b""
    with pytest.raises(ValueError, match="Could not read record at offset 7"):
        formatter.format(record(key=b"\0\1\0"))
