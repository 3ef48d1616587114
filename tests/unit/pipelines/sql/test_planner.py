"""Continuous queries as plans: the steps as text, and what is refused, without Spark."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ottla.pipelines.sql.catalog import Column, Contents, Source
from ottla.pipelines.sql.errors import SqlError
from ottla.pipelines.sql.parser import parse
from ottla.pipelines.sql.plan import Plan
from ottla.pipelines.sql.planner import plan
from ottla.pipelines.sql.statements import PushSelect
from ottla.pipelines.streams.planning import plan as queries_of


def source(kind: str, name: str, columns: str, **more: object) -> Source:
    """`id BIGINT KEY, name STRING` as a stream or table of JSON."""
    made = []
    for column in columns.split(", "):
        word, type_, *key = column.split(" ")
        made.append(Column(word, type_, bool(key)))
    formats: dict[str, object] = {"key_format": "KAFKA", "value_format": "JSON", **more}
    return Source(kind, name, name, tuple(made), **formats)  # type: ignore[arg-type]


CONTENTS = Contents(
    "0a1b2c3d",
    sources={
        one.name: one
        for one in (
            source("STREAM", "orders", "id BIGINT KEY, customer STRING, amount DOUBLE, at BIGINT"),
            source("STREAM", "payments", "id BIGINT KEY, paid DOUBLE", value_format="KAFKA"),
            source("STREAM", "timed", "id INT KEY, at STRING", timestamp="at", timestamp_format="yyyy-MM-dd'T'HH:mm"),
            source("STREAM", "pairs", "a INT KEY, b STRING KEY, c INT", key_format="JSON"),
            source("STREAM", "logs", "line STRING", key_format="NONE"),
            source("TABLE", "customers", "name STRING KEY, city STRING"),
            source("TABLE", "accounts", "no INT KEY, owner STRING, sum INT"),
            source("TABLE", "hourly", "customer STRING KEY, n BIGINT", window="TIME", window_size_ms=1000),
        )
    },
)


def planned(text: str) -> Plan:
    (statement,) = parse(f"{text} EMIT CHANGES" if "EMIT" not in text else text)
    assert isinstance(statement, PushSelect)
    assert statement.query is not None
    return plan(statement.query, CONTENTS)


def lines(text: str) -> list[str]:
    """The plan's lines, but for those of what is read."""
    made = planned(text)
    made.show("app")
    return [" ".join(line.split()) for line in made.lines if not line.startswith("read")]


def columns(text: str) -> list[tuple[str, str, bool]]:
    return [(one.name, one.ref, one.is_key) for one in planned(text).outputs]


def test_a_filter_and_a_projection() -> None:
    text = "SELECT id, upper(o.customer) AS who, ROWTIME AS t FROM orders o WHERE amount > 10 AND customer <> 'amount'"
    assert lines(text) == [
        "filter value.`amount` > 10 AND value.`customer` <> 'amount'",
        "select named_struct('id', key, 'who', upper(value.`customer`), 't', timestamp)",
    ]
    made = planned(text)
    assert (made.kind, made.missing_key, [one.name for one in made.keys]) == ("STREAM", None, ["id"])
    assert made.analysis == (
        "SELECT id AS `c0`, upper(o.customer) AS `c1`, ROWTIME AS `c2` FROM `orders` AS `o` "
        "WHERE amount > 10 AND customer <> 'amount'"
    )


def test_a_word_is_a_column_where_one_can_stand() -> None:
    """Columns are named `at` and `id`; types, functions, units, lambda arguments and fields are not columns."""
    text = (
        "SELECT id, cast(at AS struct<at: int>).at AS a, transform(array(1), at -> at + id) AS b, "
        "date '2020-01-01' AS c, extract(day FROM timestamp_millis(at)) AS d, "
        "id(at) AS e, named_struct('at', `at`).at AS f FROM orders"
    )
    assert [ref for _, ref, _ in columns(text)] == [
        "key",
        "cast(value.`at` AS struct<at: int>).at",
        "transform(array(1), at -> at + key)",
        "date '2020-01-01'",
        "extract(day FROM timestamp_millis(value.`at`))",
        "id(value.`at`)",
        "named_struct('at', value.`at`).at",
    ]


