"""Kafka's `kafka-transactions` tool and the formatter of its console consumer: against Ottla and against Kafka 4.3.1.

The same transactions in both, one that hangs among them, and the same commands: the tools print the same.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ottla.records import RecordBatchBuilder
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.support.clients import eventually
from tests.support.kafka import run_java
from tests.support.nodes import TRANSACTION, Nodes, coordinator_port, leader_port, running
from tests.support.raw import RawClient
from tests.support.server import Server

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

SOURCE = Path(__file__).parent / "TransactionTools.java"
TIMEOUT_MS = 60_000
SETTINGS = {"transaction.partition.verification.enable": "false", "transaction.state.log.num.partitions": "1"}
COMMANDS = [
    "transactions list",
    "transactions list --duration-filter 0 --transactional-id-pattern .*en",
    "transactions describe --transactional-id open",
    "transactions describe --transactional-id committed",
    "transactions describe --transactional-id unknown",
    "transactions describe-producers --topic t --partition 0",
    "transactions describe-producers --broker-id 1 --topic t --partition 1",
    "transactions find-hanging --broker-id 1 --max-transaction-timeout 0",
    "transactions find-hanging --topic t --partition 1 --max-transaction-timeout 0",
    "transactions abort --topic t --partition 1 --start-offset 5",
    "transactions abort --topic t --partition 1 --start-offset 0",
    "transactions find-hanging --broker-id 1 --max-transaction-timeout 0",
    "transactions describe-producers --topic t --partition 1",
    "transactions forceTerminateTransaction --transactionalId open",
    "transactions describe --transactional-id open",
    "console --topic __transaction_state --partition 0 --offset earliest --timeout-ms 3000 --max-messages 11 "
    "--formatter org.apache.kafka.tools.consumer.TransactionLogMessageFormatter",
]


def test_the_transaction_tools_tell_the_same_of_ottla_and_of_kafka(tmp_path: Path) -> None:
    ours = told(tmp_path / "ottla", "ottla")
    theirs = told(tmp_path / "kafka", "kafka")
    assert len(ours) == len(theirs) == len(COMMANDS)
    for command, told_of_ours, told_of_theirs in zip(COMMANDS, ours, theirs, strict=True):
        assert told_of_ours == told_of_theirs, command
    text = "\n".join(line for block in ours for line in block)
    assert re.search(r"^t\s+1\s+1\s+0\s+-1\s+0\s+TIME", text, re.MULTILINE), "the hanging transaction is found"
    assert '"transactionStatus":4' in text, "the formatter shows that one was committed"


def told(directory: Path, kind: str) -> list[list[str]]:
    """What the tools print of a new cluster, command by command, without what differs from run to run."""
    with running(kind, directory, SETTINGS) as server:
        fill(server)
        commands = "\n".join(one.replace(" ", f" --bootstrap-server {server.address} ", 1) for one in COMMANDS)
        done = run_java(str(SOURCE), [], stdin=commands, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        if server.name == "ottla":
            assert server.errors() == []
    blocks: list[list[str]] = []
    command = ""
    for line in done.stdout.replace("}}}{", "}}}\n{").splitlines():
        if line.startswith("> "):
            blocks.append([])
            command = line
        else:
            blocks[-1].append(without_coordinator(command, without_times(line)))
    return [sorted(block) for block in blocks]


def fill(server: Server | Nodes) -> None:
    """Transactions in three states, and one that no coordinator knows of."""
    with RawClient(server.port) as client:
        client.create_topic("t", partitions=2)
    if isinstance(server, Nodes):
        server.await_topic("t")
    with (
        RawClient(coordinator_port(server.port, "tx", TRANSACTION)) as client,
        RawClient(leader_port(server.port, "t", 0)) as first,
        RawClient(leader_port(server.port, "t", 1)) as second,
    ):
        transact(client, first, second)


def transact(client: RawClient, first: RawClient, second: RawClient) -> None:
    """Through the coordinator, and the leaders of the two partitions."""
    opened = begin(client, "open")
    add(client, "open", opened)
    produce(first, "open", opened, 0)
    produce(second, "hanging", begin(client, "hanging"), 1)
    begin(client, "empty")
    committed = begin(client, "committed")
    add(client, "committed", committed)
    produce(first, "committed", committed, 0)

    def is_committed() -> bool:
        """Answered with success at first, and again when it is complete."""
        return not client.send(EndTxnRequest("committed", committed, 0, True), 4, EndTxnResponse).error_code

    assert is_committed()
    eventually(is_committed, "the end of the transaction")


def begin(client: RawClient, transactional_id: str) -> int:
    found: list[int] = []

    def is_begun() -> bool:
        response = client.send(InitProducerIdRequest(transactional_id, TIMEOUT_MS), 4, InitProducerIdResponse)
        found.append(response.producer_id)
        return not response.error_code

    eventually(is_begun, f"a producer for {transactional_id}")
    return found[-1]


def add(client: RawClient, transactional_id: str, producer_id: int) -> None:
    topics = [AddPartitionsToTxnTopic("t", [0])]
    request = AddPartitionsToTxnRequest([], transactional_id, producer_id, 0, topics)
    response = client.send(request, 3, AddPartitionsToTxnResponse)
    assert response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0


def produce(client: RawClient, transactional_id: str, producer_id: int, partition: int) -> None:
    builder = RecordBatchBuilder(producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)
    builder.append(1_767_225_600_000, None, b"record")
    data = [TopicProduceData("t", partition_data=[PartitionProduceData(partition, builder.build())])]
    response = client.send(ProduceRequest(transactional_id, -1, 1000, data), 9, ProduceResponse)
    assert response.responses[0].partition_responses[0].error_code == 0, response


def without_times(line: str) -> str:
    """What does not depend on when it was asked."""
    line = re.sub(r"\b1\d{12}\b", "TIME", line)
    # With the blanks that fill the column: how many there are depends on how many digits the time has.
    return re.sub(r"(TIME\s*)\d{3,} *", r"\1DURATION", line).rstrip()


def without_coordinator(command: str, line: str) -> str:
    """Which of several brokers coordinates is drawn by lot."""
    if "transactions" in command and " list" in command:
        return re.sub(r"^(\S+\s*\t)\d+\s*\t", r"\1COORDINATOR\t", line)
    if " describe " in command:
        return re.sub(r"^\d+\s*\t", "COORDINATOR\t", line)
    return line
