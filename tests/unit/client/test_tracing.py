"""Spans and their context in headers, through the interceptors of both clients."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import pytest

from ottla.client.config import ConsumerConfig, ProducerConfig, read_settings
from ottla.client.producer.core import ProducerRecord
from ottla.client.tracing import LINKS_MAX, TracingInterceptor, processing, trace_context


class Record(NamedTuple):
    topic: str
    partition: int
    offset: int
    headers: list[tuple[str, bytes | None]]


@pytest.fixture
def exporter() -> Any:
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    return memory.InMemorySpanExporter()


@pytest.fixture
def provider(exporter: Any) -> Any:
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    return provider


def sent(interceptor: TracingInterceptor, **values: Any) -> ProducerRecord:
    record = interceptor.on_send(ProducerRecord("t", "v", **values))
    assert isinstance(record, ProducerRecord)
    return record


def test_a_sent_record_has_its_spans_context_in_its_headers(provider: Any, exporter: Any) -> None:
    interceptor = TracingInterceptor(provider, client_id="p")
    record = sent(interceptor, key="k", partition=3, headers=[("traceparent", b"old"), ("other", b"1")])
    (span,) = exporter.get_finished_spans()
    assert span.name == "send t"
    assert span.kind.name == "PRODUCER"
    assert span.attributes["messaging.system"] == "kafka"
    assert span.attributes["messaging.client.id"] == "p"
    assert span.attributes["messaging.destination.partition.id"] == "3"
    assert span.attributes["messaging.kafka.message.key"] == "k"
    headers = dict(record.headers)
    assert headers["other"] == b"1"
    assert len(record.headers) == 2, "the old context is replaced"
    trace_id, span_id = f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"
    assert (headers["traceparent"] or b"").startswith(f"00-{trace_id}-{span_id}-".encode())


def test_received_records_are_linked_to_what_sent_them(provider: Any, exporter: Any) -> None:
    interceptor = TracingInterceptor(provider, group_id="g")
    headers = [list(sent(interceptor).headers) for _ in range(2)]
    senders = [span.context.span_id for span in exporter.get_finished_spans()]
    exporter.clear()
    records = [Record("t", 0, 0, headers[0]), Record("t", 0, 1, headers[1]), Record("u", 0, 0, [("x", None)])]
    assert interceptor.on_consume(records) is records
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert [link.context.span_id for link in spans["poll t"].links] == senders
    assert spans["poll t"].attributes["messaging.batch.message_count"] == 2
    assert spans["poll t"].attributes["messaging.consumer.group.name"] == "g"
    assert spans["poll u"].links == ()
    exporter.clear()
    interceptor.on_consume([records[0]] * (LINKS_MAX + 5))
    (span,) = exporter.get_finished_spans()
    assert len(span.links) == LINKS_MAX


def test_the_work_on_a_record_is_in_the_trace_of_its_sender(provider: Any, exporter: Any) -> None:
    headers = list(sent(TracingInterceptor(provider)).headers)
    (sender,) = exporter.get_finished_spans()
    record = Record("t", 2, 7, headers)
    with pytest.raises(RuntimeError, match="no"), processing(record, provider, group_id="g"):
        raise RuntimeError("no")
    span = exporter.get_finished_spans()[-1]
    assert span.context.trace_id == sender.context.trace_id
    assert span.parent.span_id == sender.context.span_id
    assert span.attributes["messaging.kafka.offset"] == 7
    assert span.status.status_code.name == "ERROR"


def test_a_record_without_a_context_begins_a_trace_of_its_own(provider: Any, exporter: Any) -> None:
    trace = pytest.importorskip("opentelemetry.trace")
    for value in (None, b"\xff", b"00-0-0-0"):
        context = trace_context(Record("t", 0, 0, [("traceparent", value)]))
        assert not trace.get_current_span(context).get_span_context().is_valid
    with processing(Record("t", 0, 0, []), provider) as span:
        assert span.parent is None


def test_it_is_an_interceptor_of_both_clients(provider: Any) -> None:
    interceptor = TracingInterceptor(provider)
    for table in (ProducerConfig, ConsumerConfig):
        config = read_settings(table, {"bootstrap.servers": "b:1", "interceptor.classes": [interceptor]}, {})
        assert config.value_of("interceptor.classes") == (interceptor,)


def test_without_the_library_the_way_to_get_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(ImportError, match=r"pip install 'ottla\[otel\]'"):
        TracingInterceptor()
