"""Column types: Spark's, and ksqlDB's names for them. Nothing here imports Spark."""

from __future__ import annotations

from ottla.pipelines.sql.tokens import quoted

SIMPLE = {
    "BOOLEAN": "BOOLEAN", "TINYINT": "TINYINT", "SMALLINT": "SMALLINT", "INT": "INT", "INTEGER": "INT",
    "BIGINT": "BIGINT", "FLOAT": "FLOAT", "REAL": "FLOAT", "DOUBLE": "DOUBLE", "STRING": "STRING", "VARCHAR": "STRING",
    "BYTES": "BINARY", "BINARY": "BINARY", "DATE": "DATE", "TIMESTAMP": "TIMESTAMP",
}  # fmt: skip
"""Types by their names in SQL, as Spark spells them. ksqlDB's VARCHAR is text of any length."""
DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
NESTED = ("ARRAY", "MAP", "STRUCT")
PRECISION_MAX = 38
NAMES = (*SIMPLE, "DECIMAL(p, s)", "ARRAY<t>", "MAP<STRING, t>", "STRUCT<name t, ...>")
KAFKA_SERDES = {"INT": "integer", "BIGINT": "long", "DOUBLE": "double", "STRING": "string", "BINARY": "bytes"}
"""The types that Kafka has serializers for, which is the format KAFKA."""


def ddl(columns: list[tuple[str, str]]) -> str:
    """Columns as Spark's schema text."""
    return ", ".join(f"{quoted(name)} {kind}" for name, kind in columns)
