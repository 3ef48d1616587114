"""Micro-batches against a running broker, without Spark: what planner, tasks and committer do, step by step, and what a
read_committed reader sees of it. Brokers of both transaction versions; under OTTLA_SOAK=1 Kafka's own too.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest

from ottla.client import Admin, Producer, read_topic
from ottla.client.admin import FeatureUpdate, NewTopic, UpgradeType
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.sink import earlier, exactly_once
from ottla.pipelines.sink.exactly_once import Plan, Task, Written
from ottla.pipelines.sink.link import link_to
from ottla.pipelines.sink.memory import CheckpointBehind
from ottla.pipelines.sink.options import ForgottenBatch, SinkOptions, read_options
from ottla.pipelines.sink.rows import PLACED_AT, RowShape
from ottla.pipelines.sink.sending import Conflict
from ottla.testing import Cluster
from tests.support.clients import eventually, new_topic
from tests.support.old_kafka import OLD_KAFKAS, OldKafka, Release

NEWEST = Release("4.3.1")
KAFKAS = [release for release in (*OLD_KAFKAS, NEWEST) if release.number >= (2, 5)]
BROKERS = ["ottla", "ottla-transactions-1"]
if os.environ.get("OTTLA_SOAK"):
    BROKERS += [f"kafka-{release.version}" for release in KAFKAS]


@pytest.fixture(scope="module", params=BROKERS)
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param.startswith("kafka-"):
        release = next(one for one in KAFKAS if request.param.endswith(one.version))
        with OldKafka(release, tmp_path_factory.mktemp("kafka")) as kafka:
            yield kafka.address
        return
    with Cluster() as cluster:
        if request.param != "ottla":
            with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
                level = FeatureUpdate(1, UpgradeType.SAFE_DOWNGRADE)
                admin.update_features({"transaction.version": level}).all()
        yield cluster.bootstrap_servers


@pytest.fixture(autouse=True)
def no_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attempts of these tests have stopped when the next begins."""
    monkeypatch.setattr(earlier, "QUIET_MS", 20)


class Query:
    """One query and its topic; each method is what one of Spark's processes does."""

    def __init__(self, address: str, *, name: str | None = None, configs: dict[str, str] | None = None) -> None:
        self.address = address
        self.topic = new_topic("sink")
        self.query_id = f"id-of-{self.topic}"
        with Admin(bootstrap_servers=address) as admin:
            admin.create_topics([NewTopic(self.topic, 3, 1, configs=configs or {})]).all()
        self.options: SinkOptions = read_options(
            {
                "kafka.bootstrap.servers": address,
                "topic": self.topic,
                "transactionalId": name or f"sink-of-{self.topic}",
                "transactionTimeoutMs": "60000",
            },
            is_streaming=True,
        )

    def plan(self) -> Plan:
        return exactly_once.plan(self.options)

    def write(
        self,
        plan: Plan,
        rows: Sequence[tuple[int | None, str | None, str | None]],
        *,
        batch_id: int | None = 0,
        index: int = 0,
        attempt: int = 0,
        fails_after: int | None = None,
        handed: int = 4,
        before: Callable[[int], None] | None = None,
        times: Mapping[str, int | None] | None = None,
        age_ms: int = 0,
    ) -> Written:
        """Rows are partition, key and value, handed over in batches of `handed`; it may fail after some of these.

        `before` is called with the number of each before it is handed over. `times` are the records' by their values,
        if rows are to say them. Spark planned the micro-batch `age_ms` ago.
        """
        schema = pa.schema([("partition", pa.int32()), ("key", pa.string()), ("value", pa.string())])

        def batches() -> Iterator[pa.RecordBatch]:
            for turn, start in enumerate(range(0, len(rows), handed)):
                if fails_after is not None and turn == fails_after:
                    raise RuntimeError("the task fails here")
                if before is not None:
                    before(turn)
                columns = zip(*rows[start : start + handed], strict=True)
                arrays = [pa.array(column, kind.type) for column, kind in zip(columns, schema, strict=True)]
                batch = pa.record_batch(arrays, schema=schema)
                if times is not None:
                    said = [times[value] for _, _, value in rows[start : start + handed] if value is not None]
                    batch = batch.append_column("timestamp", pa.array(said, pa.int64()))
                planned_us = (plan.begun_ms - age_ms) * 1000
                yield batch.append_column(PLACED_AT, pa.array([planned_us] * batch.num_rows, pa.timestamp("us", "UTC")))

        names = ("partition", "key", "value", *(() if times is None else ("timestamp",)))
        task = Task(index, attempt, batch_id, self.query_id)
        shape = RowShape(names, names, self.topic, placed_at=PLACED_AT)
        return exactly_once.write(self.options, shape, plan, task, batches())

    def commit(self, written: Sequence[Written], batch_id: int | None = 0) -> None:
        exactly_once.commit(self.options, written, batch_id)

    def forget(self) -> None:
        """The group's offsets expire."""
        with Admin(bootstrap_servers=self.address) as admin:
            admin.delete_consumer_groups([self.options.transactional_id or ""]).all()

    def values(self) -> list[str]:
        """What a read_committed reader sees, once no transaction is open."""
        table = read_topic(self.address, self.topic, isolation_level="read_committed")
        return [value.decode() for value in table.column("value").to_pylist()]

    def times(self) -> dict[str, int]:
        """When each record was, by its value."""
        table = read_topic(self.address, self.topic, isolation_level="read_committed")
        return dict(zip(self.values(), table.column("timestamp").cast("int64").to_pylist(), strict=True))

    def last_batch(self) -> list[tuple[str, int]]:
        with Admin(bootstrap_servers=self.address) as admin:
            group = self.options.transactional_id or ""
            told = admin.list_consumer_group_offsets([group]).all()[group]
        return [(place.topic, one.offset) for place, one in told.items() if one is not None]


