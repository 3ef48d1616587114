"""The compiled module and its twins in plain Python, each behind the same names, for tests that ask both."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.records import append, columns, consumed, memory, murmur

PLAIN: Any = SimpleNamespace(
    append_record=append.append_record,
    murmur2=murmur.murmur2,
    partition_of=murmur.partition_of,
    decode_records=consumed.decode_records,
    with_content=consumed.with_content,
    ColumnBuilder=columns.ColumnBuilder,
    RowEncoder=columns.RowEncoder,
    group_rows=columns.group_rows,
    take_memory=memory.take_memory,
)


def native() -> Any:
    """The compiled module; skips the test where nobody built it."""
    if importlib.util.find_spec("ottla.records.native") is None:
        pytest.skip("csrc is not compiled here; `make test` does it where there is a C compiler")
    from ottla.records import native

    return native


def named(name: str) -> Any:
    return native() if name == "native" else PLAIN
