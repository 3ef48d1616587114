"""A cluster from start to close: what it offers to a test, and that nothing is left of it."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]  # it has no __all__

from ottla.errors import InvalidConfig, InvalidPartitions, TopicAlreadyExists
from ottla.node import CannotStart
from ottla.testing import AsyncCluster, Cluster, ClusterError
from ottla.testing.ports import HeldPorts

CYCLES = 100
GROWTH_BYTES_MAX = 16 * 1024 * 1024


@pytest.fixture(params=[False, True], ids=["thread", "process"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(processes=request.param) as running:
        yield running


@pytest.fixture(autouse=True)
def own_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are looked for where no other test makes any."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture(autouse=True)
def nothing_frozen() -> None:
    """Tests that ran a node in this process have frozen what was there, and every such object that ends is one less:
    only without them does the count say what a cluster has left."""
    gc.unfreeze()


@pytest.fixture(scope="module")
def used() -> None:
    """One cluster has been: what is imported and opened once and for all is there."""
    with Cluster():
        pass


def traces() -> dict[str, object]:
    """What a cluster could leave behind in this process."""
    return {
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "descriptors": sorted(os.readlink(f"/proc/self/fd/{fd}") for fd in open_descriptors()),
        "files": sorted(path.name for path in Path(tempfile.gettempdir()).iterdir()),
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)],
        "wakeup": signal.set_wakeup_fd(-1),
        "handlers": [*logging.root.handlers, *logging.getLogger("ottla").handlers],
        "level": (logging.root.level, logging.getLogger("ottla").level),
        "gc": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()),
        "hooks": (sys.excepthook, threading.excepthook),
    }


def open_descriptors() -> list[int]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            os.fstat(int(name))
        except OSError:
            continue  # that of the listing itself
        found.append(int(name))
    return found


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def can_connect(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


def test_nothing_is_left_of_a_hundred_clusters() -> None:
    """Neither threads, descriptors, files, handlers nor memory; every other cluster is killed before it is closed."""
    before: dict[str, object] = {}
    settled = 0
    for number in range(CYCLES):
        with Cluster(topics={"t": 2}) as cluster:
            address = cluster.bootstrap_servers
            if number % 2:
                cluster.kill()
        assert not can_connect(address)
        if number == 0:
            before = traces()  # what is imported once, and the memory that the first ones take, are not leaks
        if number == CYCLES // 4:
            gc.collect()
            settled = resident_bytes()
    gc.collect()
    assert traces() == before
    assert resident_bytes() - settled < GROWTH_BYTES_MAX


def test_a_process_leaves_nothing_either(used: None) -> None:
    before = traces()
    for _ in range(3):
        with Cluster(processes=True) as cluster:
            address = cluster.bootstrap_servers
        assert not can_connect(address)
    assert traces() == before


def test_a_test_that_fails_leaves_nothing(used: None) -> None:
    before = traces()
    address = ""

    def test() -> None:
        nonlocal address
        with Cluster() as cluster:
            address = cluster.bootstrap_servers
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        test()
    assert not can_connect(address)
    assert traces() == before


@pytest.mark.parametrize("processes", [False, True])
def test_a_cluster_that_cannot_start_says_why_and_leaves_nothing(used: None, processes: bool) -> None:
    before = traces()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:0"
        with pytest.raises((CannotStart, ClusterError), match="Cannot listen on PLAINTEXT"):
            Cluster(processes=processes, settings={"listeners": listeners}).start()
    assert traces() == before


@pytest.mark.parametrize("processes", [False, True])
@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("listener.security.protocol.map", "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT", r"listener PLAINTEXT \(SSL\)"),
        ("super.users", "User:admin", "super.users"),
        ("log.segment.bytes", "plenty", "log.segment.bytes"),
    ],
)
def test_a_cluster_that_may_not_start_says_why_in_a_line(
    used: None, processes: bool, name: str, value: str, words: str
) -> None:
    before = traces()
    with pytest.raises((CannotStart, ClusterError, InvalidConfig), match=words) as caught:
        Cluster(processes=processes, settings={name: value}).start()
    assert "\n" not in str(caught.value)
    assert traces() == before


def test_the_process_of_a_test_that_was_killed_ends_and_leaves_nothing() -> None:
    script = (
        "import ottla.testing, time\n"
        "cluster = ottla.testing.Cluster(processes=True).start()\n"
        "print(cluster.bootstrap_servers, cluster._directory.name, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        address, directory = parent.stdout.readline().split()
        assert can_connect(address)
        parent.kill()
        parent.wait()
    deadline = time.monotonic() + 20
    while can_connect(address) or os.path.exists(directory):
        assert time.monotonic() < deadline, "the node goes on without its test"
        time.sleep(0.02)


@pytest.mark.parametrize("processes", [False, True])
def test_a_cluster_of_which_one_node_cannot_start_says_why_and_leaves_nothing(processes: bool) -> None:
    with Cluster(3, processes=processes):
        pass
    before = traces()
    ports = HeldPorts("127.0.0.1")
    listeners = f"PLAINTEXT://127.0.0.1:0,PEERS://127.0.0.1:0,CONTROLLER://127.0.0.1:{ports.choose()}"
    begun = time.monotonic()
    with pytest.raises((CannotStart, ClusterError), match="Cannot listen on CONTROLLER"):
        Cluster(3, processes=processes, settings={"listeners": listeners}).start()
    assert time.monotonic() - begun < 25, "the one that could start is not waited for"
    ports.close()
    assert traces() == before


def test_nothing_is_left_of_many_nodes_however_they_were_left() -> None:
    before: dict[str, object] = {}
    for number in range(4):
        with Cluster(3, topics={"t": 3}) as cluster:
            addresses = cluster.bootstrap_servers.split(",")
            if number == 1:
                cluster.kill(0)
            if number == 2:
                cluster.pause([0, 1])
            if number == 3:
                cluster.cut(0, silent=True)
        assert not any(map(can_connect, addresses))
        if number == 0:
            before = traces()
    assert traces() == before


@pytest.mark.parametrize("nodes", [0, -1, 17])
def test_a_cluster_has_at_least_one_node_and_not_too_many(nodes: int) -> None:
    with pytest.raises(ClusterError, match=f"1 to 16 nodes, and not {nodes}"):
        Cluster(nodes)


def test_topics_are_made_at_the_start_and_later_with_settings(cluster: Cluster) -> None:
    assert cluster.create_topic("orders", 3, retention_ms=1234, cleanup_policy=["compact", "delete"]) == "orders"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    assert len(admin.list_topics("orders", timeout=10).topics["orders"].partitions) == 3
    resource = ConfigResource(ConfigResource.Type.TOPIC, "orders")
    found = admin.describe_configs([resource])[resource].result(10)
    assert found["retention.ms"].value == "1234"
    assert found["cleanup.policy"].value == "compact,delete"
    with pytest.raises(TopicAlreadyExists):
        cluster.create_topic("orders")
    with pytest.raises(InvalidPartitions):
        cluster.create_topic("none", 0)
    with pytest.raises(InvalidConfig):
        cluster.create_topic("odd", cleanup_policy="shred")


def test_the_broker_has_the_settings_that_it_was_given() -> None:
    with Cluster(settings={"num.partitions": "7"}, topics={"a": 2}) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        assert len(admin.list_topics("a", timeout=10).topics["a"].partitions) == 2
        cluster.create_topic("b", -1)
        assert len(admin.list_topics("b", timeout=10).topics["b"].partitions) == 7


def test_what_is_asked_of_a_cluster_that_does_not_run_is_refused_in_a_line() -> None:
    cluster = Cluster()
    with pytest.raises(ClusterError, match="the cluster does not run"):
        cluster.create_topic("t")
    with cluster:
        with pytest.raises(ClusterError, match="there is no node 1"):
            cluster.kill(1)
        cluster.stop()
        assert not cluster.is_running()
        with pytest.raises(ClusterError, match=r"node 0 does not run: restart\(0\) starts it"):
            cluster.create_topic("t")
        cluster.restart()
        assert cluster.create_topic("t") == "t"
        with pytest.raises(ClusterError, match="runs already"):
            cluster.start()
    with pytest.raises(ClusterError, match="the cluster does not run"):
        _ = cluster.bootstrap_servers


def test_a_closed_cluster_can_be_started_again_and_is_empty_then() -> None:
    cluster = Cluster()
    for _ in range(2):
        with cluster:
            cluster.create_topic("t")


async def _with_async_cluster() -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async with AsyncCluster() as cluster:
        topic = await cluster.create_topic("async")
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            await producer.send_and_wait(topic, b"one")
            await cluster.kill()
            assert not cluster.is_running()
            await cluster.restart()
            await producer.send_and_wait(topic, b"two")
        async with AIOKafkaConsumer(
            topic, bootstrap_servers=cluster.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            assert [(await consumer.getone()).value for _ in range(2)] == [b"one", b"two"]
            await cluster.wait_for_group("g", state="Stable", members=1)


def test_the_async_twin_does_the_same() -> None:
    import asyncio

    asyncio.run(_with_async_cluster())


def test_importing_it_loads_neither_a_broker_nor_pytest() -> None:
    script = "import sys, ottla.testing; print(*sys.modules)"
    loaded = set(subprocess.check_output([sys.executable, "-c", script], text=True).split())
    assert {name for name in loaded if name.startswith("ottla")} == {"ottla", "ottla.lazy", "ottla.testing"}
    assert not loaded & {"asyncio", "pytest", "tempfile", "subprocess"}