@dataclass
class Overtaking:
    """Another attempt, which writes all of its rows while the first one sleeps before its batch of this number."""

    turn: int
    write: Callable[[], Written]
    written: list[Written] = field(default_factory=list)

    def __call__(self, turn: int) -> None:
        if turn == self.turn:
            self.written.append(self.write())


def rows(partition: int | None, *values: str) -> list[tuple[int | None, str | None, str | None]]:
    return [(partition, None, value) for value in values]


LETTERS = [f"{letter}{number}" for number in range(3) for letter in "abcdefgh"]
TIMES = {letter: int(time.time() * 1000) - 3_600_000 + 7 * (number % 5) for number, letter in enumerate(LETTERS)}


@pytest.fixture(autouse=True)
def small_gatherings(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is handed over is sent as it is, so that a few rows make several batches."""
    monkeypatch.setattr("ottla.pipelines.sink.rows.GATHERED_BYTES", 1)


def test_all_tasks_of_a_micro_batch_appear_at_once_and_in_order(address: str) -> None:
    query = Query(address)
    plan = query.plan()
    written = [query.write(plan, rows(index, *LETTERS), index=index) for index in range(3)]
    query.commit(written)
    assert sorted(query.values()) == sorted(LETTERS * 3)
    table = read_topic(address, query.topic, isolation_level="read_committed")
    by_partition: dict[int, list[str]] = {}
    for partition, value in zip(table.column("partition").to_pylist(), table.column("value").to_pylist(), strict=True):
        by_partition.setdefault(partition, []).append(value.decode())
    assert by_partition == dict.fromkeys(range(3), LETTERS)
    assert query.last_batch() == [(query.topic, 1)]


def test_a_batch_that_is_replayed_after_its_commit_writes_nothing(address: str) -> None:
    """The driver died after the end of the transaction and before it could note that in its checkpoint."""
    query = Query(address)
    query.commit([query.write(query.plan(), rows(0, "a", "b"))])
    again = query.write(query.plan(), rows(0, "a", "b"))
    assert again.is_skipped
    query.commit([again])
    query.commit([query.write(query.plan(), rows(0, "c"), batch_id=1)], batch_id=1)
    assert query.values() == ["a", "b", "c"]


def test_a_batch_that_is_remembered_by_its_checkpoints_address_is_not_written_again(address: str) -> None:
    """As topologies remembered those of remote checkpoints. The next batch is remembered by the query's id."""
    query = Query(address)
    by_id, query.query_id = query.query_id, "ottla-a81b"
    query.commit([query.write(query.plan(), rows(0, "a"), batch_id=3)], batch_id=3)
    assert query.plan().is_written(Task(0, 0, 3, by_id, "ottla-a81b"))
    with pytest.raises(CheckpointBehind, match="whose checkpoint had the same address"):
        query.plan().is_written(Task(0, 0, 0, by_id, "ottla-a81b"))
    query.query_id = by_id
    query.commit([query.write(query.plan(), rows(0, "b"), batch_id=4)], batch_id=4)
    assert query.plan().is_written(Task(0, 0, 4, by_id, "ottla-a81b"))


def test_another_query_of_the_same_name_begins_to_count_anew(address: str) -> None:
    first = Query(address)
    first.commit([first.write(first.plan(), rows(0, "a"), batch_id=7)], batch_id=7)
    second = Query(address, name=first.options.transactional_id)
    second.topic = first.topic
    second.commit([second.write(second.plan(), rows(0, "b"))])
    assert first.values() == ["a", "b"]


DAY_MS = 24 * 60 * 60 * 1000


@pytest.mark.parametrize(("option", "expected"), [("skip", ["a"]), ("write", ["a", "a"])])
def test_a_replayed_batch_that_nobody_remembers_is_refused_until_somebody_says_what_to_do(
    address: str, option: str, expected: list[str]
) -> None:
    """The query died before Spark noted that the batch was done, and stood still for longer than offsets are kept."""
    query = Query(address)
    query.commit([query.write(query.plan(), rows(0, "a"), batch_id=3)], batch_id=3)
    query.forget()
    with pytest.raises(PipelineError, match=r"micro-batch 3 was planned 8 days ago.*forgottenBatch") as refused:
        query.write(query.plan(), rows(0, "a"), batch_id=3, age_ms=8 * DAY_MS)
    assert "\n" not in str(refused.value)
    query.options = replace(query.options, forgotten_batch=ForgottenBatch(option))
    query.commit([query.write(query.plan(), rows(0, "a"), batch_id=3, age_ms=8 * DAY_MS)], batch_id=3)
    assert query.values() == expected
    query.options = replace(query.options, forgotten_batch=ForgottenBatch.FAIL)
    query.commit([query.write(query.plan(), rows(0, "b"), batch_id=4)], batch_id=4)
    assert query.values() == [*expected, "b"]


def test_a_query_goes_on_where_its_memory_cannot_have_expired(address: str) -> None:
    """New batches of a query that was idle for weeks or wrote nothing so far, and replays that came soon enough."""
    query = Query(address)
    query.commit([query.write(query.plan(), [], batch_id=0)], batch_id=0)
    query.commit([query.write(query.plan(), rows(0, "a"), batch_id=1, age_ms=3 * DAY_MS)], batch_id=1)
    query.commit([query.write(query.plan(), rows(0, "b"), batch_id=2, age_ms=8 * DAY_MS)], batch_id=2)
    query.forget()
    query.commit([query.write(query.plan(), rows(0, "c"), batch_id=3)], batch_id=3)
    assert query.values() == ["a", "b", "c"]


def test_how_long_a_batch_is_remembered_is_asked_of_the_brokers() -> None:
    with Cluster(settings={"offsets.retention.minutes": "60"}) as cluster:
        query = Query(cluster.bootstrap_servers)
        with pytest.raises(PipelineError, match="micro-batch 0 was planned 2 hours ago"):
            query.write(query.plan(), rows(0, "a"), age_ms=2 * 60 * 60 * 1000)
        query.commit([query.write(query.plan(), rows(0, "a"), age_ms=30 * 60 * 1000)])
        assert query.values() == ["a"]


@pytest.mark.skipif(
    "OTTLA_SOAK" not in os.environ, reason="offsets are kept for a minute at least: OTTLA_SOAK=1 runs it"
)
@pytest.mark.timeout(300)
def test_a_batch_whose_memory_has_really_expired_is_not_written_twice() -> None:
    """As the broker expires offsets, and not as a test deletes them; meanwhile nothing tells the query of it."""
    settings = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "500"}
    with Cluster(settings=settings) as cluster, Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        query = Query(cluster.bootstrap_servers)
        group = query.options.transactional_id or ""
        planned_ms = query.plan().begun_ms
        query.commit([query.write(query.plan(), rows(0, "a"), batch_id=3)], batch_id=3)

        def is_remembered() -> bool:
            found = admin.list_consumer_group_offsets(group)
            return not found.errors and any(found.all()[group].values())

        assert is_remembered()
        query.commit([query.write(query.plan(), rows(0, "a"), batch_id=3)], batch_id=3)
        assert query.values() == ["a"], "it is remembered"
        eventually(lambda: not is_remembered(), "the offset has expired", timeout_s=120)
        plan = query.plan()
        with pytest.raises(PipelineError, match=r"micro-batch 3 was planned .* ago.*forgottenBatch"):
            query.write(plan, rows(0, "a"), batch_id=3, age_ms=plan.begun_ms - planned_ms)
        assert query.values() == ["a"]
        query.commit([query.write(query.plan(), rows(0, "b"), batch_id=4)], batch_id=4)
        assert query.values() == ["a", "b"], "what is new is written"


