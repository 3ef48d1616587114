"""Values that begin with the number of their schema, in Confluent's form: a zero byte, the number, the value.

What all schema-aware serializers share: under which subject a schema is registered, how its number is found, how it is
written and read. Without a registry nothing is written before the value, and both sides must know the schema.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from struct import Struct
from typing import Any

from ottla.client.errors import SerializationError
from ottla.client.serialization.registry import Registry, Schema

MAGIC = 0
SUBJECTS_MAX = 1000
"""How many subjects' numbers a serializer remembers."""
_FRAME = Struct(">bI")

SubjectName = Callable[[str, bool, str], str]
"""From the topic, whether it is a key, and the record's name, to the subject that the schema is registered under."""


def topic_name(topic: str, is_key: bool, record: str) -> str:
    """One schema for all values of a topic, and one for its keys: the usual way."""
    return f"{topic}-key" if is_key else f"{topic}-value"


def record_name(topic: str, is_key: bool, record: str) -> str:
    """One schema for a record's name, whatever the topic."""
    return record


def topic_record_name(topic: str, is_key: bool, record: str) -> str:
    """One schema for a record's name within a topic, so that a topic can have several."""
    return f"{topic}-{record}"


class SchemaIds:
    """How a serializer finds its schema's number.

    By default it registers the schema; with `auto_register=False` the subject must have it already, and with
    `use_latest=True` the number is that of the subject's last schema, which must then be able to read the values.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        is_key: bool,
        auto_register: bool,
        use_latest: bool,
        subject: SubjectName,
    ) -> None:
        self._registry = registry
        self._is_key = is_key
        self._auto_register = auto_register
        self._use_latest = use_latest
        self._subject = subject
        self._prefixes: dict[str, bytes] = {}

    def prefix(self, topic: str, record: str, schema: Schema) -> bytes:
        """The first five bytes of a value, asked for once a subject."""
        subject = self._subject(topic, self._is_key, record)
        found = self._prefixes.get(subject)
        if found is None:
            if self._use_latest:
                number = self._registry.latest(subject).schema_id
            elif self._auto_register:
                number = self._registry.register(subject, schema)
            else:
                number = self._registry.lookup(subject, schema)
            while len(self._prefixes) >= SUBJECTS_MAX:
                self._prefixes.pop(next(iter(self._prefixes)), None)
            found = self._prefixes[subject] = _FRAME.pack(MAGIC, number)
        return found


def split(topic: str, data: bytes) -> tuple[int, bytes]:
    """The schema's number and the value."""
    if len(data) < _FRAME.size or data[0] != MAGIC:
        raise SerializationError(
            f"the bytes from topic {topic} do not begin with a schema's number; were they written without a registry?"
        )
    return _FRAME.unpack_from(data)[1], data[_FRAME.size :]


def library(module: str, extra: str) -> Any:
    """A library that is only needed here; `ImportError` says how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"{module} is needed: pip install 'ottla[{extra}]'") from error
