"""The columns of consumed records, with their types.

The seven that everyone knows come by default; `timestamp_type` and `leader_epoch` are there for who names them.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

HEADER_TYPE = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
HEADERS_TYPE = pa.list_(pa.field("header", HEADER_TYPE, nullable=False))
TOPIC_TYPE = pa.dictionary(pa.int32(), pa.string())
TIMESTAMP_TYPE_TYPE = pa.dictionary(pa.int8(), pa.string())
TIMESTAMP_TYPE = pa.timestamp("ms", tz="UTC")

FIELDS: dict[str, pa.Field] = {
    "topic": pa.field("topic", TOPIC_TYPE, nullable=False),
    "partition": pa.field("partition", pa.int32(), nullable=False),
    "offset": pa.field("offset", pa.int64(), nullable=False),
    "timestamp": pa.field("timestamp", TIMESTAMP_TYPE),
    "key": pa.field("key", pa.binary()),
    "value": pa.field("value", pa.binary()),
    "headers": pa.field("headers", HEADERS_TYPE, nullable=False),
    "timestamp_type": pa.field("timestamp_type", TIMESTAMP_TYPE_TYPE, nullable=False),
    "leader_epoch": pa.field("leader_epoch", pa.int32()),
}

COLUMNS: tuple[str, ...] = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
"""The columns that come unless others are asked for."""


def record_schema(
    columns: Sequence[str] | None = None, *, key: pa.DataType | None = None, value: pa.DataType | None = None
) -> pa.Schema:
    """The schema of records with these columns, in this order; `key` and `value` are types other than binary.

    `ValueError` for a column that records do not have, and for one that is named twice.
    """
    names = COLUMNS if columns is None else tuple(columns)
    types = {"key": key, "value": value}
    fields = []
    for name in names:
        field = FIELDS.get(name)
        if field is None:
            raise ValueError(f"records have no column {name!r}: there are {', '.join(FIELDS)}")
        if names.count(name) > 1:
            raise ValueError(f"column {name!r} is named twice")
        replacement = types.get(name)
        fields.append(field if replacement is None else field.with_type(replacement))
    return pa.schema(fields)
