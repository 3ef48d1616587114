"""Values and their texts: numbers as Java reads and writes them."""

from __future__ import annotations

import pytest

from ottla.config import LogConfig, Password
from ottla.config.values import boolean, double, integer, long, password, short, spell, string_list
from ottla.errors import InvalidConfig


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (False, "false"),
        (9_223_372_036_854_775_807, "9223372036854775807"),
        ("text", "text"),
        ((), ""),
        (("a", "b"), "a,b"),
        (0.5, "0.5"),
        (0.0, "0.0"),
        (0.001, "0.001"),
        (9.99e-4, "9.99E-4"),
        (9_999_999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (-12_345_678.9, "-1.23456789E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (1e23, "1.0E23"),
        (1.5e-10, "1.5E-10"),
        (123_456_780_000.0, "1.2345678E11"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (float("nan"), "NaN"),
        (Password("hush"), "[hidden]"),
    ],
)
def test_a_value_is_spelled_as_java_spells_it(value: object, text: str | None) -> None:
    assert spell(value) == text


def test_numbers_are_read_with_blanks_and_signs_and_within_their_width() -> None:
    assert (short("n", " 32767 "), integer("n", "+5"), long("n", "-9223372036854775808")) == (32767, 5, -(2**63))
    for parse, text in ((short, "32768"), (integer, "2147483648"), (long, "1e3"), (integer, "1_0"), (integer, "")):
        with pytest.raises(InvalidConfig, match="Not a number of type"):
            parse("n", text)


@pytest.mark.parametrize("value", [True, None, 1.5, [1]])
def test_a_number_is_not_any_object(value: object) -> None:
    with pytest.raises(InvalidConfig, match="Not a number of type INT"):
        integer("n", value)


@pytest.mark.parametrize(
    ("text", "value"),
    [(" 0.5 ", 0.5), ("1", 1.0), ("-.5e3", -500.0), ("2.d", 2.0), ("1E2f", 100.0), ("Infinity", float("inf"))],
)
def test_doubles_are_read_as_java_reads_them(text: str, value: float) -> None:
    assert double("n", text) == value


@pytest.mark.parametrize("text", ["", ".", "inf", "nan", "1_0", "1e", "1.2.3", "infinity"])
def test_what_java_does_not_read_as_a_double_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfig, match="Not a number of type DOUBLE"):
        double("n", text)


def test_other_types_refuse_what_they_cannot_read() -> None:
    with pytest.raises(InvalidConfig, match="Not a number of type DOUBLE"):
        double("n", "half")
    with pytest.raises(InvalidConfig, match="either true or false"):
        boolean("n", "1")
    with pytest.raises(InvalidConfig, match="comma separated list"):
        string_list("n", 5)
    with pytest.raises(InvalidConfig, match="to be a string"):
        password("n", 5)


def test_passwords_are_equal_by_what_they_hide() -> None:
    assert Password("a") == Password("a")
    assert Password("a") != Password("b")
    assert len({Password("a"), Password("a")}) == 1


def test_what_a_list_names_twice_counts_once() -> None:
    assert LogConfig().with_topic({"cleanup.policy": "delete, compact,delete"}).cleanup_policy == ("delete", "compact")


def test_a_list_has_no_empty_items() -> None:
    with pytest.raises(InvalidConfig, match="values must not be empty"):
        LogConfig().with_topic({"cleanup.policy": "delete,"})


@pytest.mark.parametrize("replicas", ["*", "", "0:1", "0:1, 12:3"])
def test_throttled_replicas_are_pairs_or_all(replicas: str) -> None:
    config = LogConfig().with_topic({"leader.replication.throttled.replicas": replicas})
    assert spell(config.leader_replication_throttled_replicas) == replicas.replace(" ", "")
