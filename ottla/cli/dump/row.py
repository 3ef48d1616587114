"""One line of a dump: named values, shown as Kafka's tool shows them or as a JSON object.

Kafka prints nearly everything as `name: value` pairs, so a row is those pairs in their order, under Kafka's names;
the few lines that are sentences carry their text with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.cli.dump.java_text import Json, json_text

HEADING = "heading"
"""A line for people: in JSON every row names its file, and there are no headings."""
BATCH = "batch"
RECORD = "record"
ERROR = "error"
"""Something that could not be read. Kafka's tool ends with a stack trace instead."""

# Kafka prints these without a colon.
_BARE = {"SnapshotHeader", "SnapshotFooter", "KRaftVersion", "KRaftVoters"}
# And these as Java prints an `OptionalLong`.
_OPTIONAL = {"deleteHorizonMs", "currentTxnFirstOffset"}


class Row(NamedTuple):
    """`kind` says what the row is about; `text`, where given, is printed in place of the pairs."""

    kind: str
    fields: Mapping[str, Json]
    text: str | None = None


def error_row(reason: str) -> Row:
    return Row(ERROR, {"reason": reason}, reason)


def row_text(row: Row) -> str:
    """The line that Kafka's tool prints."""
    if row.text is not None:
        return row.text
    pairs = []
    for name, value in row.fields.items():
        kind = type(value)
        if kind is str or (kind is int and name not in _OPTIONAL):  # nearly always, and a log has millions of them
            pairs.append(f"{name}: {value}")
        else:
            pairs.append(_pair(name, value))
    line = " ".join(pairs)
    return f"| {line}" if row.kind == RECORD and pairs else line


def row_json(path: str, row: Row) -> str:
    """The row as one JSON object: its file, its kind, and its values under the names that the text has."""
    return json_text({"file": path, "type": row.kind, **row.fields})


def _pair(name: str, value: Json) -> str:
    if name in _OPTIONAL:
        return f"{name}: OptionalLong.empty" if value is None else f"{name}: OptionalLong[{value}]"
    if isinstance(value, bool):
        return f"{name}: {'true' if value else 'false'}"
    if isinstance(value, dict):
        return f"{name} {json_text(value)}" if name in _BARE else f"{name}: {json_text(value)}"
    if isinstance(value, list):
        return f"{name}: [{','.join(map(str, value))}]"
    raise AssertionError(f"{name} is of a type that no row has: {value!r}")