def test_what_a_dead_driver_left_open_is_aborted_by_the_next_plan(address: str) -> None:
    """Killed after some tasks had written, and after the batch's id was in the transaction, but not its end."""
    query = Query(address)
    plan = query.plan()
    written = query.write(plan, rows(0, *LETTERS))
    link = link_to(query.options)
    place = next(iter(written.counts))
    link.run(plan.transaction.commit_batch_id(link, 0, query.query_id, place))
    query.commit([query.write(query.plan(), rows(0, *LETTERS))])
    assert query.values() == LETTERS
    assert query.last_batch() == [(query.topic, 1)]


def test_a_task_of_an_earlier_plan_cannot_write_any_more(address: str) -> None:
    query = Query(address)
    old = query.plan()
    query.write(old, rows(0, "old"))
    new = query.plan()
    with pytest.raises(PipelineError, match=r"newer run of the query|were not written"):
        query.write(old, rows(1, "late"), index=1)
    query.commit([query.write(new, rows(0, "new"))])
    assert query.values() == ["new"]


def test_a_retried_task_goes_on_where_the_first_attempt_stopped(address: str) -> None:
    query = Query(address)
    plan = query.plan()
    with pytest.raises(RuntimeError, match="fails here"):
        query.write(plan, rows(1, *LETTERS), fails_after=3)
    written = query.write(plan, rows(1, *LETTERS), attempt=1)
    assert list(written.counts.values()) == [len(LETTERS)]
    query.commit([written])
    assert query.values() == LETTERS


