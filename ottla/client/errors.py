"""Errors that only a client has: those that no broker sends. Kafka's own codes are in `ottla.errors`."""

from __future__ import annotations

from ottla.errors import KafkaError, RetriableError


class KafkaTimeout(RetriableError, TimeoutError):
    """What was asked for was not done in the time it was given."""


class ClientClosed(KafkaError):
    """The client is closed and cannot be used any more."""


class NoBroker(RetriableError):
    """None of the brokers can be reached."""


class Wakeup(KafkaError):
    """`wakeup()` was called while this call waited, or before it."""


class SerializationError(KafkaError):
    """A key or a value cannot be turned into bytes, or bytes not into one."""