def test_keys_of_several_columns_without_columns_and_with_times() -> None:
    assert columns("SELECT * FROM pairs") == [
        ("a", "key.`a`", True),
        ("b", "key.`b`", True),
        ("c", "value.`c`", False),
    ]
    assert columns("SELECT * FROM logs") == [("line", "value.`line`", False)]
    assert columns("SELECT * FROM payments") == [("id", "key", True), ("paid", "value", False)]
    assert columns("SELECT customer, WINDOWSTART, WINDOWEND, n FROM hourly") == [
        ("customer", "key.key", True),
        ("WINDOWSTART", "key.start", False),
        ("WINDOWEND", "key.end", False),
        ("n", "value.`n`", False),
    ]
    topology = planned("SELECT * FROM timed").show("app")
    (query,) = queries_of(topology)
    (read,) = query.sources
    assert read.timestamp.expression == "to_timestamp(value.`at`, 'yyyy-MM-dd\\'T\\'HH:mm')"


def test_partition_by_gives_another_key() -> None:
    made = planned("SELECT customer AS who, amount FROM orders PARTITION BY customer")
    assert made.key_text == "value.`customer`"
    assert [(one.name, one.is_key) for one in made.outputs] == [("who", True), ("amount", False)]
    made = planned("SELECT customer, id, amount FROM orders PARTITION BY customer, id")
    assert made.key_text == "named_struct('customer', value.`customer`, 'id', key)"


def test_streams_begin_where_they_are_told_and_tables_at_their_beginning() -> None:
    (statement,) = parse("SELECT o.customer, c.city FROM orders o JOIN customers c ON o.customer = c.name EMIT CHANGES")
    assert isinstance(statement, PushSelect)
    assert statement.query is not None
    topology = plan(statement.query, CONTENTS, reset="latest").show("app")
    (query,) = queries_of(topology)
    assert {one.topics: one.reset for one in query.sources} == {("orders",): "latest", ("customers",): None}


def test_groups_and_windows() -> None:
    text = (
        "SELECT customer, count(*) AS n, sum(amount) / count(amount) AS mean, WINDOWSTART AS began FROM orders "
        "WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 0 SECONDS) WHERE amount > 0 GROUP BY customer "
        "HAVING n > 1 EMIT FINAL"
    )
    assert lines(text) == [
        "filter value.`amount` > 0",
        "group value.`customer`, values named_struct('a1', value.`amount`, "
        "'a2', CASE WHEN (value.`amount`) IS NULL THEN 0L ELSE 1L END)",
        "window TimeWindows(size_ms=3600000, advance_ms=3600000, grace_ms=0), rows when it closes",
        "aggregate f0 = COUNT(*), f1 = SUM(value.`amount`), f2 = COUNT(value.`amount`)",
        "having ( value.f0) > 1",
        "select named_struct('customer', key.key, 'n', value.f0, 'mean', value.f1 / value.f2, 'began', key.start)",
    ]
    made = planned(text)
    assert (made.kind, made.windows) == ("TABLE", ("TIME", 3_600_000))
    assert made.analysis.endswith("GROUP BY customer, WINDOWSTART, WINDOWEND HAVING ( count(*)) > 1")
    grace = "grace_ms=86400000"
    assert grace in lines("SELECT id, count(*) AS n FROM orders WINDOW SESSION (5 MINUTES) GROUP BY id")[1]


def test_a_grouped_expression_is_found_where_it_stands_alone() -> None:
    """`a + b` within `a + b * 2` is not the grouped expression: what is left has columns that are not grouped."""
    text = "SELECT id % 2 AS odd, (id % 2) * 10 AS tens, upper(customer) AS who, max(at) AS m FROM orders"
    made = columns(f"{text} GROUP BY id % 2, upper(customer)")
    assert made == [
        ("odd", "key.`odd`", True),
        ("tens", "(key.`odd`) * 10", False),
        ("who", "key.`who`", True),
        ("m", "value.f0", False),
    ]
    with pytest.raises(SqlError, match="id is neither grouped nor aggregated"):
        planned("SELECT 1 + id % 2 * 3 AS x, count(*) AS n FROM orders GROUP BY 1 + id % 2")


def test_a_key_that_is_grouped_by_moves_nothing() -> None:
    assert (
        lines("SELECT id, count(*) AS n FROM orders GROUP BY id")[0]
        == "group by key, values named_struct('there', true)"
    )


