"""`producer-perf-test`: the lines of Kafka's tool, what is written, and the numbers that are told of it."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from ottla.cli.main import main
from ottla.cli.perf import Latencies, java_number, paced, ratio
from ottla.cli.producer_perf_test import random_payloads, split_payloads, spread
from ottla.client import Admin, Consumer, ConsumerRecord, TopicPartition
from ottla.testing import Cluster
from tests.cli.conftest import Run

_numbers = itertools.count()
NO_LIMIT = ("--throughput", "-1")


def new_topic(cluster: Cluster, partitions: int = 1, **configs: object) -> str:
    return cluster.create_topic(f"perf-{next(_numbers)}", partitions, **configs)


def shapes(printed: str) -> list[str]:
    """The lines with 0 for every number, with as many decimals as it had: 12.50 as 0.00."""
    plain = printed.replace("NaN", "0.00")
    return [re.sub(r"\d+(\.\d+)?", lambda one: re.sub(r"\d", "0", one[1] or ""), line) for line in plain.splitlines()]


def written(cluster: Cluster, topic: str, **settings: object) -> list[ConsumerRecord[bytes, bytes]]:
    """All records of partition 0."""
    with Consumer[bytes, bytes](bootstrap_servers=cluster.bootstrap_servers, **settings) as consumer:
        partition = TopicPartition(topic, 0)
        end = consumer.end_offsets([partition])[partition]
        consumer.assign([partition])
        consumer.seek_to_beginning([partition])
        found: list[ConsumerRecord[bytes, bytes]] = []
        while consumer.position(partition) < end:
            found += consumer.poll(5)
        return found


# Beside Kafka's own


@pytest.mark.java
def test_progress_and_summary_read_as_kafkas(ottla: Run, kafka: Run, cluster: Cluster) -> None:
    words = ("--num-records", "4000", "--record-size", "20", "--throughput", "3000", "--reporting-interval", "250")
    printed = []
    for run in (ottla, kafka):
        done = run("producer-perf-test", "--topic", new_topic(cluster), *words)
        assert done.code == 0, done.err
        *progress, summary = shapes(done.out)
        printed.append((set(progress), summary))
    assert printed[0] == printed[1]
    assert len(printed[0][0]) == 1


@pytest.mark.java
def test_the_steady_state_is_told_of_as_by_kafka(ottla: Run, kafka: Run, cluster: Cluster) -> None:
    words = ("--num-records", "4000", "--record-size", "20", "--throughput", "3000", "--reporting-interval", "250")
    printed = []
    for run in (ottla, kafka):
        done = run("producer-perf-test", "--topic", new_topic(cluster), *words, "--warmup-records", "1000")
        printed.append(done.out.splitlines())
    for lines in printed:
        assert lines[0] == (
            "Warmup first 1000 records. Steady state results will print after the complete test summary."
        )
        assert lines.count("In steady state.") == 1
        assert lines[-2].startswith("4000 records sent, ")
        assert lines[-1].startswith("3000 steady state records sent, ")
    ours, theirs = (shapes("\n".join(lines[-2:])) for lines in printed)
    assert ours == theirs


@pytest.mark.java
def test_what_a_broker_refuses_is_not_counted_as_in_kafka(ottla: Run, kafka: Run, cluster: Cluster) -> None:
    topic = new_topic(cluster, max_message_bytes=100)
    words = ("producer-perf-test", "--topic", topic, "--num-records", "3", "--record-size", "500", *NO_LIMIT)
    ours, theirs = ottla(*words), kafka(*words)
    assert (ours.code, shapes(ours.out)) == (theirs.code, shapes(theirs.out)), ours
    assert ours.out.startswith("0 records sent, 0.000000 records/sec (0.00 MB/sec), NaN ms avg latency, 0.00 ms max")
    assert "org.apache.kafka.common.errors.RecordTooLargeException: " in ours.err
    assert "org.apache.kafka.common.errors.RecordTooLargeException: " in theirs.err
    assert sum(int(count) for count in re.findall(r"^(\d+) records failed: ", ours.err, re.MULTILINE)) == 3


@pytest.mark.java
def test_the_metrics_are_named_and_laid_out_as_kafkas(ottla: Run, kafka: Run, cluster: Cluster) -> None:
    words = ("--topic", new_topic(cluster), "--num-records", "5", "--record-size", "5", *NO_LIMIT, "--print-metrics")
    printed = [run("producer-perf-test", *words).out.split("\n\n") for run in (ottla, kafka)]
    names: list[set[str]] = []
    for _, table in printed:
        head, *rows = table.splitlines()
        assert re.fullmatch(r"Metric Name +Value", head)
        places = {row.index(" : ") for row in rows}
        assert places == {head.index("Value") - 3}
        assert rows == sorted(rows)
        names.append({row.split(" : ")[0].rstrip() for row in rows})
    assert "producer-metrics:record-send-total:{client-id=perf-producer-client}" in names[0]
    assert names[0] <= names[1], names[0] - names[1]


@pytest.mark.java
def test_payload_files_hold_what_kafka_finds_in_them(ottla: Run, kafka: Run, cluster: Cluster, tmp_path: Path) -> None:
    topic = new_topic(cluster)
    file = tmp_path / "payloads"
    for content, options in (
        ("one\ntwo\n", []),
        ("\n\na\n\n\nb\n\n", []),
        ("a##b#c", ["--payload-delimiter", "#+"]),
        ("größer;kürzer", ["--payload-delimiter", ";"]),
    ):
        file.write_text(content)
        words = ["--topic", topic, "--num-records", "1", *NO_LIMIT, "--payload-file", str(file), *options]
        ours, theirs = (run("producer-perf-test", *words).out.splitlines()[:2] for run in (ottla, kafka))
        assert ours == theirs
        assert ours[1].startswith("Number of records read: ")


@pytest.mark.java
def test_the_perf_producer_refuses_what_kafka_refuses(ottla: Run, kafka: Run) -> None:
    some = ("--topic", "t", *NO_LIMIT)
    for options in (
        ["--num-records", "1"],
        ["--num-records", "1", "--record-size", "1", "--payload-monotonic"],
        ["--num-records", "0", "--record-size", "1"],
        ["--num-records", "1", "--record-size", "0"],
        ["--num-records", "5", "--record-size", "1", "--warmup-records", "5"],
        ["--num-records", "5", "--record-size", "1", "--transaction-duration-ms", "0"],
        ["--num-records", "5", "--record-size", "1", "--reporting-interval", "0"],
        ["--num-records", "5", "--record-size", "1", "--command-property", "a=b", "--producer-props", "c=d"],
        ["--num-records", "5", "--record-size", "1", "--command-config", "a", "--producer.config", "b"],
        ["--num-records", "5", "--payload-file", "not-there"],
        ["--num-records", "5", "--record-size", "1", "--command-property", "linger.ms"],
    ):
        ours, theirs = ottla("producer-perf-test", *some, *options), kafka("producer-perf-test", *some, *options)
        assert ours.code == theirs.code == 1, options
        assert ours.err.count("\n") == 1
        # Kafka's parser fills its lines with spaces and breaks them even after the hyphens of an option.
        assert "".join(ours.err.split()) in "".join(theirs.err.split())


# What is written


def test_as_many_records_are_written_as_were_asked_for(ottla: Run, cluster: Cluster) -> None:
    topic = new_topic(cluster)
    done = ottla("producer-perf-test", "--topic", topic, "--num-records", "3000", "--record-size", "33", *NO_LIMIT)
    assert re.match(r"3000 records sent, ", done.out)
    values = [record.value for record in written(cluster, topic)]
    assert len(values) == 3000
    assert {len(value) for value in values} == {33}
    assert set(b"".join(values)) == set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def test_numbers_grow_by_one(ottla: Run, cluster: Cluster) -> None:
    topic = new_topic(cluster)
    done = ottla(
        "producer-perf-test", "--topic", topic, "--num-records", "300", "--payload-monotonic", *NO_LIMIT,
        "--producer-props", "linger.ms=1", "batch.size=100",
    )  # fmt: skip
    assert done.out.splitlines()[0] == (
        "Option --producer-props has been deprecated and will be removed in a future version. "
        "Use --command-property instead."
    )
    assert [record.value for record in written(cluster, topic)] == [b"%d" % number for number in range(300)]


def test_payloads_of_a_file_are_chosen_by_chance(ottla: Run, cluster: Cluster, tmp_path: Path) -> None:
    topic = new_topic(cluster)
    file = tmp_path / "payloads"
    file.write_text("a;bb;ccc")
    ottla(
        "producer-perf-test", "--topic", topic, "--num-records", "200", "--payload-file", str(file),
        "--payload-delimiter", ";", *NO_LIMIT,
    )  # fmt: skip
    values = [record.value for record in written(cluster, topic)]
    assert len(values) == 200
    assert {values.count(value) > 20 for value in (b"a", b"bb", b"ccc")} == {True}


def test_transactions_are_committed_as_often_as_asked(ottla: Run, cluster: Cluster) -> None:
    """At 200 records a second and 100 ms a transaction, 100 records take about five, each with its marker."""
    topic = new_topic(cluster)
    done = ottla(
        "producer-perf-test", "--topic", topic, "--num-records", "100", "--record-size", "5", "--throughput", "200",
        "--transactional-id", "of-perf", "--transaction-duration-ms", "100",
    )  # fmt: skip
    assert done.code == 0, done.err
    records = written(cluster, topic, isolation_level="read_committed")
    assert len(records) == 100
    gaps = records[-1].offset - records[0].offset - 99
    assert 1 <= gaps <= 6
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        assert "of-perf" in {one.transactional_id for one in admin.list_transactions()}


def test_settings_of_a_file_give_way_to_those_of_the_line(ottla: Run, cluster: Cluster, tmp_path: Path) -> None:
    topic = new_topic(cluster)
    file = tmp_path / "producer.properties"
    file.write_text("acks=7\nclient.id=from-a-file\nkey.serializer=org.apache.kafka.x.None\n")
    words = ["--topic", topic, "--num-records", "2", "--record-size", "5", *NO_LIMIT, "--command-config", str(file)]
    refused = ottla("producer-perf-test", *words)
    assert refused.code == 1
    assert "acks" in refused.err
    done = ottla("producer-perf-test", *words, "--command-property", "acks=1", "--print-metrics")
    assert "client-id=from-a-file" in done.out
    assert done.code == 0


def test_bootstrap_servers_may_come_from_the_settings(cluster: Cluster) -> None:
    words = ["producer-perf-test", "--topic", new_topic(cluster), "--num-records", "2", "--record-size", "5", *NO_LIMIT]
    server = f"bootstrap.servers={cluster.bootstrap_servers}"
    done = CliRunner().invoke(main, [*words, "--command-property", "linger.ms=1", server])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("2 records sent")


def test_the_numbers_are_there_as_json(ottla: Run, cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "payloads"
    file.write_text("abc\ndef")
    done = ottla(
        "producer-perf-test", "--topic", new_topic(cluster), "--num-records", "1000", "--payload-file", str(file),
        "--throughput", "2000", "--warmup-records", "200", "--reporting-interval", "100", "--print-metrics",
        "--output", "json",
    )  # fmt: skip
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["kind"] for row in rows[-3:]] == ["total", "steady", "metrics"]
    assert {row["kind"] for row in rows[:-3]} == {"window"}
    assert (rows[-3]["records"], rows[-2]["records"]) == (1000, 800)
    assert rows[-3]["p50Ms"] <= rows[-3]["p999Ms"] <= rows[-3]["maxLatencyMs"]
    assert any("record-send-total" in name and value == 1000 for name, value in rows[-1]["metrics"].items())


def test_a_topic_that_is_not_there_is_one_line(ottla: Run) -> None:
    words = ["--topic", "nothing", "--num-records", "5", "--record-size", "5", *NO_LIMIT]
    done = ottla("producer-perf-test", *words, "--command-property", "max.block.ms=200")
    assert (done.code, done.out) == (1, "")
    assert done.err == "Topic nothing not present in metadata after 200 ms.\n"


# The parts


def test_latencies_are_those_of_all_records_and_of_the_window(capsys: pytest.CaptureFixture[str]) -> None:
    latencies = Latencies(1000, 5000, 100.0)
    latencies.record([100 + number / 1024 for number in range(1000)], 1000 * 1024, 101.0)
    latencies.report(104.9)
    assert capsys.readouterr().out == ""
    latencies.report(105.0)
    assert capsys.readouterr().out == (
        "1000 records sent, 200.0 records/sec (0.20 MB/sec), 512.2 ms avg latency, 1000.0 ms max latency.\n"
    )
    latencies.report(200.0)
    latencies.print_total(110.0)
    assert capsys.readouterr().out == (
        "1000 records sent, 100.000000 records/sec (0.10 MB/sec), 512.21 ms avg latency, 1000.00 ms max latency, "
        "512 ms 50th, 952 ms 95th, 991 ms 99th, 1000 ms 99.9th.\n"
    )


def test_of_very_many_records_only_some_latencies_are_kept() -> None:
    latencies = Latencies(2_000_000, 5000, 0.0)
    for _ in range(400):
        latencies.record([0.0] * 4999 + [0.5], 5000, 1.0)
    assert latencies.count == 2_000_000
    assert len(latencies._samples) == 500_000
    assert latencies.percentiles() == [1000, 1000, 1000, 1000]


def test_a_pace_is_kept_on_average(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the clock does: sleeps that end late, as on a busy machine, are made up for."""
    now_s, given, late_s = 100.0, 0, itertools.cycle((0.0, 0.003, 0.0, 0.08))

    def sleep(wait_s: float) -> None:
        nonlocal now_s
        now_s += wait_s + next(late_s)

    monkeypatch.setattr("ottla.cli.perf.time", SimpleNamespace(sleep=sleep))
    for allowed in paced(500.0, 100.0, lambda: now_s):
        given += allowed
        due = (now_s - 100.0) * 500
        assert given <= due + 1
        assert not allowed or given >= due
        if now_s > 102.0:
            break
    assert given >= 2.0 * 500 * 0.9


