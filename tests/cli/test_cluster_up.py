"""`ottla cluster up`: a cluster of processes, from its first start to its next one."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fcntl import ioctl
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its types leave it out

from tests.support.server import OTTLA

PATIENCE_S = 60.0
QUICK = ("--set", "broker.session.timeout.ms=3000", "--set", "broker.heartbeat.interval.ms=300")


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
    with cluster_up(tmp_path / "data", *QUICK, "--no-restart") as up:
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
        for node in up.nodes.values():
            assert node["resident_bytes"] == pytest.approx(resident_bytes(node["pid"]), rel=0.2)
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


def test_a_stopped_follower_lags_by_what_its_leader_appends_until_it_has_fetched_that(tmp_path: Path) -> None:
    """The lag was never anything but 0: DescribeLogDirs measures it from the replica's own high watermark."""
    with cluster_up(tmp_path / "data", *QUICK, "--set", "auto.leader.rebalance.enable=false") as up:
        up.read_until(lambda: bool(up.address))
        follower = up.nodes[3]["pid"]
        admin = AdminClient({"bootstrap.servers": up.address})
        admin.create_topics([NewTopic("t", 1, replica_assignment=[[1, 3]])])["t"].result(PATIENCE_S)
        up.read_until(lambda: up.nodes[3]["in_sync"] == 1)
        producer = Producer({"bootstrap.servers": up.address, "acks": "1", "log_level": 0})
        for _ in range(10):
            producer.produce("t", b"replicated", partition=0)
        assert producer.flush(PATIENCE_S) == 0
        assert up.nodes[3]["lag"] == 0
        os.kill(follower, signal.SIGSTOP)
        try:
            for _ in range(30):
                producer.produce("t", b"not yet replicated", partition=0)
            assert producer.flush(PATIENCE_S) == 0
            up.read_until(lambda: (up.nodes[3]["state"], up.nodes[3]["in_sync"]) == ("fenced", 0))
            assert 30 <= up.nodes[3]["lag"] <= 40
            assert up.nodes[1]["lag"] == 0
        finally:
            os.kill(follower, signal.SIGCONT)
        up.read_until(lambda: (up.nodes[3]["state"], up.nodes[3]["in_sync"]) == ("running", 1))
        assert up.nodes[3]["lag"] == 0
        assert up.end() == 0


