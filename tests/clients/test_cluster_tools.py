"""Kafka's tools for clusters tell the same of three nodes of Ottla and of three of Kafka 4.3.1.

The same commands in both while all nodes are there, while one is away, and when it is back and leads nothing. What must
differ is masked: ports, directories, ids that are drawn, offsets of the metadata log.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.clients import eventually
from tests.support.kafka import run_java
from tests.support.nodes import Nodes

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

SOURCE = Path(__file__).parent / "ClusterTools.java"
SETTINGS = {"auto.leader.rebalance.enable": "false", "offsets.topic.num.partitions": "1"}
"""Leaders stay where they are until a command moves them."""

WITH_ALL = """
topics --create --topic placed --replica-assignment 1:2:3,2:3:1,3:1:2
topics --create --topic single --replica-assignment 2,3 --config min.insync.replicas=1
topics --create --topic pair --replica-assignment 3:1 --config min.insync.replicas=2
topics --create --topic wide --partitions 1 --replication-factor 4
topics --create --topic wrong --replica-assignment 1:9
topics --create --topic wrong --replica-assignment 1:1
topics --create --topic wrong --replica-assignment 1:2,3
topics --alter --topic placed --partitions 4 --replica-assignment 1:2:3,2:3:1,3:1:2,3:2:1
topics --alter --topic placed --partitions 5 --replica-assignment 1:2:3,2:3:1,3:1:2,3:2:1,2
topics --alter --topic placed --partitions 2
topics --describe
topics --describe --topic placed
topics --describe --at-min-isr-partitions
topics --describe --under-min-isr-partitions
topics --describe --under-replicated-partitions
topics --describe --unavailable-partitions
metadata-quorum describe --status
metadata-quorum describe --replication
metadata-quorum describe --replication --human-readable
controller metadata-quorum describe --status
controller metadata-quorum describe --replication
log-dirs --describe
log-dirs --describe --broker-list 2,3 --topic-list pair
log-dirs --describe --broker-list 1,9
leader-election --election-type preferred --all-topic-partitions
leader-election --election-type preferred --topic placed --partition 1
leader-election --election-type unclean --topic placed --partition 1
leader-election --election-type preferred --topic nowhere --partition 0
features describe
controller features describe
features upgrade --feature group.version=1
cluster cluster-id
cluster list-endpoints
cluster list-endpoints --include-fenced-brokers
controller cluster cluster-id
controller cluster list-endpoints
cluster unregister --id 9
api-versions
configs --describe --entity-type topics --entity-name pair
configs --describe --entity-type brokers
configs --alter --entity-type brokers --entity-name 2 --add-config log.cleaner.threads=2
configs --describe --entity-type brokers --entity-name 2
configs --describe --entity-type brokers --entity-name 9
configs --alter --entity-type brokers --entity-default --add-config log.retention.ms=86400000
configs --describe --entity-type brokers --entity-default
get-offsets --topic placed
get-offsets --topic-partitions single:1,pair:0
reassign --list
"""
WITH_ONE_AWAY = """
topics --describe
topics --describe --at-min-isr-partitions
topics --describe --under-min-isr-partitions
topics --describe --under-replicated-partitions
topics --describe --unavailable-partitions
topics --create --topic during --partitions 1 --replication-factor 3
topics --create --topic during --replica-assignment 3:1
metadata-quorum describe --replication
log-dirs --describe
leader-election --election-type preferred --topic placed --partition 2
leader-election --election-type unclean --topic single --partition 1
cluster list-endpoints
cluster list-endpoints --include-fenced-brokers
controller cluster list-endpoints
api-versions
get-offsets --topic placed
configs --describe --entity-type brokers --entity-name 3
"""
WITH_ALL_AGAIN = """
topics --describe
leader-election --election-type preferred --topic placed --partition 2
leader-election --election-type preferred --all-topic-partitions
leader-election --election-type preferred --all-topic-partitions
topics --describe
cluster list-endpoints --include-fenced-brokers
topics --delete --topic placed
topics --list
"""
PHASES = [[line for line in text.split("\n") if line] for text in (WITH_ALL, WITH_ONE_AWAY, WITH_ALL_AGAIN)]


def test_the_cluster_tools_tell_the_same_of_three_nodes_of_ottla_and_of_kafka(tmp_path: Path) -> None:
    ours, theirs = told(tmp_path, "ottla"), told(tmp_path, "kafka")
    commands = [f"phase {number}: {command}" for number, phase in enumerate(PHASES) for command in phase]
    differing = []
    for command, told_of_ours, told_of_theirs in zip(commands, ours, theirs, strict=True):
        if told_of_ours != told_of_theirs:
            differing += ["", command, *difference(told_of_ours, told_of_theirs)]
    assert not differing, "\n".join(differing)


def told(directory: Path, kind: str) -> list[list[str]]:
    """What the tools print of three new nodes, command by command."""
    blocks = []
    with Nodes(directory / kind, kind, SETTINGS) as nodes:
        blocks += run(nodes, PHASES[0], directory / f"{kind}-0.txt")
        nodes.servers[3].stop()
        blocks += run(nodes, PHASES[1], directory / f"{kind}-1.txt")
        nodes.start()
        eventually(lambda: nodes.is_in_sync("placed", "single", "pair"), "all replicas are in sync", 60)
        blocks += run(nodes, PHASES[2], directory / f"{kind}-2.txt")
    if kind == "ottla":
        assert nodes.errors() == []
    return blocks


def run(nodes: Nodes, commands: list[str], transcript: Path) -> list[list[str]]:
    address = nodes.addresses[1]  # the node that stays
    controller = nodes.servers[1].controller
    done = run_java(str(SOURCE), [address, controller], stdin="\n".join(commands), timeout=200)
    transcript.write_text(done.stdout)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    blocks = done.stdout.split("\n> ")
    assert len(blocks) == len(commands), done.stdout
    return [masked(nodes, command, block) for command, block in zip(commands, blocks, strict=True)]


def masked(nodes: Nodes, command: str, block: str) -> list[str]:
    """The lines that a command printed, without what differs from run to run."""
    text = block.split("\n", 1)[1]
    for number, server in nodes.servers.items():
        text = re.sub(rf"127\.0\.0\.1(:|\s+){server.port}\b", f"BROKER{number}", text)
        text = re.sub(rf"127\.0\.0\.1(:|\s+){server.controller.rpartition(':')[2]}\b", f"CONTROLLER{number}", text)
    text = text.replace(str(nodes.directory), "DIRECTORY")
    text = re.sub(r"(?<![\w-])(?=[\w-]*[a-zA-Z])[\w-]{22}(?![\w-])", "ID", text)
    lines = [line.rstrip() for line in text.split("\n") if line.strip() and not line.startswith("\tat ")]
    if "metadata-quorum" in command:
        lines = quorum(lines)
    if "log-dirs" in command:
        lines = [directories(line) for line in lines]
    if "features" in command:
        lines = [re.sub(r"Epoch: \d+", "Epoch: N", line) for line in lines]
    return sorted(re.sub(r"\s+", " ", line) for line in lines)


def quorum(lines: list[str]) -> list[str]:
    """Who leads is drawn by lot, and offsets are those of the moment; which columns there are and who votes is not."""
    told = []
    for line in lines:
        if re.match(r"\d+\s", line):  # a row of --replication: node, directory, offset, lag, two times, status
            words = line.split()
            told.append(f"NODE {words[1]} {len(words)} {words[-1]}")
        else:
            numbers = r"^(LeaderId|LeaderEpoch|HighWatermark|MaxFollowerLag\w*):(\s+)-?\d+$"
            told.append(re.sub(numbers, r"\1: N", line))
    return told


def directories(line: str) -> str:
    """Sizes are those of the moment, the order of partitions is that of a hash."""
    if not line.startswith("{"):
        return line
    found = json.loads(line)
    for broker in found["brokers"]:
        for directory in broker["logDirs"]:
            directory["partitions"].sort(key=lambda one: str(one["partition"]))
            for one in directory["partitions"]:
                one["size"] = "SIZE"
                if one["partition"].startswith("__"):
                    one["offsetLag"] = "LAG"
    return json.dumps(found)


def difference(ours: list[str], theirs: list[str]) -> list[str]:
    return [f"  ottla: {line}" for line in ours if line not in theirs] + [
        f"  kafka: {line}" for line in theirs if line not in ours
    ]  # fmt: skip
