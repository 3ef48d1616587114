"""`ottla/server/metrics.py` and `ottla/server/exposition.py`."""

from __future__ import annotations

import asyncio
import random
import re
from pathlib import Path
from typing import Any

import pytest

from ottla.node import Node
from ottla.server import Metrics, MetricsServer
from ottla.server.metrics import Histogram, prometheus_name
from ottla.wire.messages.api_versions import ApiVersionsRequest
from tests.support.golden import GOLDEN
from tests.unit.server.nodes import Server, serve
from tests.unit.server.whole_node import with_node

LINE = re.compile(r'[a-z_0-9]+(\{[a-z_A-Z]+="[^"\n]*"(,[a-z_A-Z]+="[^"\n]*")*\})? [-+0-9.e]+')


@pytest.mark.parametrize(
    ("name", "kind", "shown"),
    [
        (
            "kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec",
            "counter",
            "kafka_server_brokertopicmetrics_bytesin_total",
        ),
        ("kafka.network:type=RequestMetrics,name=TotalTimeMs", "summary", "kafka_network_requestmetrics_totaltimems"),
        ("kafka.server:type=ReplicaManager,name=LeaderCount", "gauge", "kafka_server_replicamanager_leadercount"),
        (
            "kafka.server:type=socket-server-metrics,name=connection-close-total",
            "counter",
            "kafka_server_socket_server_metrics_connection_close_total",
        ),
    ],
)
def test_names_are_those_that_the_jmx_exporter_gives(name: str, kind: str, shown: str) -> None:
    assert prometheus_name(name, kind) == shown


def test_quantiles_bound_what_they_stand_for_within_a_factor_of_two() -> None:
    chance = random.Random(3)
    histogram = Histogram()
    values = [chance.choice([0, 1, chance.randrange(5000)]) for _ in range(2000)]
    for value in values:
        histogram.update(value)
    values.sort()
    for fraction in (0.5, 0.95, 0.999):
        exact = values[int(fraction * len(values)) - 1]
        assert exact <= histogram.quantile(fraction) <= 2 * exact + 1
    assert (histogram.count, histogram.total, histogram.largest) == (2000, sum(values), values[-1])
    assert Histogram().quantile(0.5) == 0


def test_requests_errors_and_connections_are_counted_under_kafkas_names() -> None:
    async def test(server: Server) -> None:
        client = await server.client()
        for _ in range(3):
            await client.ask(ApiVersionsRequest(), 0)
        await client.ask(ApiVersionsRequest("", ""), 3)
        page = server.node.metrics.exposition()
        assert 'kafka_network_requestmetrics_requests_total{request="ApiVersions",version="0"} 3\n' in page
        assert 'kafka_network_requestmetrics_errors_total{request="ApiVersions",error="INVALID_REQUEST"} 1\n' in page
        assert 'kafka_network_requestmetrics_totaltimems_count{request="ApiVersions"} 4\n' in page
        assert 'kafka_server_socket_server_metrics_connection_count{listener="PLAINTEXT"} 1\n' in page
        incoming = re.search(r"incoming_byte_total\{listener=\"PLAINTEXT\"\} (\d+)", page)
        assert incoming is not None
        assert int(incoming[1]) > 50
        for line in page.splitlines():
            assert line.startswith("# TYPE ") or LINE.fullmatch(line), line

    serve(test)


def test_what_the_server_counts_is_in_kafkas_list() -> None:
    facts = (GOLDEN / "kafka-facts" / "metrics.txt").read_text()
    for name in ("RequestsPerSec", "ErrorsPerSec", "TotalTimeMs", "LocalTimeMs", "RequestBytes"):
        assert f"kafka.network:type=RequestMetrics,name={name} " in facts
    socket_server = next(line for line in facts.splitlines() if "socket-server-metrics | tags [listener, net" in line)
    for name in ("connection-count", "connection-creation-total", "connection-close-total", "incoming-byte-total"):
        assert name in socket_server


