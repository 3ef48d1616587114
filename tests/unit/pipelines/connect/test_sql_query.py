"""Which tables a query reads, and where a column more can stand in it."""

from __future__ import annotations

import pytest

from ottla.pipelines.connect.sql_query import read


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT id, upper(name) AS name FROM records WHERE id > 1", ["records"]),
        ("select * from orders o join `customers` as c on o.customer = c.id, extra", ["orders", "customers", "extra"]),
        ("SELECT 'FROM a' AS x, \"FROM b\" AS y -- FROM c\n FROM d /* FROM e */", ["d"]),
        ("SELECT extract(YEAR FROM at), trim(BOTH ' ' FROM x) FROM orders", ["orders"]),
        ("SELECT a IS DISTINCT FROM b AS changed FROM orders", ["orders"]),
        ("WITH big AS (SELECT * FROM orders WHERE amount > 1), x AS (SELECT 1) SELECT * FROM big, x", ["orders"]),
        ("SELECT * FROM (SELECT * FROM orders) o LEFT SEMI JOIN known ON o.id = known.id", ["orders", "known"]),
        ("SELECT id FROM orders WHERE id IN (SELECT id FROM blocked)", ["orders", "blocked"]),
        ("SELECT x FROM orders LATERAL VIEW explode(items) t AS x", ["orders"]),
        ("SELECT * FROM catalog.db.t JOIN range(5) JOIN orders", ["orders"]),
        ("SELECT * FROM (orders JOIN customers USING (id))", ["orders", "customers"]),
        ("SELECT id FROM orders UNION ALL SELECT id FROM refunds", ["orders", "refunds"]),
        ("SELECT 1", []),
    ],
)
def test_the_tables_of_a_query_are_found(text: str, names: list[str]) -> None:
    assert read(text).names == names


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT id FROM records WHERE id > 1", "SELECT id , records.m AS o FROM records WHERE id > 1"),
        ("SELECT c.*, x FROM names c JOIN records AS r ON true",
         "SELECT c.*, x , r.m AS o FROM names c JOIN records AS r ON true"),
        ("SELECT id -- the key\nFROM `records`", "SELECT id -- the key\n, `records`.m AS o FROM `records`"),
        ("SELECT (SELECT max(id) FROM names) AS x FROM records",
         "SELECT (SELECT max(id) FROM names) AS x , records.m AS o FROM records"),
        ("WITH x AS (SELECT id FROM records) SELECT id FROM x", None),
        ("SELECT id FROM (SELECT id FROM records)", None),
        ("SELECT id FROM records UNION ALL SELECT id FROM records", None),
        ("SELECT id FROM names", None),
    ],
)  # fmt: skip
def test_a_column_more_stands_before_the_outermost_from(text: str, wanted: str | None) -> None:
    assert read(text).with_column("m", "o", ["records"]) == wanted


def test_what_is_no_query_is_read_to_its_end() -> None:
    for text in ("", "SELECT", "FROM", "SELECT * FROM", "((((", "))))", "WITH", "SELECT 'open FROM x", "`"):
        query = read(text)
        assert query.with_column("m", "o", ["records"]) is None, text