def test_tables_are_grouped_by_what_their_rows_are_now() -> None:
    made = planned("SELECT city, count(*) AS n FROM customers GROUP BY city").show("app")
    assert [type(query.work).__name__ for query in queries_of(made)] == ["Regroup", "Aggregate"]
    with pytest.raises(SqlError, match=r"MAX of a table is not supported.*COUNT, SUM and AVG are"):
        planned("SELECT city, max(name) AS n FROM customers GROUP BY city")


def test_joins_keep_what_is_looked_at() -> None:
    text = (
        "SELECT o.id AS id, o.customer, p.paid, p.ROWTIME AS t FROM orders o JOIN payments p "
        "WITHIN (1 MINUTE, 2 MINUTES) GRACE PERIOD 1 SECOND ON p.id = o.id WHERE o.amount > p.paid"
    )
    assert lines(text) == [
        "value named_struct('id', key, 'customer', value.`customer`, 'amount', value.`amount`)",
        "value named_struct('paid', value, 'ROWTIME', timestamp)",
        "join inner, 60000 ms before to 120000 ms after, grace 1000 ms",
        "filter value.l.`amount` > value.r.`paid`",
        "select named_struct('id', key, 'customer', value.l.`customer`, 'paid', value.r.`paid`, "
        "'t', value.r.`ROWTIME`)",
    ]
    assert planned(text).copartitioned == ("orders", "payments")
    text = "SELECT o.customer, c.city, o.amount FROM orders o LEFT JOIN customers c ON o.customer = c.name"
    assert lines(text)[0] == (
        "value named_struct('customer', value.`customer`, 'amount', value.`amount`), key value.`customer`"
    )
    made = planned(text)
    assert (made.kind, made.copartitioned, [one.name for one in made.keys]) == ("STREAM", (), ["customer"])
    outer = "SELECT ROWKEY AS id, o.amount, p.paid FROM orders o FULL JOIN payments p WITHIN 1 HOUR GRACE PERIOD 0 DAYS"
    assert columns(f"{outer} ON o.id = p.id")[0] == ("id", "key", True)
    assert "coalesce(o.id, p.id) AS `c0`" in planned(f"{outer} ON o.id = p.id").analysis


def test_a_foreign_key_is_looked_for_in_what_is_kept_of_the_left_row() -> None:
    made = planned("SELECT a.no, a.sum, c.city FROM accounts a LEFT JOIN customers c ON lower(a.owner) = c.name")
    assert [" ".join(line.split()) for line in made.lines if not line.startswith("read")] == [
        "value named_struct('no', key, 'sum', value.`sum`, 'owner', value.`owner`)",
        "value named_struct('city', value.`city`)",
        "join left, foreign key lower(value.`owner`)",
    ]
    assert (made.kind, [one.name for one in made.keys]) == ("TABLE", ["no"])


