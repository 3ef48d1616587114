"""How keys and values lie in a topic: Kafka's own serializers by name, and JSON with a schema.

A serde is a name and a Spark type; `compiler.codec` turns bytes into Columns and back. `bytes`, `string`, `integer`,
`long` and `double` are what Kafka's serializers of these names write: big-endian, eight bytes a long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ottla.pipelines.errors import PipelineError

PLAIN = {"bytes": "binary", "string": "string", "integer": "int", "long": "bigint", "double": "double"}


@dataclass(frozen=True, slots=True)
class Serde:
    """One form of bytes. `decode` and `encode` are functions of one Column, for forms that are not built in."""

    name: str
    type: str
    decode: Callable[[Any], Any] | None = None
    encode: Callable[[Any], Any] | None = None

    @classmethod
    def of(cls, given: str | Serde) -> Serde:
        """A serde, or the plain one of that name."""
        if isinstance(given, Serde):
            return given
        if given not in PLAIN:
            raise PipelineError(
                f"no serde is named {given!r}: there are {', '.join(PLAIN)}, json(schema) and Serde(...)"
            )
        return cls(given, PLAIN[given])


def json(schema: str) -> Serde:
    """JSON text that has this schema, as Spark writes one: `json("id BIGINT, name STRING")`."""
    return Serde("json", schema)
