"""Statements out of text: what is read of each, and what is said of those that are wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.pipelines.sql.errors import SyntaxProblem
from ottla.pipelines.sql.parser import CLAUSES, STARTS, is_complete, parse
from ottla.pipelines.sql.statements import (
    BatchSelect,
    Change,
    ColumnDef,
    CreateAs,
    CreateSource,
    Describe,
    Drop,
    Explain,
    Expr,
    InsertSelect,
    InsertValues,
    Print,
    PushSelect,
    Query,
    RunScript,
    SetProperty,
    Show,
    Statement,
    Window,
    Within,
)
from ottla.pipelines.sql.tokens import render, tokenize


def one(text: str) -> Statement:
    (statement,) = parse(text)
    return statement


def query(text: str) -> Query:
    statement = one(text)
    assert isinstance(statement, PushSelect | CreateAs | InsertSelect)
    assert statement.query is not None
    return statement.query


def texts(*exprs: Expr | None) -> list[str | None]:
    return [None if expr is None else expr.text for expr in exprs]


def test_a_script_is_split_at_semicolons_that_are_none_of_a_string_a_name_or_a_comment() -> None:
    text = """
    -- a comment; with a semicolon
    SET 'auto.offset.reset' = 'it''s; \\' here';
    ;; /* one /* in; another */ ; */
    DESCRIBE `a;b``c`
    """
    first, second = parse(text)
    assert first == SetProperty("SET 'auto.offset.reset' = 'it''s; \\' here'", 3, "auto.offset.reset", "it's; ' here")
    assert second == Describe("DESCRIBE `a;b``c`", 5, "a;b`c")


def test_a_create_has_columns_of_spark_types_and_properties() -> None:
    made = one(
        "create stream if not exists Orders (id bigint key, tags array<struct<a varchar, b: map<string, array<int>>>>, "
        "price decimal(10, 2), raw bytes) with (Kafka_Topic = 'orders', value_format='json', partitions=3)"
    )
    assert isinstance(made, CreateSource)
    assert (made.kind, made.name, made.if_not_exists) == ("STREAM", "Orders", True)
    assert made.columns == (
        ColumnDef("id", "BIGINT", True),
        ColumnDef("tags", "ARRAY<STRUCT<`a`: STRING, `b`: MAP<STRING, ARRAY<INT>>>>"),
        ColumnDef("price", "DECIMAL(10, 2)"),
        ColumnDef("raw", "BINARY"),
    )
    assert made.properties == {"KAFKA_TOPIC": "orders", "VALUE_FORMAT": "json", "PARTITIONS": "3"}
    table = one("CREATE TABLE t (k STRING PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON')")
    assert isinstance(table, CreateSource)
    assert table.columns[0] == ColumnDef("k", "STRING", True)


def test_a_query_is_taken_apart_at_its_clauses_and_its_expressions_stay() -> None:
    found = query(
        "CREATE TABLE t WITH (PARTITIONS = 2) AS SELECT o.customer, left(name, 2) AS short, count(*) n, o.* "
        "FROM orders AS o WINDOW HOPPING (SIZE 1 HOUR, ADVANCE BY 10 MINUTES, GRACE PERIOD 5 SECONDS) "
        "WHERE a IS DISTINCT FROM b AND (SELECT.x = 1 OR o.left > 2) GROUP BY customer, left(name, 2) "
        "HAVING count(*) > CASE WHEN x THEN 1 ELSE 2 END EMIT FINAL"
    )
    assert texts(*(item.expr for item in found.items)) == ["o.customer", "left(name, 2)", "count(*)", None]
    assert [item.alias for item in found.items] == [None, "short", "n", None]
    assert found.items[3].star_of == "o"
    assert (found.source.name, found.source.alias) == ("orders", "o")
    assert found.window == Window("HOPPING", 3_600_000, 600_000, 5_000)
    assert texts(found.where, *found.group_by, found.having) == [
        "a IS DISTINCT FROM b AND (SELECT.x = 1 OR o.left > 2)",
        "customer",
        "left(name, 2)",
        "count(*) > CASE WHEN x THEN 1 ELSE 2 END",
    ]
    assert found.is_final


@pytest.mark.parametrize(
    ("text", "kind", "within"),
    [
        ("JOIN b", "inner", None),
        ("INNER JOIN b WITHIN 1 HOUR", "inner", Within(3_600_000, 3_600_000)),
        ("LEFT OUTER JOIN b WITHIN (1 MINUTE, 2 MINUTES) GRACE PERIOD 0 SECONDS", "left", Within(60_000, 120_000, 0)),
        ("FULL JOIN b WITHIN 2 DAYS GRACE PERIOD 3 MILLISECONDS", "outer", Within(172_800_000, 172_800_000, 3)),
    ],
)
def test_joins_of_two(text: str, kind: str, within: Within | None) -> None:
    found = query(f"SELECT * FROM a {text} ON a.id = b.id WHERE a.x > 1 EMIT CHANGES LIMIT 3")
    assert found.join is not None
    assert (found.join.kind, found.join.within, found.join.on.text) == (kind, within, "a.id = b.id")
    assert (found.limit, texts(found.where)) == (3, ["a.x > 1"])


@pytest.mark.parametrize(
    ("text", "aliases"),
    [
        ("a b", ["b"]),
        ("a AS `b c`", ["b c"]),
        ("a IS NOT NULL", [None]),
        ("CASE WHEN a THEN b END", [None]),
        ("CASE WHEN a THEN b END c", ["c"]),
        ("now() + INTERVAL 1 DAY", [None]),
        ("cast(a AS INT)", [None]),
        ("cast(a AS INT) b", ["b"]),
        ("'x' b, 5 c", ["b", "c"]),
    ],
)
def test_an_alias_may_go_without_as(text: str, aliases: list[str | None]) -> None:
    assert [item.alias for item in query(f"SELECT {text} FROM s EMIT CHANGES").items] == aliases


def test_a_select_without_emit_is_sparks() -> None:
    text = "WITH t AS (SELECT a FROM b) SELECT a, row_number() OVER (ORDER BY a) FROM t CROSS JOIN c ORDER BY 1"
    found = one(text)
    assert isinstance(found, BatchSelect)
    assert {"b", "c", "t"} <= set(found.names)
    assert found.text == text


def test_the_other_statements() -> None:
    assert [
        type(statement) for statement in parse("SHOW STREAMS; LIST TOPICS; DESCRIBE a EXTENDED; EXPLAIN Q_1; PAUSE ALL")
    ] == [Show, Show, Describe, Explain, Change]
    assert one("DROP TABLE IF EXISTS t DELETE TOPIC") == Drop(
        "DROP TABLE IF EXISTS t DELETE TOPIC", 1, "TABLE", "t", True, True
    )
    assert one("TERMINATE CSAS_A_1") == Change("TERMINATE CSAS_A_1", 1, "TERMINATE", "CSAS_A_1")
    assert one("PRINT 'a-b' FROM BEGINNING LIMIT 3") == Print("PRINT 'a-b' FROM BEGINNING LIMIT 3", 1, "a-b", True, 3)
    assert one("RUN SCRIPT 'x.sql'") == RunScript("RUN SCRIPT 'x.sql'", 1, "x.sql")
    assert one("UNSET 'a'") == SetProperty("UNSET 'a'", 1, "a", None)
    values = one("INSERT INTO s (a, b) VALUES (1, 'x''y'), (2 + 3, upper('z'))")
    assert isinstance(values, InsertValues)
    assert [texts(*row) for row in values.rows] == [["1", "'x''y'"], ["2 + 3", "upper('z')"]]
    explained = one("EXPLAIN SELECT * FROM a EMIT CHANGES")
    assert isinstance(explained, Explain)
    assert isinstance(explained.statement, PushSelect)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELEC 1", "line 1, column 1: no statement begins with SELEC: is SELECT meant?"),
        ("SHOW\n  STREEMS", "line 2, column 3: STREAMS or TABLES or TOPICS or QUERIES or PROPERTIES belongs behind"),
        ("CREATE STREAM s (a INTEGR) WITH (KAFKA_TOPIC='t')", "column 20: INTEGR is no type: is INTEGER meant?"),
        ("CREATE TABLE t (a INT) WITH (KAFKA_TOPIC='t')", "a table has to have a PRIMARY KEY column"),
        ("CREATE STREAM s (a INT PRIMARY KEY)", "a stream has KEY columns, a table has PRIMARY KEY columns"),
        ("CREATE STREAM s (a INT, A STRING) WITH (X='t')", "column 25: there are two columns A"),
        ("CREATE STREAM s (a INT)", "needs WITH (KAFKA_TOPIC = '...', VALUE_FORMAT = '...'), or AS SELECT"),
        ("CREATE STREAM s WITH (KAFKA_TOPIC=orders)", "the value of KAFKA_TOPIC stands in quotes"),
        ("SELECT * FROM s EMIT", "CHANGES or FINAL belongs behind EMIT, and the statement ends"),
        ("SELECT FROM s EMIT CHANGES", "column 8: an expression belongs behind SELECT, not FROM"),
        ("SELECT a FROM s ORDER BY a EMIT CHANGES", "ORDER BY needs an end, which a continuous query has not"),
        ("SELECT DISTINCT a FROM s EMIT CHANGES", "GROUP BY the columns"),
        ("SELECT a FROM (SELECT 1) EMIT CHANGES", "reads streams and tables by their names"),
        ("SELECT a FROM s, t EMIT CHANGES", "joins with JOIN ... ON, not with a comma"),
        ("SELECT a FROM s RIGHT JOIN t ON a = b EMIT CHANGES", "RIGHT JOIN is not supported"),
        ("SELECT a FROM s JOIN t ON a = b JOIN u ON c = d EMIT CHANGES", "a continuous query joins two"),
        ("CREATE STREAM x AS SELECT upper(a FROM s", "column 32: ( has no end"),
        ("SELECT a FROM s WINDOW TUMBLING (SIZE 1 FORTNIGHT) GROUP BY a EMIT CHANGES", "FORTNIGHT is no unit of time"),
        ("SELECT a FROM s WINDOW HOPPING (SIZE 1 HOUR) GROUP BY a EMIT CHANGES", "hopping windows need ADVANCE BY"),
        ("SELECT a FROM s WINDOW HOPPING (SIZE 1 HOUR, ADVANCE BY 2 HOURS) GROUP BY a EMIT CHANGES", "leave gaps"),
        ("SELECT a FROM s GROUP BY a WHERE b EMIT CHANGES", "WHERE does not belong here: the order is FROM, JOIN"),
        ("CREATE STREAM x AS SELECT a FROM s LIMIT 3", "a query that is kept has no end"),
        ("INSERT INTO s (a, b) VALUES (1)", "the row has 1 values for 2 columns"),
        ("PRINT 't' LIMIT many", "how many rows belongs behind LIMIT, a whole number, not many"),
        ("SHOW STREAMS SHOW TABLES", "the statement ends before SHOW: a semicolon ends it"),
        ("SET 'a' = 'b", "line 1, column 11: the string has no end: ' ends it"),
        ("SHOW /* TOPICS", "column 6: the comment that begins here has no end"),
        ("SHOW \x01", "has no meaning in SQL here"),
        ("CREATE STREAM a (x " + "ARRAY<" * 200 + "INT" + ">" * 200 + ")", "nested more than"),
    ],
)
def test_what_is_wrong_is_told_with_its_place_and_what_would_be_right(text: str, said: str) -> None:
    with pytest.raises(SyntaxProblem) as caught:
        parse(text)
    assert said in str(caught.value)


def test_a_prompt_waits_for_the_semicolon_outside_of_strings_and_comments() -> None:
    assert is_complete("SHOW TOPICS;")
    assert is_complete("")
    assert is_complete("SHOW TOPICS; -- done")
    assert is_complete("SHOW \x01"), "what is wrong is told at once"
    for text in ("SHOW TOPICS", "PRINT 'a;", "SHOW /* ;", "SHOW TOPICS; SHOW", "DESCRIBE `a;"):
        assert not is_complete(text), text


WORDS = st.sampled_from([
    *STARTS, *CLAUSES, "BY", "AS", "STREAM", "TABLE", "WITH", "VALUES", "INTO", "CHANGES", "FINAL", "TUMBLING", "SIZE",
    "SESSION", "HOUR", "GRACE", "PERIOD", "KEY", "PRIMARY", "INT", "STRUCT", "MAP", "ARRAY", "TOPICS", "IF", "NOT",
    "EXISTS", "CASE", "END", "a", "b", "count", "*", "(", ")", ",", ";", "<", ">", ">>", "=", ".", "'x'", "`y`", "1",
    "2.5", "->", "--", "/*", "*/", "'", '"', "\n", "EXPLAIN", "ALL", "RUN", "SCRIPT", "\x00", "é", "r'\\'",
])  # fmt: skip


@given(st.lists(WORDS, max_size=25).map(" ".join) | st.text(max_size=60) | st.lists(WORDS, max_size=15).map("".join))
def test_any_text_is_statements_or_an_error_that_names_a_place_in_it(text: str) -> None:
    lines, statements = text.split("\n"), []
    try:
        statements = parse(text)
    except SyntaxProblem as problem:
        place = (problem.line, problem.column)
    else:
        place = (1, 1)
    assert 1 <= place[0] <= len(lines)
    assert 1 <= place[1] <= len(lines[place[0] - 1]) + 1
    for statement in statements:
        assert statement.text in text
        (again,) = parse(statement.text)
        assert type(again) is type(statement), "what is kept of it means the same"


@given(st.lists(WORDS, max_size=15).map(" ".join) | st.text(max_size=40))
def test_what_is_rendered_has_the_same_tokens(text: str) -> None:
    try:
        tokens = tokenize(text)
    except SyntaxProblem:
        return
    assert [(one.kind, one.text) for one in tokenize(render(tokens))] == [(one.kind, one.text) for one in tokens]
