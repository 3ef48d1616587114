"""A broker for the tools, the tools of Kafka in one process, and ours called as a shell calls them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from ottla.cli.main import main
from ottla.testing import Cluster
from tests.support.kafka import java_command
from tests.support.server import Server, Settings, run_ottla

SOURCE = Path(__file__).parent / "KafkaTools.java"
CLASSES = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "streams-application-reset": "org.apache.kafka.tools.StreamsResetter",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
}


class Done(NamedTuple):
    """How a tool ended and what it printed."""

    code: int
    out: str
    err: str


def text(data: bytes) -> str:
    """What was printed, which need not be UTF-8."""
    return data.decode(errors="surrogateescape")


Run = Callable[..., Done]
"""`run("topics", "--list")`: the broker's address is added, `at=` is another; `stdin=` is what it reads."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    # Records of tests have timestamps of long ago, and a slow test may see retention at work.
    settings = {
        "auto.create.topics.enable": "false",
        "log.retention.ms": "-1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
    }
    with Cluster(settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real Kafka, for what Ottla does not serve yet."""
    directory = tmp_path_factory.mktemp("kafka")
    properties = Settings(directory / "data").write(directory / "server.properties")
    made = run_ottla("storage", "format", "-t", "A" * 21 + "Q", "-c", properties)
    assert made.returncode == 0, made.stderr
    with Server.kafka(properties) as server:
        yield server.address


@pytest.fixture(scope="module")
def ottla(cluster: Cluster) -> Run:
    """Our tools, in this process."""

    def run(tool: str, *arguments: str, stdin: str | bytes = b"", at: str = "") -> Done:
        words = [tool, "--bootstrap-server", at or cluster.bootstrap_servers, *arguments]
        done = CliRunner().invoke(main, words, input=stdin, catch_exceptions=False)
        return Done(done.exit_code, text(done.stdout_bytes), text(done.stderr_bytes))

    return run


@pytest.fixture(scope="module")
def kafka(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Kafka's tools, all in one process, because each JVM takes seconds to start."""
    with subprocess.Popen(
        java_command(str(SOURCE), []), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        given, printed = process.stdin, process.stdout
        assert given is not None
        assert printed is not None

        def run(tool: str, *arguments: str, stdin: str | bytes = b"", at: str = "") -> Done:
            source = tmp_path_factory.mktemp("stdin") / "in"
            source.write_bytes(stdin.encode() if isinstance(stdin, str) else stdin)
            words = [CLASSES[tool], str(source), "--bootstrap-server", at or cluster.bootstrap_servers, *arguments]
            assert not any(set(word) & set("\t\n") for word in words), "they are between the words and the commands"
            given.write(("\t".join(words) + "\n").encode())
            given.flush()
            head = printed.readline().split()
            assert len(head) == 3, "the JVM has ended"
            code, out_size, err_size = map(int, head)
            return Done(code, text(printed.read(out_size)), text(printed.read(err_size)))

        yield run
        given.close()
