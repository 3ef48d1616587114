"""Arrow in and out: record batches decoded straight into Arrow columns, and columns encoded into record batches.

`ArrowBuilder`, `to_record_batch` and `to_table` read; `ArrowRows` writes; `JsonValues` and `AvroValues` turn the bytes
of keys or values into typed columns. This is what `poll_arrow`, `topic.read` and `send_arrow` stand on. It needs
pyarrow (`pip install ottla[arrow]`), which is imported when one of these names is first used, and Avro needs fastavro.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.client.columnar.avro_values import AvroValues
    from ottla.client.columnar.json_values import JsonValues
    from ottla.client.columnar.reader import ArrowBuilder, to_record_batch, to_table
    from ottla.client.columnar.schema import COLUMNS, record_schema
    from ottla.client.columnar.values import BadValue, ValueDecoder
    from ottla.client.columnar.writer import ArrowRows, EncodedSection, by_topic

__all__ = [
    "ArrowBuilder",
    "to_record_batch",
    "to_table",
    "ArrowRows",
    "EncodedSection",
    "by_topic",
    "JsonValues",
    "AvroValues",
    "ValueDecoder",
    "BadValue",
    "COLUMNS",
    "record_schema",
]

_HOME = {
    "ArrowBuilder": "reader",
    "to_record_batch": "reader",
    "to_table": "reader",
    "ArrowRows": "writer",
    "EncodedSection": "writer",
    "by_topic": "writer",
    "JsonValues": "json_values",
    "AvroValues": "avro_values",
    "ValueDecoder": "values",
    "BadValue": "values",
    "COLUMNS": "schema",
    "record_schema": "schema",
}


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.{home}")
    except ModuleNotFoundError as error:
        if error.name not in ("pyarrow", "fastavro"):
            raise
        extra = "arrow" if error.name == "pyarrow" else "avro"
        raise ModuleNotFoundError(
            f"{name} needs {error.name}: pip install 'ottla[{extra}]'", name=error.name
        ) from error
    found = globals()[name] = getattr(module, name)
    return found
