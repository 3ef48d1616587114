"""`ottla cluster up`: a cluster of processes, from its first start to its next one."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its types leave it out

from tests.support.server import OTTLA

PATIENCE_S = 60.0


class Up:
    """The command, and what it has told so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.nodes: dict[int, dict[str, Any]] = {}
        self.address = ""

    def read_until(self, claim: Callable[[], bool]) -> None:
        assert self.process.stdout is not None
        while not claim():
            line = self.process.stdout.readline()
            assert line, f"it ended with {self.process.wait()}; last seen: {self.nodes}"
            told = json.loads(line)
            if "ready" in told:
                self.address = told["ready"]
            else:
                self.nodes[told["node_id"]] = told

    def end(self) -> int:
        """Ctrl-C, and the exit code."""
        self.process.send_signal(signal.SIGINT)
        out, _ = self.process.communicate(timeout=PATIENCE_S)
        for line in out.splitlines():
            told = json.loads(line)
            self.nodes[told["node_id"]] = told
        return self.process.returncode


@contextmanager
def cluster_up(data: Path, *options: str) -> Iterator[Up]:
    command = [*OTTLA, "cluster", "up", "--data", str(data), "--port", "0", "--output", "json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        up = Up(process)
        try:
            yield up
        finally:
            process.terminate()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_cluster_serves_survives_the_death_of_a_node_and_comes_back_with_its_data(tmp_path: Path) -> None:
    settings = ("--set", "broker.session.timeout.ms=3000", "--set", "broker.heartbeat.interval.ms=300")
    with cluster_up(tmp_path / "data", *settings) as up:
        up.read_until(lambda: bool(up.address))
        assert len(up.address.split(",")) == 3
        assert sorted(node["roles"] for node in up.nodes.values()) == ["broker+controller"] * 3
        assert [node["state"] for node in up.nodes.values()].count("active") == 1
        admin = AdminClient({"bootstrap.servers": up.address})
        admin.create_topics([NewTopic("t", 3, 3)])["t"].result(PATIENCE_S)
        producer = Producer({"bootstrap.servers": up.address, "acks": "all", "log_level": 0})
        for number in range(30):
            producer.produce("t", str(number).encode(), partition=number % 3)
        assert producer.flush(PATIENCE_S) == 0
        up.read_until(lambda: all(node["in_sync"] == 3 for node in up.nodes.values()))
        assert sum(node["leaders"] for node in up.nodes.values()) == 3
        pids = [node["pid"] for node in up.nodes.values()]
        os.kill(up.nodes[2]["pid"], signal.SIGKILL)
        up.read_until(lambda: up.nodes[2]["state"] == "ended")
        assert up.nodes[2]["why"] == "killed by SIGKILL"
        up.read_until(lambda: (up.nodes[1]["leaders"] or 0) + (up.nodes[3]["leaders"] or 0) == 3)
        for number in range(30, 60):
            producer.produce("t", str(number).encode(), partition=number % 3)
        assert producer.flush(PATIENCE_S) == 0
        assert up.end() == 0
        assert up.nodes[1]["why"] == up.nodes[3]["why"] == "exit code 0"
        assert not any(map(is_alive, pids))
    with cluster_up(tmp_path / "data") as up:
        up.read_until(lambda: bool(up.address))
        consumer = Consumer({"bootstrap.servers": up.address, "group.id": "g", "log_level": 0})
        consumer.assign([TopicPartition("t", partition, 0) for partition in range(3)])
        found = [consumer.poll(PATIENCE_S) for _ in range(60)]
        assert sorted(int(message.value() or b"") for message in found if message is not None) == list(range(60))
        consumer.close()
        assert up.end() == 0


def test_controllers_of_their_own_are_no_brokers(tmp_path: Path) -> None:
    with cluster_up(tmp_path / "data", "--nodes", "1", "--controllers", "1") as up:
        up.read_until(lambda: bool(up.address))
        assert {node_id: node["roles"] for node_id, node in up.nodes.items()} == {1: "broker", 101: "controller"}
        up.read_until(lambda: up.nodes[101]["state"] == "active")
        assert up.end() == 0


def refusal(*options: str) -> str:
    command = [*OTTLA, "cluster", "up", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, "one line"
    return done.stderr


def test_a_port_that_is_taken_is_told_in_a_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"port {port} cannot be had: Address already in use" in refusal("--data", str(tmp_path), "--port", port)
    assert not list(tmp_path.iterdir())


def test_data_of_two_clusters_is_told_in_a_line(tmp_path: Path) -> None:
    for node_id, cluster in ((1, "AAAAAAAAQACAAAAAAAAAAA"), (2, "BBBBBBBBQBCBBBBBBBBBBA")):
        (tmp_path / f"node-{node_id}" / "data").mkdir(parents=True)
        text = f"version=1\nnode.id={node_id}\ncluster.id={cluster}\ndirectory.id=CCCCCCCCQCCCCCCCCCCCCA\n"
        (tmp_path / f"node-{node_id}" / "data" / "meta.properties").write_text(text)
    told = refusal("--data", str(tmp_path), "--port", "0")
    assert "is of cluster AAAAAAAAQACAAAAAAAAAAA and" in told
    assert "of cluster BBBBBBBBQBCBBBBBBBBBBA: use another --data" in told


def test_contradictions_are_told_in_a_line(tmp_path: Path) -> None:
    assert "--ephemeral and --data contradict each other" in refusal("--data", str(tmp_path), "--ephemeral")
    assert "--set takes NAME=VALUE, and 'x' has no '='" in refusal("--set", "x")