def test_gauges_are_read_when_somebody_looks_and_labels_are_escaped() -> None:
    metrics = Metrics()
    value = 1
    metrics.gauge("kafka.log:type=Log,name=Size", lambda: value, topic='a"b\\c\n', partition="0")
    metrics.family("kafka.log:type=Log,name=LogEndOffset", lambda: [({"topic": "t"}, 7), ({"topic": "u"}, 2**60)])
    metrics.counter("kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec", topic="t").mark(5)
    value = 2
    page = metrics.exposition()
    assert 'kafka_log_log_size{topic="a\\"b\\\\c\\n",partition="0"} 2\n' in page
    assert f'kafka_log_log_logendoffset{{topic="u"}} {2**60}\n' in page
    assert 'kafka_server_brokertopicmetrics_messagesin_total{topic="t"} 5\n' in page
    same = metrics.counter("kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec", topic="t")
    assert same.count == 5


async def scrape(port: int, request: bytes) -> tuple[str, bytes]:
    """The status line and the body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for start in range(0, len(request), 7):
        writer.write(request[start : start + 7])
        await writer.drain()
    async with asyncio.timeout(5):
        answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.split(b"\r\n")[0].decode(), body


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("GET /metrics HTTP/1.1", "HTTP/1.1 200 OK"),
        ("GET /metrics?x=1 HTTP/1.0", "HTTP/1.1 200 OK"),
        ("GET /other HTTP/1.1", "HTTP/1.1 404 Not Found"),
        ("POST /metrics HTTP/1.1", "HTTP/1.1 405 Method Not Allowed"),
        ("nonsense", "HTTP/1.1 400 Bad Request"),
    ],
)
def test_the_page_is_served_to_scrapers_and_nothing_else_is(request_line: str, status: str) -> None:
    async def test(server: Server) -> Any:
        metrics = MetricsServer(server.node.world, server.node.metrics.exposition)
        port = metrics.listen("127.0.0.1", 0).address.port
        try:
            return await scrape(port, f"{request_line}\r\nHost: x\r\n\r\n".encode())
        finally:
            metrics.close()

    found, body = serve(test)
    assert found == status
    assert (b"# TYPE kafka_server_socket_server_metrics_connection_count gauge" in body) == ("200" in status)


def test_a_scraper_that_never_ends_its_request_is_answered_and_closed() -> None:
    async def test(server: Server) -> Any:
        metrics = MetricsServer(server.node.world, server.node.metrics.exposition)
        port = metrics.listen("127.0.0.1", 0).address.port
        try:
            return await scrape(port, b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 8166)
        finally:
            metrics.close()

    assert serve(test)[0] == "HTTP/1.1 431 Request Header Fields Too Large"


def test_a_whole_node_tells_its_topics_logs_and_cluster_under_kafkas_names(tmp_path: Path) -> None:
    async def test(node: Node) -> bytes:
        await node.create_topics([("orders", 3)])
        metrics = MetricsServer.of(node.context, node.broker, node.collect_gauges)
        port = metrics.listen("127.0.0.1", 0).address.port
        try:
            return (await scrape(port, b"GET /metrics HTTP/1.1\r\n\r\n"))[1]
        finally:
            metrics.close()

    page = with_node(tmp_path, test).decode()
    for line in (
        'kafka_log_log_logendoffset{topic="orders",partition="2"} 0',
        'kafka_log_log_numlogsegments{topic="orders",partition="0"} 1',
        'kafka_cluster_partition_insyncreplicascount{topic="orders",partition="1"} 1',
        'kafka_server_brokertopicmetrics_bytesin_total{topic="orders"} 0',
        "kafka_server_brokertopicmetrics_bytesin_total 0",
        "kafka_server_replicamanager_leadercount 3",
        "kafka_server_replicamanager_underreplicatedpartitions 0",
        "kafka_controller_kafkacontroller_activecontrollercount 1",
        "kafka_controller_kafkacontroller_globalpartitioncount 3",
        "kafka_controller_kafkacontroller_activebrokercount 1",
        'kafka_server_metadataloader_finalizedlevel{featureName="metadata.version"} 30',
    ):
        assert f"{line}\n" in page, line
    facts = (GOLDEN / "kafka-facts" / "metrics.txt").read_text()
    names = []
    for bean, _, attributes in (line.split(" | ") for line in facts.splitlines()):
        # The attributes of a bean without a name are metrics of their own.
        names += [bean] if ",name=" in bean else [f"{bean},name={one}" for one in attributes.strip("[]").split(", ")]
    known = {prometheus_name(name, kind) for name in names for kind in ("gauge", "counter")}
    own = {line.split(" ")[2] for line in page.splitlines() if line.startswith("# TYPE")}
    assert {name for name in own - known if "socket_server_metrics" not in name} == {
        "kafka_network_socketserver_openconnections"
    }
