"""Kafka's tools for clusters tell the same of three nodes of Ottla and of three of Kafka 4.3.1 (in golden/).

The same commands in both while all nodes are there, while one is away, and when it is back and leads nothing. What must
differ is masked: ports, directories, ids that are drawn, offsets of the metadata log.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from ottla.errors import EligibleLeadersNotAvailable, PreferredLeaderNotAvailable
from tests.support.clients import eventually
from tests.support.kafka import run_java
from tests.support.nodes import Nodes

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

SOURCE = Path(__file__).parent / "ClusterTools.java"
TOLD_OF_KAFKA = Path(__file__).parent.parent / "golden" / "cluster-tools.txt"
"""Written by `OTTLA_SOAK=1 pytest --rewrite tests/clients/test_cluster_tools.py`."""
SETTINGS = {"auto.leader.rebalance.enable": "false", "offsets.topic.num.partitions": "1"}
"""Leaders stay where they are until a command moves them."""
STAYS, AWAY = 1, 2
UNSERVED = (
    "AddRaftVoter", "AlterClientQuotas", "AlterReplicaLogDirs", "AlterUserScramCredentials", "CreateAcls",
    "CreateDelegationToken", "DeleteAcls", "DescribeAcls", "DescribeClientQuotas", "DescribeDelegationToken",
    "DescribeUserScramCredentials", "ExpireDelegationToken", "RemoveRaftVoter", "RenewDelegationToken",
)  # fmt: skip
"""What Ottla does not serve yet, and so does not advertise."""
OWN_WORDS = {
    str(PreferredLeaderNotAvailable()): "The preferred leader was not available.",
    str(EligibleLeadersNotAvailable()): "Eligible topic partition leaders are not available.",
}
"""Messages that a server sends beside the code of an error, where Ottla has its own."""

WITH_ALL = """
topics --create --topic placed --replica-assignment 1:2:3,2:3:1,3:1:2
topics --create --topic single --replica-assignment 2,3 --config min.insync.replicas=1
topics --create --topic pair --replica-assignment 2:1 --config min.insync.replicas=2
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
await-config 2 log.cleaner.threads 2
configs --describe --entity-type brokers --entity-name 2
configs --describe --entity-type brokers --entity-name 9
configs --alter --entity-type brokers --entity-default --add-config log.retention.ms=86400000
await-config 1 log.retention.ms 86400000
await-config 2 log.retention.ms 86400000
await-config 3 log.retention.ms 86400000
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
topics --create --topic during --replica-assignment 2:1
metadata-quorum describe --replication
log-dirs --describe
leader-election --election-type preferred --topic placed --partition 1
leader-election --election-type unclean --topic single --partition 0
cluster list-endpoints
cluster list-endpoints --include-fenced-brokers
controller cluster list-endpoints
api-versions
get-offsets --topic placed
configs --describe --entity-type brokers --entity-name 2
topics --create --topic drawn --partitions 1 --replication-factor 3
topics --delete --topic drawn
"""
WITH_ALL_AGAIN = """
topics --describe
leader-election --election-type preferred --topic placed --partition 1
leader-election --election-type preferred --all-topic-partitions
leader-election --election-type preferred --all-topic-partitions
topics --describe
cluster list-endpoints --include-fenced-brokers
topics --delete --topic placed
topics --list
"""
PHASES = [[line for line in text.split("\n") if line] for text in (WITH_ALL, WITH_ONE_AWAY, WITH_ALL_AGAIN)]


def test_the_cluster_tools_tell_of_three_nodes_what_they_tell_of_kafkas(tmp_path: Path) -> None:
    assert told(tmp_path, "ottla") == TOLD_OF_KAFKA.read_text(encoding="utf-8").splitlines()


@pytest.mark.skipif(not os.environ.get("OTTLA_SOAK"), reason="what is said of Kafka does not change")
def test_they_tell_that_of_kafka(tmp_path: Path, rewrite: bool) -> None:
    lines = told(tmp_path, "kafka")
    if rewrite:
        TOLD_OF_KAFKA.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert lines == TOLD_OF_KAFKA.read_text(encoding="utf-8").splitlines()


def told(directory: Path, kind: str) -> list[str]:
    """What the tools print of three new nodes, command by command."""
    lines = []
    with Nodes(directory / kind, kind, SETTINGS) as nodes:
        lines += run(nodes, PHASES[0])
        nodes.servers[AWAY].stop()
        lines += run(nodes, PHASES[1])
        nodes.start()
        eventually(lambda: nodes.is_in_sync("placed", "single", "pair", "during"), "all replicas are in sync", 60)
        lines += run(nodes, PHASES[2])
    if kind == "ottla":
        assert nodes.errors() == []
    return lines


def run(nodes: Nodes, commands: list[str]) -> list[str]:
    address, controller = nodes.addresses[STAYS], nodes.servers[STAYS].controller
    done = run_java(str(SOURCE), [address, controller], stdin="\n".join(commands), timeout=200)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    blocks = f"\n{done.stdout}".split("\n> ")[1:]
    assert len(blocks) == len(commands), done.stdout
    told = list(zip(commands, blocks, strict=True))
    assert all("exit 0" in block for command, block in told if is_wait(command)), done.stdout
    said = [(command, block) for command, block in told if not is_wait(command)]
    return [line for command, block in said for line in ("", f"> {command}", *masked(nodes, command, block))]


def is_wait(command: str) -> bool:
    return command.startswith("await-")


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
    if "api-versions" in command:
        lines = [line for line in lines if not any(f"{name}(" in line for name in UNSERVED)]
    for ours, theirs in OWN_WORDS.items():
        lines = [line.replace(ours, theirs) for line in lines]
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
