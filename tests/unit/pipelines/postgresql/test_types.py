"""PostgreSQL's types as Spark's, and values as JSON."""

from __future__ import annotations

import json

import pytest

from ottla.pipelines.postgresql.messages import ProtocolError
from ottla.pipelines.postgresql.types import BY_NAME, PgType, Types, array_of
from tests.support.mutation import mutations, truncations

ARRAY = '{1,NULL,"a,b",{"q\\"\\\\",it\'s},"NULL",""}'


def modifier(precision: int, scale: int) -> int:
    return (precision << 16 | scale & 0x7FF) + 4


def test_numbers_keep_every_digit() -> None:
    types = Types({
        1700: PgType(1700, "numeric", "b", "N", 0, 0, -1),
        9: PgType(9, "price", "d", "N", 0, 1700, modifier(9, 2)),
        10: PgType(10, "dear", "d", "N", 0, 9, -1),
        1231: PgType(1231, "_numeric", "b", "A", 1700, 0, -1),
    })  # fmt: skip
    told = {
        (1700, -1): "STRING", (1700, modifier(38, 38)): "DECIMAL(38,38)", (1700, modifier(39, 0)): "STRING",
        (1700, modifier(5, -2)): "STRING", (1700, modifier(2, 5)): "STRING", (10, -1): "DECIMAL(9,2)",
        (1231, modifier(4, 1)): "ARRAY<DECIMAL(4,1)>",
    }  # fmt: skip
    assert {key: types.spark(*key).ddl for key in told} == told
    assert types.spark(1231, modifier(4, 1), 2).ddl == "ARRAY<ARRAY<DECIMAL(4,1)>>"
    assert types.spark(1231, modifier(4, 1)).convert("{1.0,NULL,NaN}") == '[1.0,null,"NaN"]'


def test_what_is_unknown_is_text_and_says_so() -> None:
    types = Types({
        600: PgType(600, "point", "b", "G", 701, 0, -1),
        3904: PgType(3904, "int4range", "r", "R", 0, 0, -1),
        7: PgType(7, "round", "d", "S", 0, 7, -1),
        8: PgType(8, "mood", "e", "E", 0, 0, -1),
    })  # fmt: skip
    for oid in (600, 3904, 7, 12345):
        found = types.spark(oid, -1)
        assert (found.ddl, found.is_known) == ("STRING", False)
    assert (types.spark(8, -1).ddl, types.spark(8, -1).is_known) == ("STRING", True)


@pytest.mark.parametrize(
    ("type_", "text", "expected"),
    [
        ("date", "2026-02-28", "2026-02-28"), ("date", "0044-03-15 BC", "-0043-03-15"),
        ("date", "0001-01-01 BC", "0000-01-01"), ("date", "12026-01-01", "+12026-01-01"),
        ("date", "infinity", "infinity"), ("timestamp", "2026-01-02 03:04:05.000006", "2026-01-02T03:04:05.000006"),
        ("timestamptz", "2026-01-02 03:04:05+00", "2026-01-02T03:04:05Z"),
        ("timestamptz", "1900-01-01 00:00:00+00:19:32", "1900-01-01T00:00:00+00:19:32"),
        ("timestamptz", "2026-01-02 03:04:05-03", "2026-01-02T03:04:05-03:00"),
        ("timestamptz", "-infinity", "-infinity"), ("float8", "Infinity", "Infinity"), ("float8", "1e-300", 1e-300),
        ("bool", "t", True), ("bool", "f", False), ("bytea", "\\x00ff", "AP8="), ("bytea", "\\x", ""),
        ("text", 'a\t"\\\x01\u2028', 'a\t"\\\x01\u2028'), ("int8", "-9223372036854775808", -(2**63)),
    ],
)  # fmt: skip
def test_values_become_json(type_: str, text: str, expected: object) -> None:
    made = BY_NAME[type_].convert(text)
    assert json.loads(made) == expected
    assert not {"\t", "\n"} & set(made), "which stand between the parts of the spool's lines"


def test_arrays_are_read_as_postgresql_writes_them() -> None:
    assert array_of(ARRAY) == ["1", None, "a,b", ['q"\\', "it's"], "NULL", ""]
    assert array_of("[0:1]={a,b}") == ["a", "b"]
    assert array_of("{}") == []


def test_a_damaged_array_is_read_or_refused() -> None:
    for cut in truncations(ARRAY.encode()):
        with pytest.raises(ProtocolError, match="an array is not written as one"):
            array_of(cut.decode())
    refused = 0
    for data in mutations(ARRAY.encode(), seed=3, rounds=3000):
        try:
            array_of(data.decode(errors="replace"))
        except ProtocolError:
            refused += 1
    assert 300 < refused < 3000
    with pytest.raises(ProtocolError):
        array_of("{" * 1000)
    for wrong in ("00", "\\x0", "\\xzz"):
        with pytest.raises(ProtocolError, match="a bytea is not in hex"):
            BY_NAME["bytea"].convert(wrong)