def test_several_values_may_follow_one_option() -> None:
    args = ["--x", "a=1", "b=2", "--topic", "t", "--x", "c=3", "--y"]
    assert spread(args, ("--x",)) == ["--x", "a=1", "--x", "b=2", "--topic", "t", "--x", "c=3", "--y"]


def test_random_payloads_differ() -> None:
    assert len(set(random_payloads(100, 10**9))) == 4 * 1024 * 1024 // 100
    assert len(random_payloads(10_000_000, 5)) == 1
    assert len(random_payloads(1, 10**9)) == 65_536


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a\nb", 2), ("a\nb\n", 2), ("\na", 1), ("a\n\nb", 3), ("a\n\n", 2), ("\n", 0), ("\n\n", 1)],
)
def test_payloads_are_split_as_by_javas_scanner(text: str, expected: int) -> None:
    assert len(split_payloads(text, "\n")) == expected


def test_numbers_that_are_none_are_written_as_by_java() -> None:
    assert [java_number(ratio(part, 0), 2) for part in (0.0, 1.0)] == ["NaN", "Infinity"]


@pytest.mark.parametrize(
    "tool", ["producer-perf-test", "consumer-perf-test", "verifiable-producer", "verifiable-consumer"]
)
def test_help_and_mistakes_load_no_client(tool: str) -> None:
    """Which is what makes them quick."""
    script = (
        "import sys\nfrom click.testing import CliRunner\nfrom ottla.cli.main import main\n"
        f"helped = CliRunner().invoke(main, ['{tool}', '--help'])\n"
        f"refused = CliRunner().invoke(main, ['{tool}', '--no-such-option'])\n"
        "print(helped.exit_code, refused.exit_code, len(refused.output.splitlines()))\n"
        "print([name for name in sys.modules if name.startswith(('ottla.client', 'ottla.wire', 'asyncio'))])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "0 1 1\n[]\n", done
