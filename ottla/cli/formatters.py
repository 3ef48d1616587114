"""How a record is shown: the formatters of `ottla console-consumer`, under the names that Kafka's have.

`formatter_of` finds one by Kafka's class name, or a class of the user's by its Python path: it is made without
arguments, `configure(settings)` tells it its settings, and `format(record)` returns bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ottla.cli.tool import Refused
from ottla.client import ConsumerRecord

Raw = ConsumerRecord[bytes | None, bytes | None]


class Formatter(Protocol):
    def configure(self, settings: Mapping[str, str]) -> None: ...

    def format(self, record: Raw) -> bytes:
        """What is printed for a record; empty for one that is left out."""
        ...


def formatter_of(name: str, settings: Mapping[str, str]) -> Formatter:
    found = _FORMATTERS.get(name)
    if found is None:
        found = _python_class(name)
    formatter: Formatter = found()
    formatter.configure(settings)
    return formatter


def _python_class(name: str) -> Callable[[], Formatter]:
    import importlib

    module, _, attribute = name.replace(":", ".").rpartition(".")
    try:
        found: Callable[[], Formatter] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError):
        raise Refused(f"There is no formatter {name}: name one of Kafka's, or a Python class by its path") from None
    return found


class DefaultFormatter:
    """The value, and what else is asked for, with a separator between."""

    def __init__(self) -> None:
        self._shown = {"value": True}
        self._separator = b"\t"
        self._line_end = b"\n"
        self._headers_separator = b","
        self._null = b"null"
        self._deserializers: dict[str, Callable[[bytes], bytes]] = {}

    def configure(self, settings: Mapping[str, str]) -> None:
        for name in ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key", "value"):
            if f"print.{name}" in settings:
                self._shown[name] = settings[f"print.{name}"].strip().lower() == "true"
        self._separator = settings.get("key.separator", "\t").encode()
        self._line_end = settings.get("line.separator", "\n").encode()
        self._headers_separator = settings.get("headers.separator", ",").encode()
        self._null = settings.get("null.literal", "null").encode()
        for part in ("key", "value", "headers"):
            if f"{part}.deserializer" in settings:
                self._deserializers[part] = deserializer_of(settings[f"{part}.deserializer"])

    def format(self, record: Raw) -> bytes:
        shows = self._shown.get
        parts = []
        if shows("timestamp"):
            parts.append(_timestamp(record).encode())
        if shows("partition"):
            parts.append(b"Partition:%d" % record.partition)
        if shows("offset"):
            parts.append(b"Offset:%d" % record.offset)
        if shows("delivery"):
            count = record.delivery_count
            parts.append(b"Delivery:NOT_PRESENT" if count is None else b"Delivery:%d" % count)
        if shows("epoch"):
            # Kafka's console consumer drops the epoch on the way to its formatter, so this is what it always says.
            parts.append(b"Epoch:NOT_PRESENT")
        if shows("headers"):
            shown = [name.encode() + b":" + self._text("headers", value) for name, value in record.headers]
            parts.append(self._headers_separator.join(shown) if shown else b"NO_HEADERS")
        if shows("key"):
            parts.append(self._text("key", record.key))
        if shows("value"):
            parts.append(self._text("value", record.value))
        return self._separator.join(parts) + self._line_end if parts else b""

    def _text(self, part: str, data: bytes | None) -> bytes:
        found = self._null if data is None else data
        deserializer = self._deserializers.get(part)
        return found if deserializer is None else deserializer(found)


class LoggingFormatter(DefaultFormatter):
    """The same, and a log line."""

    def format(self, record: Raw) -> bytes:
        import logging

        from ottla.cli.dump.java_text import utf8_text

        timestamp = _timestamp(record)
        key = "null " if record.key is None else f"{utf8_text(record.key)}, "
        value = "null" if record.value is None else utf8_text(record.value)
        logging.getLogger(__name__).info(
            "%skey:%svalue:%s", "" if timestamp == "NO_TIMESTAMP" else f"{timestamp}, ", key, value
        )
        return super().format(record)


class NoOpFormatter:
    """Nothing: to see how fast records come."""

    def configure(self, settings: Mapping[str, str]) -> None:
        """It has no settings."""

    def format(self, record: Raw) -> bytes:
        return b""


class CoordinatorFormatter:
    """The records of a coordinator's topic as JSON, one behind the other without a line's end, as Kafka prints them."""

    def __init__(self, records: str, types: frozenset[int] | None = None) -> None:
        """`records` names the table in `ottla.wire.coordinator`; `types` are those shown, None all."""
        import ottla.wire.coordinator as coordinator

        self._records = getattr(coordinator, records)
        self._types = types

    def configure(self, settings: Mapping[str, str]) -> None:
        """It has no settings."""

    def format(self, record: Raw) -> bytes:
        from ottla.cli.dump.java_text import json_text
        from ottla.wire import DecodeError
        from ottla.wire.json_form import to_json
        from ottla.wire.versioned import read_int16

        if record.key is None:
            return b""
        try:
            record_type = read_int16(record.key, "key.type")
            if record_type not in self._records.names or (self._types is not None and record_type not in self._types):
                return b""
            key = self._records.read_key(record.key)
            shown: dict[str, Any] = {"key": {"type": record_type, "data": to_json(key, 0)}, "value": None}
            if record.value is not None:
                value, version = self._records.read_value(key, record.value)
                shown["value"] = {"version": version, "data": to_json(value, version)}
        except DecodeError as error:
            raise ValueError(f"Could not read record at offset {record.offset} due to: {error}") from None
        return json_text(shown).encode()


_TOOLS = "org.apache.kafka.tools.consumer."
_FORMATTERS: dict[str, Callable[[], Formatter]] = {
    f"{_TOOLS}DefaultMessageFormatter": DefaultFormatter,
    f"{_TOOLS}LoggingMessageFormatter": LoggingFormatter,
    f"{_TOOLS}NoOpMessageFormatter": NoOpFormatter,
    f"{_TOOLS}OffsetsMessageFormatter": lambda: CoordinatorFormatter("GROUP", frozenset({0, 1})),
    f"{_TOOLS}GroupMetadataMessageFormatter": lambda: CoordinatorFormatter("GROUP", frozenset({2})),
    f"{_TOOLS}TransactionLogMessageFormatter": lambda: CoordinatorFormatter("TRANSACTION"),
    f"{_TOOLS}group.share.ShareGroupStateMessageFormatter": lambda: CoordinatorFormatter("SHARE"),
}
DEFAULT_FORMATTER = f"{_TOOLS}DefaultMessageFormatter"

_TIMESTAMPS = {0: "CreateTime", 1: "LogAppendTime"}


def _timestamp(record: Raw) -> str:
    name = _TIMESTAMPS.get(int(record.timestamp_type))
    return "NO_TIMESTAMP" if name is None else f"{name}:{record.timestamp}"


# Deserializers, by the names that Kafka's have


def deserializer_of(name: str) -> Callable[[bytes], bytes]:
    """What makes text of bytes."""
    found = _DESERIALIZERS.get(name.rpartition(".")[2].removesuffix("Deserializer"))
    if found is None:
        raise Refused(f"Unable to instantiate a deserializer from {name}")
    return found


def _number(form: str, name: str) -> Callable[[bytes], bytes]:
    size = struct.calcsize(form)

    def read(data: bytes) -> bytes:
        if len(data) != size:
            raise ValueError(f"Size of data received by {name}Deserializer is not {size}")
        (value,) = struct.unpack(form, data)
        return (_float_text(value, form) if isinstance(value, float) else str(value)).encode()

    return read


def _float_text(value: float, form: str) -> str:
    from ottla.cli.dump.java_text import double_text

    if form == ">d":
        return double_text(value)
    # A float has fewer digits than the double that it is read into: the fewest that tell it apart.
    for precision in range(1, 10):
        shortest = float(f"{value:.{precision}g}")
        if struct.pack(">f", shortest) == struct.pack(">f", value):
            return double_text(shortest)
    return double_text(value)


def _boolean(data: bytes) -> bytes:
    if data not in (b"\0", b"\1"):
        raise ValueError("Unexpected byte received by BooleanDeserializer")
    return b"true" if data == b"\1" else b"false"


def _uuid(data: bytes) -> bytes:
    from uuid import UUID

    return str(UUID(data.decode())).encode()


def _string(data: bytes) -> bytes:
    from ottla.cli.dump.java_text import utf8_text

    return utf8_text(data).encode()


def _escaped(data: bytes) -> bytes:
    """`Bytes.toString`: what is not printable as `\\x0A`."""
    return b"".join(bytes([one]) if 0x20 <= one <= 0x7E and one != 0x5C else b"\\x%02X" % one for one in data)


_DESERIALIZERS: dict[str, Callable[[bytes], bytes]] = {
    "String": _string,
    "ByteArray": bytes,
    "Bytes": _escaped,
    "Short": _number(">h", "Short"),
    "Integer": _number(">i", "Integer"),
    "Long": _number(">q", "Long"),
    "Float": _number(">f", "Float"),
    "Double": _number(">d", "Double"),
    "Boolean": _boolean,
    "UUID": _uuid,
}
