"""OpenTelemetry for clients (`pip install 'ottla[otel]'`): spans for what is sent and received, the context in headers.

`Producer(..., interceptor_classes=[TracingInterceptor()])` gives each record a span and writes its context into the
record's headers, as W3C's `traceparent` or whatever propagator is set; the same object in a consumer makes a span for
the records of each topic that a poll returns, linked to those that sent them. `processing(record)` is the span of the
user's own work on one record. Names and attributes are OpenTelemetry's for messaging. Promises: the span of a send is
one of handing over, it ends when the record is accepted; records are passed on unchanged but for the headers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Protocol, TypeVar

LINKS_MAX = 128
"""How many records one span is linked to: what OpenTelemetry's SDK keeps by default."""


class Received(Protocol):
    """A record as a consumer gives it."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...

    @property
    def offset(self) -> int: ...

    @property
    def headers(self) -> Any: ...


R = TypeVar("R", bound=Received)


class TracingInterceptor:
    """An interceptor for producers and consumers. Without a provider OpenTelemetry's global one is used."""

    def __init__(
        self, tracer_provider: Any = None, *, client_id: str | None = None, group_id: str | None = None
    ) -> None:
        self._tracer = _tracer(tracer_provider)
        self._attributes = {"messaging.system": "kafka"}
        if client_id is not None:
            self._attributes["messaging.client.id"] = client_id
        if group_id is not None:
            self._attributes["messaging.consumer.group.name"] = group_id

    def on_send(self, record: Any) -> Any:
        """The record with the span's context in its headers; what another producer wrote there is replaced."""
        trace = _opentelemetry("trace")
        attributes: dict[str, Any] = {
            **self._attributes,
            "messaging.operation.name": "send",
            "messaging.operation.type": "send",
            "messaging.destination.name": record.topic,
        }
        if record.partition is not None:
            attributes["messaging.destination.partition.id"] = str(record.partition)
        if isinstance(record.key, str):
            attributes["messaging.kafka.message.key"] = record.key
        if record.value is None:
            attributes["messaging.kafka.message.tombstone"] = True
        with self._tracer.start_as_current_span(
            f"send {record.topic}", kind=trace.SpanKind.PRODUCER, attributes=attributes
        ):
            written: dict[str, str] = {}
            _opentelemetry("propagate").inject(written)
        kept = [header for header in record.headers if header[0] not in written]
        return record._replace(headers=[*kept, *((name, value.encode()) for name, value in written.items())])

    def on_consume(self, records: Sequence[R]) -> Sequence[R]:
        """The records as they are; a span for each topic, which the sending spans are linked to."""
        trace = _opentelemetry("trace")
        topics: dict[str, list[R]] = {}
        for record in records:
            topics.setdefault(record.topic, []).append(record)
        for topic, found in topics.items():
            attributes: dict[str, Any] = {
                **self._attributes,
                "messaging.operation.name": "poll",
                "messaging.operation.type": "receive",
                "messaging.destination.name": topic,
                "messaging.batch.message_count": len(found),
            }
            contexts = (trace.get_current_span(trace_context(record)).get_span_context() for record in found)
            links = [trace.Link(context) for context, _ in zip(_valid(contexts), range(LINKS_MAX), strict=False)]
            self._tracer.start_span(
                f"poll {topic}", kind=trace.SpanKind.CONSUMER, attributes=attributes, links=links
            ).end()
        return records


def trace_context(record: Received) -> Any:
    """The OpenTelemetry context that the record's sender wrote into its headers; an empty one where there is none."""
    carried = {name: _text(value) for name, value in record.headers}
    context = _opentelemetry("context").Context()
    return _opentelemetry("propagate").extract(carried, context=context)


@contextmanager
def processing(record: Received, tracer_provider: Any = None, *, group_id: str | None = None) -> Iterator[Any]:
    """A current span for the work on one record, in the trace of its sender; what the work raises is noted in it."""
    trace = _opentelemetry("trace")
    attributes: dict[str, Any] = {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": record.topic,
        "messaging.destination.partition.id": str(record.partition),
        "messaging.kafka.offset": record.offset,
    }
    if group_id is not None:
        attributes["messaging.consumer.group.name"] = group_id
    with _tracer(tracer_provider).start_as_current_span(
        f"process {record.topic}",
        context=trace_context(record),
        kind=trace.SpanKind.CONSUMER,
        attributes=attributes,
    ) as span:
        yield span


def _valid(contexts: Iterator[Any]) -> Iterator[Any]:
    return (context for context in contexts if context.is_valid)


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")


def _tracer(provider: Any) -> Any:
    trace = _opentelemetry("trace")
    return (provider or trace.get_tracer_provider()).get_tracer("ottla.client")


def _opentelemetry(part: str) -> Any:
    try:
        return import_module(f"opentelemetry.{part}")
    except ImportError as error:
        raise ImportError("opentelemetry-api is needed: pip install 'ottla[otel]'") from error