def test_a_retried_task_may_have_its_rows_in_another_order_and_other_batches(address: str) -> None:
    """As after a shuffle; equal rows are counted."""
    query = Query(address)
    plan = query.plan()
    twice = LETTERS + LETTERS[:5]
    with pytest.raises(RuntimeError, match="fails here"):
        query.write(plan, rows(1, *twice), fails_after=2, handed=5)
    with pytest.raises(RuntimeError, match="fails here"):
        query.write(plan, rows(1, *reversed(twice)), attempt=1, fails_after=4, handed=3)
    query.commit([query.write(plan, rows(1, *sorted(twice)), attempt=2, handed=7)])
    assert Counter(query.values()) == Counter(twice)


def test_an_attempt_that_had_written_everything_is_not_repeated(address: str) -> None:
    """The worker died after its last row and before it could tell."""
    query = Query(address)
    plan = query.plan()
    query.write(plan, [*rows(0, "a", "b"), *rows(2, "c")])
    again = query.write(plan, [*rows(2, "c"), *rows(0, "b", "a")], attempt=1)
    assert sorted(again.counts.values()) == [1, 2]
    query.commit([again])
    assert sorted(query.values()) == ["a", "b", "c"]


def test_an_attempt_that_wakes_up_after_another_took_over_is_refused(address: str) -> None:
    query = Query(address)
    plan = query.plan()
    other = Overtaking(4, lambda: query.write(plan, rows(1, *LETTERS), attempt=1, handed=3))
    with pytest.raises(Conflict):
        query.write(plan, rows(1, *LETTERS), before=other)
    query.commit(other.written)
    assert query.values() == LETTERS


