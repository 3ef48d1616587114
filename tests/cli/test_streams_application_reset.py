"""`streams-application-reset`: ours and Kafka's, one after the other on the same state of one broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from ottla.client import Admin, Consumer
from ottla.pipelines.streams import StreamsBuilder, aggregates
from ottla.pipelines.streams.evolution import notes
from ottla.pipelines.streams.notes import read_local, write_local
from ottla.pipelines.streams.planning import NOTES, plan
from ottla.testing import Cluster
from ottla.types import TopicPartition
from tests.cli.conftest import Run

NEW_YEAR_MS = 1_767_225_600_000
APP = "counting"
INTERNAL = [
    f"{APP}-counts-changelog",
    f"{APP}-KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition",
    f"{APP}-KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000007-topic",
    f"{APP}-homes-subscription-response-topic",
]
OTHERS = [f"{APP}-output", "counting2-counts-changelog", f"{APP}-changelog-of-mine"]
COMMITTED = {TopicPartition("words", 0): 4, TopicPartition("words", 2): 7, TopicPartition("middle", 0): 1}


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Admin:
    return Admin({"bootstrap.servers": cluster.bootstrap_servers})


@pytest.fixture(scope="module", autouse=True)
def topics(cluster: Cluster) -> None:
    cluster.create_topic("words", 3)
    cluster.create_topic("middle", 2)
    cluster.create_topic("empty", 1)
    for name in OTHERS:
        cluster.create_topic(name)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(30):
        producer.produce("words", b"%d" % number, partition=number % 3, timestamp=NEW_YEAR_MS + number // 3 * 3_600_000)
    producer.produce("middle", b"one", partition=0)
    assert producer.flush(20) == 0


def fresh(cluster: Cluster, admin: Admin) -> None:
    """The state that every command begins with."""
    there = admin.list_topics()
    for topic in INTERNAL:
        if topic not in there:
            cluster.create_topic(topic)
    if any(one.group_id == APP for one in admin.list_groups()):
        admin.delete_groups([APP]).all()
    admin.alter_consumer_group_offsets(APP, COMMITTED).all()


def state(admin: Admin) -> tuple[set[str], dict[str, int]]:
    """The topics there are, and what the group has committed."""
    offsets = admin.list_consumer_group_offsets([APP])[APP].result()
    return set(admin.list_topics()), {str(at): one.offset for at, one in offsets.items() if one is not None}


def shown(out: str) -> list[str]:
    """What was printed. Inferred topics by name: of one bucket of Java's map they come as the broker lists them, which
    our client sorts."""
    lines = out.splitlines()
    listed = [index for index, line in enumerate(lines) if line.startswith("Deleting inferred internal topics [")]
    for index in listed:
        head, _, names = lines[index].rstrip("]").partition("[")
        lines[index] = f"{head}{sorted(names.split(', '))}"
    return lines


@pytest.mark.java
@pytest.mark.timeout(300)
def test_ours_prints_and_does_what_kafkas_does(
    cluster: Cluster, admin: Admin, ottla: Run, kafka: Run, tmp_path: Path
) -> None:
    plan_file = tmp_path / "offsets.csv"
    plan_file.write_text("words,0,3\nwords,1,100\nwords,2,0\n")
    settings = tmp_path / "settings"
    settings.write_text("client.id=resetting\n")
    commands = [
        [],
        ["--dry-run"],
        ["--input-topics", "words"],
        ["--input-topics", "words,middle", "--dry-run"],
        ["--input-topics", "words", "--input-topics", "empty", "--to-latest"],
        ["--input-topics", "words", "--to-earliest"],
        ["--input-topics", "words", "--to-offset", "0"],
        ["--input-topics", "words", "--to-offset", "6"],
        ["--input-topics", "words,empty", "--to-offset", "60"],
        ["--input-topics", "words", "--shift-by", "-2"],
        ["--input-topics", "words", "--shift-by", "100", "--dry-run"],
        ["--input-topics", "words,empty", "--to-datetime", "2026-01-01T04:30:00.000"],
        ["--input-topics", "words", "--by-duration", "P36500D"],
        ["--input-topics", "words", "--from-file", str(plan_file)],
        ["--intermediate-topics", "middle"],
        ["--input-topics", "words", "--intermediate-topics", "middle,absent"],
        ["--input-topics", "absent"],
        ["--input-topics", f"words,{INTERNAL[0]}"],
        ["--internal-topics", INTERNAL[1]],
        ["--internal-topics", f"{INTERNAL[2]},{INTERNAL[0]}", "--dry-run"],
        ["--config-file", str(settings), "--dry-run"],
        ["--command-config", str(settings), "--dry-run", "--force"],
        ["--application-id", "nobody", "--dry-run"],
    ]
    for command in commands:
        words = command if "--application-id" in command else ["--application-id", APP, *command]
        results = []
        for run in (kafka, ottla):
            fresh(cluster, admin)
            done = run("streams-application-reset", *words)
            results.append((done.code, shown(done.out), state(admin)))
        theirs, ours = results
        assert ours == theirs, command


@pytest.mark.java
@pytest.mark.parametrize(
    "words",
    [
        ["--to-offset", "1", "--to-latest", "--application-id", APP],
        ["--shift-by", "1", "--from-file", "x", "--application-id", APP],
        ["--dry-run"],
        ["--application-id", APP, "--internal-topics", "words"],
    ],
)
def test_mistakes_begin_with_kafkas_line(
    cluster: Cluster, admin: Admin, ottla: Run, kafka: Run, words: list[str]
) -> None:
    fresh(cluster, admin)
    ours, theirs = ottla("streams-application-reset", *words), kafka("streams-application-reset", *words)
    assert ours.code == theirs.code == 1
    assert ours.err.count("\n") == 1
    if "--internal-topics" in words:
        assert theirs.err.splitlines()[0].endswith(ours.err.strip().removeprefix("ERROR: "))
    elif "--application-id" in words:
        assert theirs.err.splitlines()[0] == ours.err.strip()
    else:
        assert "application-id" in theirs.err.splitlines()[0]
        assert "--application-id" in ours.err


@pytest.mark.java
def test_an_active_application_is_refused_unless_forced(cluster: Cluster, admin: Admin, ottla: Run, kafka: Run) -> None:
    fresh(cluster, admin)
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": APP, "group.protocol": "classic"}
    with Consumer(settings) as consumer:
        consumer.subscribe(["words"])
        while not consumer.assignment():
            consumer.poll(0.2)
        for run in (ottla, kafka):
            done = run("streams-application-reset", "--application-id", APP)
            assert done.code == 1
            assert f"Consumer group '{APP}' is still active and has following members: [" in done.err
            assert "You can use option '--force' to remove active members from the group." in done.err
        assert set(INTERNAL) <= set(admin.list_topics()), "nothing was done"
        done = ottla("streams-application-reset", "--application-id", APP, "--force", "--dry-run")
        assert done.code == 0, done.err
        assert done.out.startswith(f"Force deleting all active members in the group: {APP}\n")


# Topologies


def topology_checkpoint(home: Path, admin: Admin, cluster: Cluster) -> None:
    """What a topology leaves: directories, groups of sinks, topics."""
    builder = StreamsBuilder()
    sums = builder.stream("words").group_by_key().aggregate(aggregates.sum(), name="sums").to_stream()
    sums.group_by("value").count(name="many").to_stream().to("out")
    builder.stream("words").group_by_key().count(name="alone").to_stream().to("out")
    made = builder.build("shop")
    queries = plan(made)
    (home / NOTES).mkdir(parents=True)
    write_local(home, {"application": "shop", "tasks": 1, "partitions": {"words": 3}, "steps": notes(made, queries)})
    for query in queries:
        (home / query.name / "state").mkdir(parents=True)
        admin.alter_consumer_group_offsets(f"shop-{query.name}", {TopicPartition("words", 0): 1}).all()
    for topic in TOPICS:
        if topic not in admin.list_topics():
            cluster.create_topic(topic)


TOPICS = {"shop-sums-repartition", "shop-sums-changelog", "shop-many-changelog", "shop-alone-changelog", "shop-out"}


def left(home: Path, admin: Admin) -> tuple[set[str], set[str], set[str]]:
    directories = {path.name for path in home.iterdir()} if home.exists() else set()
    groups = {one.group_id for one in admin.list_groups() if one.group_id.startswith("shop-")}
    return directories, groups, {topic for topic in admin.list_topics() if topic.startswith("shop-")}


def test_steps_of_a_topology_are_reset_with_all_they_are_joined_to(
    cluster: Cluster, admin: Admin, ottla: Run, tmp_path: Path
) -> None:
    home = tmp_path / "checkpoint"
    topology_checkpoint(home, admin, cluster)
    words = ["streams-application-reset", "--application-id", "shop", "--checkpoint", str(home)]
    before = left(home, admin)
    done = ottla(*words, "--steps", "many")
    assert (done.code, done.err) == (
        1,
        "sums and what you reset read each other's results, which are read from their beginning then: reset them "
        "together with --steps many,sums\n",
    )
    assert ottla(*words, "--steps", "sums,many", "--dry-run").code == 0
    assert left(home, admin) == before, "a dry run changes nothing"
    done = ottla(*words, "--steps", "sums,many")
    assert done.code == 0, done.err
    assert left(home, admin) == ({NOTES, "alone"}, {"shop-alone"}, {"shop-alone-changelog", "shop-out"})
    assert list(read_local(home)["steps"]) == ["alone"]
    assert f"Deleting the state and offsets of steps [many, sums] in {home}" in done.out


def test_a_whole_topology_is_reset(cluster: Cluster, admin: Admin, ottla: Run, tmp_path: Path) -> None:
    home = tmp_path / "checkpoint"
    topology_checkpoint(home, admin, cluster)
    done = ottla("streams-application-reset", "--application-id", "shop", "--checkpoint", str(home))
    assert done.code == 0, done.err
    assert left(home, admin) == (set(), set(), {"shop-out"})


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--steps", "sums"], "--steps goes with --checkpoint, where the steps are"),
        (["--checkpoint", "{home}", "--steps", "smus"], "{home} has no step smus: it has alone, many, sums"),
        (["--checkpoint", "{home}", "--input-topics", "words"], "--input-topics is for Kafka Streams: a topology's "
         "offsets lie in its checkpoint, and without one it begins at the earliest"),
        (["--checkpoint", "{home}/alone"], "{home}/alone is no checkpoint of a topology: there is no topology/part-* "
         "in it"),
    ],
)  # fmt: skip
def test_what_a_topology_has_not_is_told_in_a_line(
    cluster: Cluster, admin: Admin, ottla: Run, tmp_path: Path, words: list[str], told: str
) -> None:
    topology_checkpoint(tmp_path, admin, cluster)
    given = [word.format(home=tmp_path) for word in words]
    done = ottla("streams-application-reset", "--application-id", "shop", *given)
    assert (done.code, done.err) == (1, told.format(home=tmp_path) + "\n")
