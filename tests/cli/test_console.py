"""The console producer and consumer: ours and Kafka's, side by side on one broker."""

from __future__ import annotations

import itertools
import re
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.testing import Cluster
from tests.cli.conftest import Run

_numbers = itertools.count()
FORMATTERS = "org.apache.kafka.tools.consumer"
SERIALIZATION = "org.apache.kafka.common.serialization"


def new_topic(cluster: Cluster, partitions: int = 1) -> str:
    return cluster.create_topic(f"console-{next(_numbers)}", partitions)


def contents(cluster: Cluster, topic: str, count: int) -> list[tuple[object, ...]]:
    """Key, value and headers of the records of partition 0."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "contents"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[object, ...]] = []
    while len(found) < count:
        message = consumer.poll(20)
        assert message is not None, f"only {found} came"
        found.append((message.key(), message.value(), message.headers()))
    consumer.close()
    return found


LINES: tuple[tuple[list[str], str], ...] = (
    ([], "one\ntwo\n\nlast without an end"),
    (["parse.key=true"], "k1\tv1\nk2\tv2\tstill v2\n\tempty key\n"),
    (["parse.key=true", "key.separator=:", "null.marker=NULL"], "a:1\nNULL:2\nb:NULL\n"),
    (["parse.headers=true"], "h1:v1,h2:v2\tvalue\nh:\tno header value\n"),
    (["parse.headers=true", "parse.key=true", "null.marker=N"], "h:N,i:j\tkey\tvalue\nN\tkey\tN\n"),
    (["parse.headers=true", "headers.delimiter=|", "headers.separator=;", "headers.key.separator=="], "a=1;b=2|x\n"),
    (["parse.key=true", "parse.headers=true", "ignore.error=true"], "no headers\nh:v\tonly headers\nx\ty\tz\n"),
    (["parse.key=TRUE "], "ümlaut\t日本 😀\n"),
)


@pytest.mark.java
def test_lines_become_the_records_that_kafka_makes_of_them(ottla: Run, kafka: Run, cluster: Cluster) -> None:
    for properties, text in LINES:
        options = [word for one in properties for word in ("--reader-property", one)]
        found = []
        for run in (ottla, kafka):
            topic = new_topic(cluster)
            done = run("console-producer", "--topic", topic, "--timeout", "0", *options, stdin=text)
            assert (done.code, done.out) == (0, ""), done.err
            found.append(contents(cluster, topic, len(text.splitlines())))
        assert found[0] == found[1], properties


@pytest.mark.java
def test_lines_that_kafka_refuses_are_refused_in_a_line(ottla: Run, kafka: Run, cluster: Cluster) -> None:
    topic = new_topic(cluster)
    for properties, text in (
        (["parse.key=true"], "no key\n"),
        (["parse.headers=true"], "no headers\n"),
        (["parse.headers=true"], "noseparator\tvalue\n"),
        (["parse.headers=true", "null.marker=N"], "N:x\tvalue\n"),
        (["headers.delimiter=,"], "x\n"),
        (["key.separator=N", "null.marker=N"], "x\n"),
    ):
        options = [word for one in properties for word in ("--reader-property", one)]
        ours = ottla("console-producer", "--topic", topic, *options, stdin=text)
        theirs = kafka("console-producer", "--topic", topic, *options, stdin=text)
        assert (ours.code, ours.out) == (theirs.code, theirs.out) == (1, "")
        assert ours.err == theirs.err.splitlines()[0].partition(": ")[2] + "\n"
    ours, theirs = (run("console-producer", "--topic", "t", "--property", "a=b", "--reader-property", "c=d")
                    for run in (ottla, kafka))  # fmt: skip
    assert (ours.code, ours.err) == (theirs.code, theirs.err.splitlines()[0] + "\n")


def test_settings_reach_the_producer(ottla: Run, cluster: Cluster, tmp_path: Path) -> None:
    topic = new_topic(cluster)
    file = tmp_path / "producer.properties"
    file.write_text("linger.ms=5\nkey.serializer=org.apache.kafka.common.serialization.StringSerializer\n")
    done = ottla(
        "console-producer", "--topic", topic, "--sync", "--compression-codec", "zstd", "--request-required-acks", "1",
        "--command-config", str(file), "--command-property", "enable.idempotence=false", stdin="x\n",
    )  # fmt: skip
    assert (done.code, done.out, done.err) == (0, "", "")
    assert contents(cluster, topic, 1) == [(None, b"x", None)]
    done = ottla("console-producer", "--topic", topic, "--command-property", "linger.mss=5", stdin="x\n")
    assert done.code == 1
    assert "linger.ms" in done.err, "the nearest setting is named"
    assert done.err.count("\n") == 1


@pytest.fixture(scope="module")
def records(cluster: Cluster) -> str:
    """A topic with records of every kind."""
    topic = new_topic(cluster)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce(topic, b"plain", timestamp=1000)
    producer.produce(topic, b"with key", key=b"key", timestamp=1001)
    producer.produce(topic, None, key=b"tombstone", timestamp=1002)
    producer.produce(topic, b"headers", headers=[("h", b"v"), ("n", None), ("h", b"again")], timestamp=1003)
    producer.produce(topic, "日本 😀".encode(), key="ü".encode(), timestamp=1004)
    producer.produce(topic, b"\xff\x00broken", timestamp=1005)
    assert producer.flush(20) == 0
    return topic


@pytest.mark.java
def test_records_are_shown_as_by_kafka(ottla: Run, kafka: Run, records: str) -> None:
    everything = ["print.timestamp", "print.partition", "print.offset", "print.headers", "print.key", "print.epoch",
                  "print.delivery"]  # fmt: skip
    for properties in (
        [],
        [f"{name}=true" for name in everything],
        ["print.key=true", "key.separator= => ", "line.separator=|;", "null.literal=<none>"],
        ["print.headers=true", "headers.separator=;"],
        ["print.value=false", "print.offset=true"],
        ["print.value=false"],
        ["print.key=true", f"key.deserializer={SERIALIZATION}.StringDeserializer"],
    ):
        options = [word for one in properties for word in ("--formatter-property", one)]
        arguments = ["--topic", records, "--partition", "0", "--offset", "earliest", "--max-messages", "6", *options]
        ours, theirs = (run("console-consumer", *arguments, "--timeout-ms", "20000") for run in (ottla, kafka))
        assert (ours.code, ours.out, ours.err) == (theirs.code, theirs.out, theirs.err), properties
        assert ours.err == "Processed a total of 6 messages\n"


@pytest.mark.java
@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("Integer", struct.pack(">i", -7)),
        ("Long", struct.pack(">q", 2**40)),
        ("Short", struct.pack(">h", 3)),
        ("Double", struct.pack(">d", 1e9)),
        ("Float", struct.pack(">f", 0.1)),
        ("Boolean", b"\1"),
        ("UUID", b"123e4567-e89b-12d3-a456-426614174000"),
        ("Bytes", b"a\\b\n\xff"),
        ("String", b"\xffbroken"),
    ],
)
def test_values_are_deserialized_as_by_kafka(ottla: Run, kafka: Run, cluster: Cluster, name: str, data: bytes) -> None:
    topic = new_topic(cluster)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce(topic, data)
    assert producer.flush(20) == 0
    arguments = ["--topic", topic, "--partition", "0", "--offset", "0", "--max-messages", "1",
                 "--value-deserializer", f"{SERIALIZATION}.{name}Deserializer"]  # fmt: skip
    ours, theirs = (run("console-consumer", *arguments, "--timeout-ms", "20000") for run in (ottla, kafka))
    assert (ours.code, ours.out) == (theirs.code, theirs.out)
    assert ours.out


@pytest.mark.java
def test_the_topics_of_the_coordinators_are_shown_as_by_kafka(
    ottla: Run, kafka: Run, cluster: Cluster, records: str
) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "shown"})
    consumer.subscribe([records])
    consumer.poll(5)
    consumer.commit(offsets=[TopicPartition(records, 0, 3)], asynchronous=False)
    consumer.close()
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "t"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(new_topic(cluster), b"x")
    producer.commit_transaction()
    shown: dict[str, str] = {}
    for topic, formatter in (
        ("__consumer_offsets", "OffsetsMessageFormatter"),
        ("__consumer_offsets", "GroupMetadataMessageFormatter"),
        ("__transaction_state", "TransactionLogMessageFormatter"),
    ):
        arguments = ["--topic", topic, "--partition", "0", "--from-beginning", "--timeout-ms", "1500",
                     "--formatter", f"{FORMATTERS}.{formatter}"]  # fmt: skip
        ours, theirs = (run("console-consumer", *arguments) for run in (ottla, kafka))
        assert (ours.code, ours.out, ours.err) == (theirs.code, theirs.out, theirs.err)
        shown[formatter] = ours.out
    assert '"group":"shown","topic":"' in shown["OffsetsMessageFormatter"]
    assert '"protocolType":"consumer"' in shown["GroupMetadataMessageFormatter"]
    assert '"transactionalId":"t"' in shown["TransactionLogMessageFormatter"]


@pytest.mark.java
def test_the_consumer_refuses_what_kafka_refuses(ottla: Run, kafka: Run, tmp_path: Path) -> None:
    file = tmp_path / "consumer.properties"
    file.write_text("group.id=other\n")
    for arguments in (
        [],
        ["--topic", "t", "--include", "u"],
        ["--include", "t", "--partition", "0"],
        ["--topic", "t", "--offset", "1"],
        ["--topic", "t", "--partition", "0", "--offset", "1", "--from-beginning"],
        ["--topic", "t", "--partition", "0", "--offset", "-1"],
        ["--topic", "t", "--partition", "0", "--group", "g"],
        ["--topic", "t", "--from-beginning", "--command-property", "auto.offset.reset=latest"],
        ["--topic", "t", "--command-property", "a=b", "--consumer-property", "c=d"],
        ["--topic", "t", "--group", "g", "--command-config", str(file)],
    ):
        ours, theirs = ottla("console-consumer", *arguments), kafka("console-consumer", *arguments)
        assert (ours.code, ours.out) == (1, ""), arguments
        # In which order Kafka names what contradicts itself changes from run to run.
        assert sorted(re.findall(r"\w+", ours.err)) == sorted(re.findall(r"\w+", theirs.err.splitlines()[0])), arguments


def test_a_group_remembers_what_was_shown_and_no_more(ottla: Run, cluster: Cluster, records: str) -> None:
    arguments = ["--topic", records, "--group", "remembers", "--from-beginning", "--timeout-ms", "20000"]
    assert ottla("console-consumer", *arguments, "--max-messages", "2").out == "plain\nwith key\n"
    assert ottla("console-consumer", *arguments, "--max-messages", "1").out == "null\n"
    described = ottla("consumer-groups", "--describe", "--group", "remembers").out
    assert described.splitlines()[2].split()[3:5] == ["3", "6"]


def test_topics_are_chosen_by_a_pattern(ottla: Run, cluster: Cluster) -> None:
    for name in ("chosen-a", "chosen-b", "not-chosen"):
        cluster.create_topic(name)
        ottla("console-producer", "--topic", name, stdin=f"in {name}\n")
    done = ottla("console-consumer", "--include", "chosen-.*", "--from-beginning", "--max-messages", "2",
                 "--timeout-ms", "20000")  # fmt: skip
    assert sorted(done.out.split("\n")) == ["", "in chosen-a", "in chosen-b"]


def test_a_formatter_of_the_users_own(
    ottla: Run, records: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_formatter.py").write_text(
        "class Shout:\n"
        "    def configure(self, settings): self.end = settings['end'].encode()\n"
        "    def format(self, record): return (record.value or b'').upper() + self.end\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    arguments = ["--topic", records, "--partition", "0", "--from-beginning", "--max-messages", "1"]
    done = ottla("console-consumer", *arguments, "--formatter", "my_formatter.Shout", "--formatter-property", "end=!")
    assert done.out == "PLAIN!"
    done = ottla("console-consumer", *arguments, "--formatter", "no.such.Formatter")
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "There is no formatter no.such.Formatter" in done.err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_consumer_that_is_asked_to_stop_leaves_its_group(
    cluster: Cluster, records: str, number: signal.Signals, code: int
) -> None:
    group = f"stopped-{number.name}"
    command = [sys.executable, "-m", "ottla.cli.main", "console-consumer", "--bootstrap-server",
               cluster.bootstrap_servers, "--topic", records, "--group", group, "--from-beginning"]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as consumer:
        assert consumer.stdout is not None
        lines = [consumer.stdout.readline() for _ in range(6)]
        assert lines[0] == b"plain\n", "each is shown as soon as it comes"
        cluster.wait_for_group(group, state="Stable", members=1)
        consumer.send_signal(number)
        _, complaints = consumer.communicate(timeout=20)
    assert (consumer.returncode, complaints) == (code, b"Processed a total of 6 messages\n")
    cluster.wait_for_group(group, state="Empty", members=0)


def test_a_reader_that_has_read_enough_ends_the_consumer(cluster: Cluster) -> None:
    topic = new_topic(cluster)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(20_000):
        producer.produce(topic, b"%d " % number * 50)
    assert producer.flush(20) == 0
    consumer = f"{sys.executable} -m ottla.cli.main console-consumer --bootstrap-server {cluster.bootstrap_servers}"
    done = subprocess.run(
        ["sh", "-c", f"{consumer} --topic {topic} --partition 0 --offset 0 | head -n 1"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout == "0 " * 50 + "\n"
    assert done.stderr.startswith("Unable to write to standard out, closing consumer.\n")
    assert "Traceback" not in done.stderr


def test_records_are_written_while_the_input_is_still_open(cluster: Cluster) -> None:
    topic = new_topic(cluster)
    command = [sys.executable, "-m", "ottla.cli.main", "console-producer", "--bootstrap-server",
               cluster.bootstrap_servers, "--topic", topic, "--timeout", "0"]  # fmt: skip
    with subprocess.Popen(command, stdin=subprocess.PIPE) as producer:
        assert producer.stdin is not None
        producer.stdin.write(b"early\n")
        producer.stdin.flush()
        assert contents(cluster, topic, 1) == [(None, b"early", None)]
        producer.stdin.close()
        assert producer.wait(20) == 0