@pytest.mark.parametrize("times", [None, TIMES], ids=["stamped", "own times"])
def test_two_attempts_that_send_the_very_same_batches_both_succeed(
    address: str, monkeypatch: pytest.MonkeyPatch, times: dict[str, int] | None
) -> None:
    """The broker keeps each batch once, and what it kept is what either of them sent."""
    monkeypatch.setattr(earlier, "QUIET_MS", 500)
    query = Query(address)
    plan = query.plan()
    other = Overtaking(4, lambda: query.write(plan, rows(1, *LETTERS), attempt=1, times=times))
    first = query.write(plan, rows(1, *LETTERS), before=other, times=times)
    assert first.counts == other.written[0].counts
    query.commit([first])
    assert query.values() == LETTERS
    assert times is None or query.times() == times


def test_records_have_the_times_of_their_rows_through_retried_tasks(address: str) -> None:
    """Rows that say none have that of the micro-batch, whichever attempt writes them."""
    query = Query(address)
    plan = query.plan()
    times: dict[str, int | None] = {**TIMES, LETTERS[0]: None, LETTERS[-1]: None}
    with pytest.raises(RuntimeError, match="fails here"):
        query.write(plan, rows(1, *LETTERS), fails_after=3, times=times)
    query.commit([query.write(plan, rows(1, *reversed(LETTERS)), attempt=1, times=times, handed=5)])
    assert query.times() == TIMES | {LETTERS[0]: plan.begun_ms, LETTERS[-1]: plan.begun_ms}


def test_a_topic_that_stamps_records_itself_does_so_over_the_times_of_rows(address: str) -> None:
    query = Query(address, configs={"message.timestamp.type": "LogAppendTime"})
    plan = query.plan()
    with pytest.raises(RuntimeError, match="fails here"):
        query.write(plan, rows(1, *LETTERS), fails_after=3, times=TIMES)
    query.commit([query.write(plan, rows(1, *reversed(LETTERS)), attempt=1, times=TIMES, handed=5)])
    assert Counter(query.values()) == Counter(LETTERS)
    assert min(query.times().values()) > max(TIMES.values())


def test_a_time_before_1970_is_refused_with_its_row(address: str) -> None:
    query = Query(address)
    with pytest.raises(PipelineError, match="row 1 has a timestamp before 1970, -5"):
        query.write(query.plan(), rows(1, "a", "b"), times={"a": 5, "b": -5})


@pytest.mark.parametrize("times", [None, TIMES], ids=["stamped", "own times"])
def test_an_attempt_whose_batches_look_like_repetitions_is_refused(
    address: str, monkeypatch: pytest.MonkeyPatch, times: dict[str, int] | None
) -> None:
    """Batches of as many rows, in another order, while the first attempt had not written yet."""
    monkeypatch.setattr(earlier, "QUIET_MS", 500)
    query = Query(address)
    plan = query.plan()
    other = Overtaking(0, lambda: query.write(plan, rows(1, *reversed(LETTERS)), attempt=1, times=times))
    with pytest.raises(Conflict):
        query.write(plan, rows(1, *LETTERS), before=other, times=times)
    query.commit(other.written)
    assert query.values() == LETTERS[::-1]


def test_rows_that_differ_between_attempts_fail_the_micro_batch(address: str) -> None:
    query = Query(address)
    plan = query.plan()
    query.write(plan, rows(1, *LETTERS[:8]))
    with pytest.raises(PipelineError, match="not among its rows now"):
        query.write(plan, rows(1, *(f"other {letter}" for letter in LETTERS)), attempt=1)
    query.commit([query.write(query.plan(), rows(1, "a"))])
    assert query.values() == ["a"]


@pytest.mark.parametrize("second", [LETTERS[:4], LETTERS[:8], ["x", "y"]], ids=["the same", "more", "others"])
def test_two_tasks_in_one_partition_never_count(address: str, second: list[str]) -> None:
    """The broker drops the second task's batch as a repetition when it looks like one; somebody has to notice."""
    query = Query(address)
    plan = query.plan()
    first = query.write(plan, rows(1, *LETTERS[:4]), index=0)
    with pytest.raises(PipelineError, match=r"must come from one task.*to_partitions"):
        query.commit([first, query.write(plan, rows(1, *second), index=1)])
    query.commit([query.write(query.plan(), rows(1, "a"))])
    assert query.values() == ["a"]


