"""Kafka's tools for groups against Ottla and against Kafka 4.3.1: the same commands, and they print the same.

`kafka-consumer-groups`, `kafka-groups`, `kafka-share-groups`, `kafka-configs` for groups, the console consumer in a
group and with the formatters of `__consumer_offsets`, the verifiable consumer and `consumer-perf-test`, in one process
(`GroupTools.java`), with members that live meanwhile. What must differ is masked: ids, ports, times, rates.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from ottla.errors import NonEmptyGroup, UnknownTopicOrPartition
from ottla.records import RecordBatchBuilder
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.support.clients import eventually
from tests.support.kafka import run_java
from tests.support.nodes import Nodes, leader_port, masked_addresses, running
from tests.support.raw import RawClient
from tests.support.server import Server

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

SOURCE = Path(__file__).parent / "GroupTools.java"
NEW_YEAR_MS = 1_767_225_600_000
"""2026-01-01, when the first record of each partition was made; the others follow by the hour."""
RECORD_COUNT = 10
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "200",
    "group.share.assignment.interval.ms": "0",
    "share.coordinator.state.topic.num.partitions": "1",
}

NOISE = ("\tat ", "null", "GroupTools$Exited")
"""Stack traces, and what a tool says of the exception that stands for its exit."""
OWN_WORDS = {
    str(NonEmptyGroup()): "The group is not empty.",
    str(UnknownTopicOrPartition()): "This server does not host this topic-partition.",
}
"""Messages that a server sends beside the code of an error, where Ottla has its own."""

READING = """
consumer-groups --list
console --topic words --group console --from-beginning --max-messages 20 --timeout-ms 20000 \
--formatter-property print.partition=true --formatter-property print.offset=true
console --topic one --group newer --from-beginning --max-messages 4 --timeout-ms 20000 \
--command-property group.protocol=consumer
verifiable --topic words --group-id verified --max-messages 20 --verbose
verifiable --topic words --group-id verified-newer --max-messages 20 \
--group-protocol consumer --group-remote-assignor range
perf --topic one --group perf --num-records 10 --timeout 20000
perf --include w.* --group perf --num-records 20 --timeout 20000 --hide-header
"""

RESETTING = """
consumer-groups --reset-offsets --group console --all-topics --to-earliest --dry-run
consumer-groups --reset-offsets --group console --all-topics --to-earliest --export
consumer-groups --reset-offsets --group console --topic words:0 --to-offset 7 --execute
consumer-groups --reset-offsets --group console --topic words --to-offset 70 --execute
consumer-groups --reset-offsets --group console --topic words --shift-by -4 --execute
consumer-groups --reset-offsets --group console --topic words --shift-by 2 --execute
consumer-groups --reset-offsets --group console --topic words --shift-by -40 --dry-run
consumer-groups --reset-offsets --group console --topic words:0 --topic words:1 --by-duration PT0S --dry-run
consumer-groups --reset-offsets --group console --topic words --by-duration P9999D --dry-run
consumer-groups --reset-offsets --group console --topic words --to-datetime 2026-01-01T02:30:00.000 --execute
consumer-groups --reset-offsets --group console --topic words --to-datetime 2036-01-01T02:30:00.000 --dry-run
consumer-groups --reset-offsets --group console --topic words --topic one --to-latest --execute
consumer-groups --reset-offsets --group console --all-topics --to-current --execute
consumer-groups --reset-offsets --group console --from-file FILE --execute
consumer-groups --reset-offsets --group console --group verified --all-topics --to-current --export --dry-run
consumer-groups --reset-offsets --all-groups --all-topics --to-earliest --dry-run
consumer-groups --reset-offsets --group made --topic words --to-latest --execute
consumer-groups --reset-offsets --group made --topic unknown --to-latest --execute
consumer-groups --reset-offsets --group made --topic words:7 --to-latest --execute
consumer-groups --reset-offsets --group unknown --all-topics --to-latest --execute
consumer-groups --reset-offsets --group newer --topic one --to-offset 3 --execute
consumer-groups --describe --group console --offsets --verbose
consumer-groups --describe --group made
"""

LIVE = """
join c1 classic classic words,one
await classic 1
join c2 classic classic words,one still
await classic 2
join n1 newer consumer words,one
await newer 1
join n2 newer consumer words
await newer 2
consumer-groups --list
consumer-groups --list --state
consumer-groups --list --state stable
consumer-groups --list --state empty,dead
consumer-groups --list --state wrong
consumer-groups --list --type
consumer-groups --list --type consumer
consumer-groups --list --type classic --state stable
consumer-groups --list --type share
consumer-groups --describe --group classic
consumer-groups --describe --group classic --state
consumer-groups --describe --group classic --state --verbose
consumer-groups --describe --group classic --members
consumer-groups --describe --group classic --members --verbose
consumer-groups --describe --group newer
consumer-groups --describe --group newer --offsets --verbose
consumer-groups --describe --group newer --state --verbose
consumer-groups --describe --group newer --members --verbose
consumer-groups --describe --all-groups
consumer-groups --describe --all-groups --state
consumer-groups --describe --all-groups --members
consumer-groups --describe --group unknown
consumer-groups --describe --group unknown --members
consumer-groups --describe --group unknown --state
consumer-groups --reset-offsets --group classic --topic words --to-earliest --execute
consumer-groups --reset-offsets --group newer --topic words --to-earliest --execute
consumer-groups --delete-offsets --group newer --topic one
consumer-groups --delete --group classic
consumer-groups --delete --group newer --group unknown
configs --describe --entity-type groups --entity-name newer
configs --alter --entity-type groups --entity-name newer \
--add-config consumer.session.timeout.ms=50000,consumer.heartbeat.interval.ms=300
configs --alter --entity-type groups --entity-name newer --add-config consumer.session.timeout.ms=1
configs --alter --entity-type groups --entity-name newer --add-config wrong.name=1
configs --alter --entity-type groups --entity-name newer --add-config share.auto.offset.reset=sometime
configs --describe --entity-type groups --entity-name newer
configs --describe --entity-type groups --entity-name newer --all
configs --describe --entity-type groups
configs --alter --entity-type groups --entity-name newer --delete-config consumer.session.timeout.ms
configs --describe --group newer
leave n2
await newer 1
consumer-groups --describe --group newer --members --verbose
leave c1
await classic 1
leave c2
leave n1
await newer 0
"""

SHARED = """
share-groups --list
share-groups --describe --group share-unknown
share-groups --reset-offsets --group share-g --topic words --to-earliest --execute
share-groups --reset-offsets --group share-g --topic one --to-datetime 2026-01-01T02:30:00.000 --dry-run
share-groups --reset-offsets --group share-g --all-topics --to-latest --dry-run
share-groups --describe --group share-g
join s1 share-g share words
await share-g 1
share-groups --list --state
share-groups --list --state stable
share-groups --describe --group share-g --state --verbose
share-groups --describe --group share-g --members --verbose
share-groups --describe --all-groups --members
share-groups --reset-offsets --group share-g --topic words --to-earliest --execute
share-groups --delete-offsets --group share-g --topic words
share-groups --delete --group share-g
consumer-groups --describe --group share-g
share-groups --describe --group console
leave s1
await share-g 0
groups --list
groups --list --group-type classic
groups --list --protocol consumer
groups --list --consumer
groups --list --share
groups --list --streams
share-groups --delete-offsets --group share-g --topic words --topic unknown
share-groups --delete --group share-g
share-groups --delete --group share-g
"""

DELETING = """
consumer-groups --delete-offsets --group console --topic words:0 --topic one
consumer-groups --delete-offsets --group console --topic words:5
consumer-groups --delete-offsets --group console --topic unknown
consumer-groups --delete-offsets --group unknown --topic words
consumer-groups --describe --group console
consumer-groups --delete --group console
consumer-groups --delete --group console --group made
consumer-groups --delete --group newer
consumer-groups --delete --all-groups
consumer-groups --list
"""

FORMATTED = """
console --topic __consumer_offsets --partition 0 --offset earliest --timeout-ms 3000 \
--formatter org.apache.kafka.tools.consumer.OffsetsMessageFormatter
console --topic __consumer_offsets --partition 0 --offset earliest --timeout-ms 3000 \
--formatter org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter
"""

COMMANDS = "".join([READING, RESETTING, LIVE, SHARED, DELETING, FORMATTED]).split("\n")
COMMANDS = [line for line in COMMANDS if line]


def test_the_tools_for_groups_tell_the_same_of_ottla_and_of_kafka(tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text("words,0,3\nwords,1,100\n")
    commands = [command.replace("FILE", str(file)) for command in COMMANDS]
    with filled(tmp_path / "ottla", "ottla") as ottla, filled(tmp_path / "kafka", "kafka") as kafka:
        done = run_java(str(SOURCE), [ottla.address, kafka.address], stdin="\n".join(commands), timeout=250)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr
        printed = masked_addresses(kafka, masked_addresses(ottla, done.stdout))
    (tmp_path / "printed.txt").write_text(printed)
    assert ottla.errors() == []
    blocks = printed.split("\n> ")
    assert len(blocks) == 2 * len(commands)
    differing = []
    for command, ours, theirs in zip(commands, blocks[: len(commands)], blocks[len(commands) :], strict=True):
        told_of_ours, told_of_theirs = masked(command, ours), masked(command, theirs)
        if told_of_ours != told_of_theirs:
            differing += ["", command, *difference(told_of_ours, told_of_theirs)]
    assert not differing, "\n".join(differing)


@contextmanager
def filled(directory: Path, kind: str) -> Iterator[Server | Nodes]:
    """A new cluster with two topics: `words` of two partitions, `one` of one, ten records in each partition."""
    with running(kind, directory, SETTINGS) as server:
        for topic, partition_count in (("words", 2), ("one", 1)):
            with RawClient(server.port) as client:
                client.create_topic(topic, {"retention.ms": "-1"}, partitions=partition_count)
            for partition in range(partition_count):
                with RawClient(leader_port(server.port, topic, partition)) as client:
                    eventually(partial(produce, client, topic, partition), f"a leader of {topic}-{partition}")
        yield server


def produce(client: RawClient, topic: str, partition: int) -> bool:
    builder = RecordBatchBuilder()
    for number in range(RECORD_COUNT):
        builder.append(NEW_YEAR_MS + number * 3_600_000, None, b"%d" % number)
    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(partition, builder.build())])]
    response = client.send(ProduceRequest(None, -1, 1000, data), 9, ProduceResponse)
    return response.responses[0].partition_responses[0].error_code == 0


def masked(command: str, block: str) -> list[str]:
    """The lines that a command printed, without what differs from run to run."""
    block = block.replace("}{", "}\n{").replace("}Processed", "}\nProcessed")
    lines = [line for line in block.split("\n")[1:] if line.strip() and not line.startswith(NOISE)]
    tool = command.split()[0]
    if tool == "verifiable":
        return verified(lines)
    if tool == "perf":
        lines = [measured(line) for line in lines]
    text = "\n".join(lines)
    text = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "UUID", text)
    text = re.sub(r"(?<![\w-])(?=[\w-]*[a-z])[\w-]{22}(?![\w-])", "ID", text)
    text = re.sub(r"\b1[789]\d{11}\b", "TIME", text)
    text = re.sub(r'"metadataHash":-?\d+', '"metadataHash":HASH', text)
    for ours, theirs in OWN_WORDS.items():
        text = text.replace(ours, theirs)
    if command.startswith("console --topic __"):
        return formatted(text.split("\n"))
    return sorted(text.split("\n"))


def formatted(lines: list[str]) -> list[str]:
    """What a formatter wrote, key by key, for Kafka deletes groups in the order of a hash; so with members of a group.
    The number that a client without a name adds to its own is that of a process; how many records there are of members
    on their way from one assignment to the next depends on when they ask."""
    records = [re.sub(r"-\d+(-UUID)?\"", r'-N\1"', line) for line in lines if line.startswith("{")]
    in_order = []
    for record in records:
        found = json.loads(record.replace(":TIME", ":0"))
        data = (found["value"] or {}).get("data", {})
        if "members" in data:
            data["members"].sort(key=lambda member: str(member["memberId"]))
        in_order.append((json.dumps(found["key"]), json.dumps(found["value"])))
    in_order.sort(key=lambda pair: pair[0])  # stable: what was written of one key stays in the order of writing
    return [f"{key} {value}" for key, value in in_order]


def measured(line: str) -> str:
    """Of the figures of consumer-perf-test: how much was read."""
    figures = line.split(", ")
    return ", ".join([figures[2], figures[4]]) if figures[0].startswith("20") else line


def verified(lines: list[str]) -> list[str]:
    """What the verifiable consumer says, however its polls divided the records.

    That it was assigned nothing depends on whether it asks while an assignment is made.
    """
    counts: Counter[str] = Counter()
    told = []
    for line in lines:
        if not line.startswith("{"):
            told.append(line)
            continue
        event = json.loads(line)
        event.pop("timestamp")
        if event["name"] == "records_consumed":
            for partition in event["partitions"]:
                counts[f"{partition['topic']}-{partition['partition']}"] += partition["count"]
        elif event["name"] == "offsets_committed":
            counts.update({f"{p['topic']}-{p['partition']} committed": 0 for p in event["offsets"]})
        elif event.get("partitions") != []:
            told.append(json.dumps(event, sort_keys=True))
    return sorted(told) + [f"{name} {count}" for name, count in sorted(counts.items())]


def difference(ours: list[str], theirs: list[str]) -> list[str]:
    return [f"  ottla: {line}" for line in ours if line not in theirs] + [
        f"  kafka: {line}" for line in theirs if line not in ours
    ]  # fmt: skip
