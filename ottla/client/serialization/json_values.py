"""JSON without a schema: whatever `json` can write, in UTF-8 and without blanks."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ottla.client.errors import SerializationError
from ottla.client.serialization.protocol import Headers


class JsonSerializer:
    """Objects to JSON. `default` turns what JSON does not know into something it does, as in `json.dumps`.

    NaN and infinity are refused: they are no JSON, and other readers fail on them.
    """

    def __init__(self, default: Callable[[Any], Any] | None = None) -> None:
        self._encode = json.JSONEncoder(
            ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=default
        ).encode

    def serialize(self, topic: str, value: Any, headers: Headers) -> bytes | None:
        """`None` is the absence of a value, a tombstone, and not JSON's `null`."""
        if value is None:
            return None
        try:
            return self._encode(value).encode("utf-8")
        except (TypeError, ValueError, RecursionError) as error:
            raise SerializationError(f"the value for topic {topic} is no JSON: {error}") from error


class JsonDeserializer:
    """JSON to objects."""

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> Any:
        if data is None:
            return None
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise SerializationError(f"the bytes from topic {topic} are no JSON: {error}") from error