def test_a_join_can_be_grouped() -> None:
    text = "SELECT c.city, count(*) AS n FROM orders o JOIN customers c ON o.customer = c.name GROUP BY c.city"
    assert [type(one.work).__name__ for one in queries_of(planned(text).show("app"))] == [
        "StreamTableJoin",
        "Aggregate",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT id FROM ordres", "line 1, column 16: there is no stream or table ordres: is orders meant?"),
        ("SELECT o.amont FROM orders o", "column 10: o has no column amont: is amount meant?"),
        ("SELECT `amont` FROM orders", "column 8: orders has no column amont: is amount meant?"),
        ("SELECT id, count(*) AS n FROM orders", "count(*) is of groups: say which with GROUP BY"),
        ("SELECT id FROM orders GROUP BY id", "GROUP BY needs an aggregate"),
        ("SELECT id, amount, count(*) AS n FROM orders GROUP BY id", "amount is neither grouped nor aggregated"),
        ("SELECT id, collect_list(at) AS n FROM orders GROUP BY id", "COLLECT_LIST is not supported"),
        ("SELECT id, count(DISTINCT at) AS n FROM orders GROUP BY id", "COUNT(DISTINCT ...) is not supported"),
        ("SELECT id, sum(max(at)) AS n FROM orders GROUP BY id", "an aggregate of an aggregate is not supported"),
        ("SELECT id, count(*) FILTER (WHERE at > 1) AS n FROM orders GROUP BY id", "FILTER is not supported"),
        ("SELECT count(*) AS n FROM orders GROUP BY 1", "GROUP BY takes columns and expressions, not 1"),
        ("SELECT id FROM orders HAVING id > 1", "HAVING needs GROUP BY"),
        ("SELECT id FROM orders WINDOW SESSION (1 HOUR)", "WINDOW needs GROUP BY"),
        ("SELECT id, count(*) AS n FROM orders GROUP BY id EMIT FINAL", "EMIT FINAL is for windows"),
        (
            "SELECT id, count(*) AS n FROM orders WINDOW SESSION (1 HOUR) GROUP BY id EMIT FINAL",
            "EMIT FINAL needs GRACE PERIOD",
        ),
        (
            "SELECT id, count(*) AS n FROM orders WINDOW SESSION (1 HOUR) WHERE WINDOWSTART > 1 GROUP BY id",
            "WINDOWSTART is known once records are grouped: use HAVING",
        ),
        ("SELECT name, count(*) AS n FROM customers WINDOW SESSION (1 HOUR) GROUP BY name", "rows have no windows"),
        ("SELECT customer, count(*) AS n FROM hourly GROUP BY customer", "hourly is windowed, and is not grouped"),
        ("SELECT city FROM customers PARTITION BY city", "PARTITION BY is for streams"),
        ("SELECT (SELECT 1) AS x FROM orders", "a SELECT within an expression is not supported"),
        ("SELECT explode(array(id)) AS x FROM orders", "column 8: EXPLODE is not supported in a continuous query"),
        ("SELECT sum(id) OVER (ORDER BY id) AS x FROM orders", "is of groups"),
        ("SELECT rank() OVER (ORDER BY id) AS x FROM orders", "OVER (...) is not supported in a continuous query"),
        ("SELECT * FROM orders o JOIN payments p ON o.id = p.id", "two streams join within a time"),
        ("SELECT * FROM orders o LEFT JOIN payments p WITHIN 1 HOUR ON o.id = p.id", "need GRACE PERIOD"),
        ("SELECT * FROM orders o JOIN customers c WITHIN 1 HOUR ON o.customer = c.name", "WITHIN is for two streams"),
        ("SELECT * FROM customers c JOIN orders o ON o.customer = c.name", "FROM orders JOIN customers"),
        ("SELECT * FROM orders o JOIN customers c ON o.customer = c.city", "customers is joined on its PRIMARY KEY"),
        ("SELECT * FROM orders JOIN payments WITHIN 1 HOUR ON id = id", "id is in both: orders.id or payments.id"),
        ("SELECT * FROM orders o JOIN payments p WITHIN 1 HOUR ON o.id = o.at", "ON compares o with itself"),
        ("SELECT * FROM orders o JOIN payments p WITHIN 1 HOUR ON o.id = 5", "each side of ON is of one of the two"),
        ("SELECT * FROM orders o JOIN payments p WITHIN 1 HOUR ON o.id > p.id", "ON takes one equality"),
        ("SELECT * FROM orders o JOIN orders o WITHIN 1 HOUR ON o.id = o.id", "both are called o"),
        ("SELECT * FROM accounts a FULL JOIN customers c ON a.owner = c.name", "use LEFT JOIN"),
        ("SELECT x.* FROM orders o", "x.* is of nothing that the query reads"),
    ],
)
def test_what_is_not_supported_says_what_is(text: str, said: str) -> None:
    with pytest.raises(SqlError) as caught:
        planned(text).show("app")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT id, upper(customer) FROM orders", "column 12: give the column a name: upper(customer) AS ..."),
        ("SELECT id, at, amount AS At FROM orders", "there are two columns At"),
        ("SELECT customer FROM orders", "the result has orders.id as its key: SELECT it as well"),
        ("SELECT id FROM orders", "the result has a key and no value"),
        ("SELECT count(*) AS n FROM orders GROUP BY customer", "the result has orders.customer as its key"),
    ],
)
def test_what_can_be_shown_and_not_kept(text: str, said: str) -> None:
    made = planned(text)
    with pytest.raises(SqlError) as caught:
        made.check_names()
    assert said in str(caught.value)
    made.show("app")


def test_nothing_of_spark_is_loaded_to_plan() -> None:
    """Nor of Arrow or the client: plans are what EXPLAIN answers at once."""
    program = (
        "import sys; sys.path.insert(0, '.')\n"
        "from tests.unit.pipelines.sql.test_planner import planned\n"
        "planned('SELECT id, count(*) AS n FROM orders GROUP BY id').show('app').describe()\n"
        "print(sorted({'pyspark', 'pyarrow', 'pandas', 'ottla.client', 'asyncio'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
