"""What both faces of a share consumer have in common: settings, deserializers, the callback. Nothing in here waits."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ottla.client.config import ShareConsumerConfig, read_settings
from ottla.client.errors import RecordDeserialization
from ottla.client.share.core import CommitCallback, ShareCore, Told
from ottla.records import ConsumerRecord, RawRecord, with_content
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    # Without deserializers keys and values are bytes, which a type checker is told by the default (PEP 696).
    K = TypeVar("K", default=bytes | None)
    V = TypeVar("V", default=bytes | None)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

log = logging.getLogger(__name__)

CLOSE_TIMEOUT_S = 30.0
POLL_TIMEOUT_S = 1.0


def settings(config: Mapping[str, object] | None, keywords: Mapping[str, object]) -> ShareConsumerConfig:
    """A share consumer's settings, from a mapping with Kafka's names and from keywords."""
    return read_settings(ShareConsumerConfig, config, keywords)


def topics_of(topics: str | Iterable[str]) -> list[str]:
    """Topics to subscribe to; one name is a list of one."""
    names = [topics] if isinstance(topics, str) else list(topics)
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise ValueError("Topic collection to subscribe to cannot contain null or empty topic")
    return names


class Finisher:
    """Turns raw records into what the user gets, in the user's thread."""

    def __init__(self, core: ShareCore) -> None:
        self._core = core
        self._key = core.config.key_deserializer
        self._value = core.config.value_deserializer
        self.is_plain = self._key is None and self._value is None
        self.callback: CommitCallback | None = None

    def finish(self, raw: list[RawRecord]) -> list[Any]:
        """The records for the user. The first that cannot be read is released, and told when nothing is before it.

        What lies behind it is released too, and comes back, to this member or another.
        """
        if self.is_plain:
            return raw
        records: list[Any] = []
        for index, record in enumerate(raw):
            try:
                records.append(self._deserialized(record))
            except RecordDeserialization:
                self._core.give_back(raw[index:] if records else [record])
                if records:
                    return records
                self._core.give_back(raw[1:])
                raise
        return records

    def _deserialized(self, record: RawRecord) -> ConsumerRecord[Any, Any]:
        headers = list(record.headers)
        what = "key"
        try:
            key: Any = record.key
            if self._key is not None and key is not None:
                key = self._key.deserialize(record.topic, key, headers)
            what = "value"
            value: Any = record.value
            if self._value is not None and value is not None:
                value = self._value.deserialize(record.topic, value, headers)
        except Exception as error:
            # Whatever a user's deserializer raises: the user hears which record it was.
            raise RecordDeserialization(
                record.topic_partition,
                record.offset,
                f"Error deserializing {what} for partition {record.topic_partition} at offset {record.offset}. The "
                f"record was released; acknowledge it as rejected to see it no more: {error}",
            ) from error
        return with_content(record, key, value)

    def set_callback(self, callback: CommitCallback | None) -> None:
        self.callback = callback
        self._core.wants_told = callback is not None
        if callback is None:
            self._core.told.clear()

    def tell(self) -> None:
        """Call the user's callback for every answer that has come since the last time."""
        told = self._core.told
        while told and self.callback is not None:
            one: Told = told.popleft()
            offsets: dict[TopicPartition, frozenset[int]] = {one.topic_partition: one.offsets}
            self.callback(offsets, one.error)

    def close(self) -> None:
        """Let deserializers go, those that want to know."""
        for part in (self._key, self._value):
            close = getattr(part, "close", None)
            if callable(close):
                try:
                    close()
                except Exception:
                    log.warning("[ShareConsumer] %r failed in close", part, exc_info=True)