def test_a_second_attempt_of_another_task_is_told_at_the_commit(address: str) -> None:
    """It finds its rows in the log, but another task put them there."""
    query = Query(address)
    plan = query.plan()
    first = query.write(plan, rows(1, "a", "a"), index=0)
    second = query.write(plan, rows(1, "a", "a"), index=1, attempt=1)
    with pytest.raises(Conflict, match="two tasks have rows for it"):
        query.commit([first, second])
    query.commit([query.write(query.plan(), rows(1, "b"))])
    assert query.values() == ["b"]


def test_an_aborted_micro_batch_fences_its_tasks(address: str) -> None:
    query = Query(address)
    plan = query.plan()
    written = query.write(plan, rows(0, "a"))
    exactly_once.abort(query.options, [written])
    with pytest.raises(PipelineError):
        query.write(plan, rows(1, "late"), index=1)
    assert query.values() == []
    query.commit([query.write(query.plan(), rows(0, "b"))])
    assert query.values() == ["b"]


def test_rows_without_key_and_partition_stay_apart_from_those_of_other_tasks(address: str) -> None:
    query = Query(address)
    for batch_id in range(3):
        plan = query.plan()
        written = [
            query.write(plan, rows(None, *LETTERS), batch_id=batch_id, index=index) for index in range(3)
        ]  # fmt: skip
        query.commit(written, batch_id)
    assert Counter(query.values()) == Counter(LETTERS * 9)


def test_an_empty_micro_batch_opens_nothing(address: str) -> None:
    query = Query(address)
    query.commit([query.write(query.plan(), [])])
    query.commit([query.write(query.plan(), rows(0, "a"), batch_id=1)], batch_id=1)
    assert query.values() == ["a"]
    assert query.last_batch() == [(query.topic, 2)]


def test_a_topic_that_stamps_records_itself_is_written_exactly_once_too(address: str) -> None:
    """Every answer has a time there: the batches are read back, and a foreign one shows."""
    query = Query(address, configs={"message.timestamp.type": "LogAppendTime"})
    plan = query.plan()
    with pytest.raises(RuntimeError, match="fails here"):
        query.write(plan, rows(1, *LETTERS), fails_after=3)
    query.commit([query.write(plan, rows(1, *LETTERS), attempt=1)])
    assert query.values() == LETTERS
    plan = query.plan()
    query.write(plan, rows(1, "a", "b"), index=0, batch_id=1)
    with pytest.raises(Conflict):
        query.write(plan, rows(1, "x", "y"), index=1, batch_id=1)


def test_a_batch_that_is_too_large_for_its_topic_is_cut_in_halves(address: str) -> None:
    query = Query(address, configs={"max.message.bytes": "2000"})
    values = [f"{number}-{'x' * 300}" for number in range(40)]
    query.commit([query.write(query.plan(), rows(0, *values), handed=40)])
    assert query.values() == values
    with pytest.raises(PipelineError, match="MESSAGE_TOO_LARGE"):
        query.write(query.plan(), rows(0, "x" * 3000), batch_id=1)


def test_another_producer_in_the_same_partition_is_not_taken_for_an_attempt(address: str) -> None:
    query = Query(address)
    with Producer(bootstrap_servers=address) as other:
        other.send(query.topic, b"other", partition=1).result(10)
        plan = query.plan()
        with pytest.raises(RuntimeError, match="fails here"):
            query.write(plan, rows(1, *LETTERS), fails_after=3)
        other.send(query.topic, b"other", partition=1).result(10)
        query.commit([query.write(plan, rows(1, *LETTERS), attempt=1)])
    assert Counter(query.values()) == Counter([*LETTERS, "other", "other"])


def test_a_batch_job_is_one_transaction_without_a_batch_id(address: str, tmp_path: Path) -> None:
    query = Query(address)
    query.commit([query.write(query.plan(), rows(0, "a"), batch_id=None)], None)
    assert query.values() == ["a"]
    assert query.last_batch() == []