def resident_bytes(pid: int) -> int:
    """What the system says of a process, as `ps` shows it."""
    (line,) = (one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if one.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def test_a_node_that_dies_is_started_again_and_counted(tmp_path: Path) -> None:
    with cluster_up(tmp_path / "data", *QUICK, "--restart-after", "0.5") as up:
        up.read_until(lambda: bool(up.address))
        for count in (1, 2):
            before = up.nodes[2]["pid"]
            os.kill(before, signal.SIGKILL)
            up.read_until(lambda: up.nodes[2]["state"] == "ended")
            assert (up.nodes[2]["why"], up.nodes[2]["restarts"]) == ("killed by SIGKILL", count - 1)
            up.read_until(lambda: up.nodes[2]["state"] in ("running", "active"))
            assert up.nodes[2]["restarts"] == count
            assert up.nodes[2]["pid"] != before
        assert [up.nodes[one]["restarts"] for one in (1, 3)] == [0, 0]
        assert up.end() == 0


def test_nodes_that_all_end_by_themselves_end_the_command_with_their_reasons(tmp_path: Path) -> None:
    """It went on for ever, with nothing to show."""
    done = subprocess.run(
        [*OTTLA, "cluster", "up", "--data", str(tmp_path), "--port", "0", "--set", "process.roles=", "--nodes", "2"],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("ottla: node 1: exit code 1: ")
    assert "\nnode 2: exit code 1: " in done.stderr
    assert "process.roles" in done.stderr


class Terminal:
    """A terminal, and the command that runs in it."""

    def __init__(self, command: list[str], *, columns: int, lines: int) -> None:
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.execvp(command[0], command)
        ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self._is_open = True
        self.text = ""

    def read_until(self, word: str) -> None:
        while word not in self.text:
            self.text += os.read(self._fd, 65536).decode()

    def press_ctrl_c(self) -> None:
        os.write(self._fd, b"\x03")

    def close(self) -> None:
        """As when its window is closed."""
        self._is_open = False
        os.close(self._fd)

    def wait(self) -> int:
        """Read until the command has ended; its exit code."""
        with suppress(OSError):  # the other side is closed
            while self._is_open:
                self.text += os.read(self._fd, 65536).decode()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def pids_of_nodes(directory: Path) -> list[int]:
    found = subprocess.run(["pgrep", "-f", f"{directory}/.*/server.properties"], capture_output=True, check=False)
    return [int(line) for line in found.stdout.split()]


def in_terminal(tmp_path: Path, *options: str, columns: int = 80, lines: int = 24) -> Terminal:
    command = ["env", f"TMPDIR={tmp_path}", *OTTLA, "cluster", "up", "--ephemeral", "--port", "0", *options]
    return Terminal(command, columns=columns, lines=lines)


def test_closing_the_terminal_ends_the_nodes_in_order_and_leaves_nothing(tmp_path: Path) -> None:
    """SIGHUP ended the command before its nodes, and its ephemeral directory stayed."""
    terminal = in_terminal(tmp_path)
    terminal.read_until("ottla is ready at")
    pids = pids_of_nodes(tmp_path)
    assert len(pids) == 3
    logs = [os.open(one, os.O_RDONLY) for one in tmp_path.glob("ottla-*/node-*/server.log")]
    terminal.close()
    assert terminal.wait() == 0
    assert not any(map(is_alive, pids))
    assert not list(tmp_path.glob("ottla-*"))
    assert all(b"Shut down completed" in os.read(log, 1 << 20) for log in logs)
    for log in logs:
        os.close(log)


def test_ctrl_c_twice_kills_the_nodes_and_leaves_nothing(tmp_path: Path) -> None:
    """The second one left the nodes running, and took away the directories under them."""
    terminal = in_terminal(tmp_path)
    terminal.read_until("ottla is ready at")
    pids = pids_of_nodes(tmp_path)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)  # they cannot end in order
    terminal.press_ctrl_c()
    terminal.read_until("ottla is stopping (Ctrl-C once more kills the nodes)")
    assert all(map(is_alive, pids))
    terminal.press_ctrl_c()
    terminal.read_until("ended")
    assert terminal.wait() == 0
    assert not any(map(is_alive, pids))
    assert not list(tmp_path.glob("ottla-*"))


def test_a_pipe_that_is_closed_ends_the_nodes_in_order(tmp_path: Path) -> None:
    command = ["env", f"TMPDIR={tmp_path}", *OTTLA, "cluster", "up", "--ephemeral", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while "ready" not in process.stdout.readline():
            assert process.poll() is None
        pids = pids_of_nodes(tmp_path)
        process.stdout.close()
        os.kill(pids[0], signal.SIGKILL)  # there is something to tell, and nobody to tell it to
        assert process.wait(PATIENCE_S) == 0
    assert not any(map(is_alive, pids))
    assert not list(tmp_path.glob("ottla-*"))


def test_no_line_of_the_table_is_longer_than_a_narrow_terminal_and_none_too_many(tmp_path: Path) -> None:
    """A line that the terminal wraps is two, and the next table was drawn over the wrong one."""
    terminal = in_terminal(tmp_path, "--nodes", "3", columns=50, lines=5)
    terminal.read_until("ottla is ready at")
    terminal.press_ctrl_c()
    terminal.read_until("stopping")
    assert terminal.wait() == 0
    drawn = re.findall(r"(NODE.*?)\x1b\[J", terminal.text, re.DOTALL)
    assert drawn
    for table in drawn:
        lines = table.replace("\x1b[K", "").split("\r\n")[:-1]
        assert max(map(len, lines)) <= 50
        assert len(lines) == 3
        assert lines[-1] == "... and 2 more"


def test_the_table_tells_the_lag_and_the_memory_of_each_node(tmp_path: Path) -> None:
    terminal = in_terminal(tmp_path, "--nodes", "2", columns=120, lines=24)
    terminal.read_until("ottla is ready at")
    (pid, *_) = pids_of_nodes(tmp_path)
    size_mib = resident_bytes(pid) / 1024**2
    terminal.press_ctrl_c()
    terminal.read_until("stopping")
    assert terminal.wait() == 0
    rows = re.findall(
        r"^\d+ +broker\+controller  (?:running|active)  +0  +0  +0/0  +0  +(\d+) MiB", terminal.text, re.M
    )
    assert rows
    for row in rows:
        assert int(row) == pytest.approx(size_mib, rel=0.5)


def test_controllers_of_their_own_are_no_brokers(tmp_path: Path) -> None:
    with cluster_up(tmp_path / "data", "--nodes", "1", "--controllers", "1") as up:
        up.read_until(lambda: bool(up.address))
        assert {node_id: node["roles"] for node_id, node in up.nodes.items()} == {1: "broker", 101: "controller"}
        up.read_until(lambda: up.nodes[101]["state"] == "active")
        assert up.end() == 0


def test_three_controllers_of_their_own_are_a_quorum_that_outlives_one_of_them(tmp_path: Path) -> None:
    options = ("--nodes", "1", "--controllers", "3", "--no-restart")
    with cluster_up(tmp_path / "data", *options) as up:
        up.read_until(lambda: bool(up.address))
        roles = {node_id: node["roles"] for node_id, node in up.nodes.items()}
        assert roles == {1: "broker", 101: "controller", 102: "controller", 103: "controller"}
        controllers = [up.nodes[one] for one in (101, 102, 103)]
        up.read_until(lambda: sorted(up.nodes[one]["state"] for one in (101, 102, 103)) == ["active", *["running"] * 2])
        (active,) = (node_id for node_id, node in up.nodes.items() if node["state"] == "active")
        assert active != 1
        assert all(node["leaders"] is None for node in controllers)
        os.kill(up.nodes[active]["pid"], signal.SIGKILL)
        rest = {101, 102, 103} - {active}
        up.read_until(lambda: any(up.nodes[one]["state"] == "active" for one in rest))
        admin = AdminClient({"bootstrap.servers": up.address})
        admin.create_topics([NewTopic("t", 2, 1)])["t"].result(PATIENCE_S)
        up.read_until(lambda: up.nodes[1]["leaders"] == 2)
        assert up.end() == 0
        assert {up.nodes[one]["why"] for one in rest} == {"exit code 0"}


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


def test_data_of_other_nodes_is_told_in_a_line(tmp_path: Path) -> None:
    """It was started with other voters than its quorum had."""
    for node_id, roles in ((1, "broker"), (2, "broker"), (101, "controller")):
        directory = tmp_path / f"node-{node_id}"
        (directory / "data").mkdir(parents=True)
        text = f"version=1\nnode.id={node_id}\ncluster.id=AAAAAAAAQACAAAAAAAAAAA\ndirectory.id=CCCCCCCCQCCCCCCCCCCCCA\n"
        (directory / "data" / "meta.properties").write_text(text)
        (directory / "server.properties").write_text(f"process.roles={roles}\n")
    expected = f"{tmp_path} holds a cluster of --nodes 2 --controllers 1: say so, or use another --data"
    for options in (
        (),
        ("--nodes", "2"),
        ("--nodes", "2", "--controllers", "3"),
        ("--nodes", "1", "--controllers", "1"),
    ):
        assert expected in refusal("--data", str(tmp_path), "--port", "0", *options)


def test_a_directory_that_cannot_be_written_is_told_in_a_line() -> None:
    assert "cannot write to /proc/" in refusal("--data", "/proc/ottla", "--port", "0")


def test_an_address_of_its_own_is_where_clients_are_sent(tmp_path: Path) -> None:
    """The command looked for its nodes at 127.0.0.1, whatever the host, and was never ready."""
    with cluster_up(tmp_path / "data", "--nodes", "1", "--host", "127.0.0.2") as up:
        up.read_until(lambda: bool(up.address))
        assert up.address.startswith("127.0.0.2:")
        assert up.end() == 0
