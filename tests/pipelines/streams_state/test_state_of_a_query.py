"""A query with state from its first batch to another machine: asked, snapshotted, rescaled, restored, exactly once."""

from __future__ import annotations

import os
import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client import Admin, NewPartitions, NewTopic, Producer, read_topic
from ottla.pipelines import already_placed
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.processor import Context, Processor, ProcessorOperator, Record
from ottla.pipelines.streams.queryable import open_store
from ottla.pipelines.streams.snapshot import restore, restore_changelogs, take
from ottla.pipelines.streams.stores import StoreSpec, changelog_topic, check_scale, ensure_changelogs, rescale, serde
from ottla.testing import Cluster
from tests.support.clients import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

APPLICATION = "state-of-a-query"
TOTALS = StoreSpec(name="totals", value=serde("long"))
TRIES = 4
SOAK = bool(os.environ.get("OTTLA_SOAK"))
SHUFFLE = "spark.sql.shuffle.partitions"


class Totals(Processor):
    """Forwards each key's running number, which shows what is lost or doubled."""

    stores = (TOTALS,)

    def process(self, record: Record, context: Context) -> None:
        store = context.value("totals")
        store.put((store.get() or 0) + 1)
        context.forward(record.key, str(store.get()))


OPERATOR = ProcessorOperator(processor=Totals(), key_type="STRING", value_type="STRING")


class Story:
    """The query, its topics, and what must have come of what was sent."""

    def __init__(self, spark: SparkSession, bootstrap: str) -> None:
        self._spark = spark
        self.bootstrap = bootstrap
        self.sent: Counter[str] = Counter()
        self._random = random.Random(7)
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([NewTopic(f"{APPLICATION}-in", 2), NewTopic(f"{APPLICATION}-out", 2)]).all()
            ensure_changelogs(admin, APPLICATION, [TOTALS], partitions=2)

    def send(self) -> None:
        keys = [f"key-{self._random.randrange(20)}" for _ in range(200)]
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            for key in keys:
                producer.send(f"{APPLICATION}-in", b"x", key=key.encode())
        self.sent.update(keys)

    def run(self, checkpoint: Path, *, partitions: int = 2) -> None:
        """Everything that is there, in one or more batches."""
        kafka = {"kafka.bootstrap.servers": self.bootstrap}
        records = (
            self._spark.readStream.format("ottla")
            .options(**kafka, subscribe=f"{APPLICATION}-in", startingOffsets="earliest")
            .load()
            .selectExpr("CAST(key AS STRING) AS key", "value", "timestamp", "partition", "offset")
        )
        self._spark.conf.set(SHUFFLE, partitions)
        rows = OPERATOR.transform(records).selectExpr(
            f"CASE WHEN store IS NULL THEN '{APPLICATION}-out' "
            f"ELSE concat('{APPLICATION}-', store, '-changelog') END AS topic",
            "coalesce(store_key, CAST(key AS BINARY)) AS key",
            "CASE WHEN store IS NULL THEN CAST(value AS BINARY) ELSE store_value END AS value",
        )
        writer = (
            already_placed(rows.coalesce(1))  # one task writes all partitions
            .writeStream.format("ottla")
            .options(**kafka, checkpointLocation=str(checkpoint))
            .trigger(availableNow=True)
        )
        from pyspark.errors import StreamingQueryException

        for _ in range(TRIES):
            try:
                writer.start().awaitTermination()
                return
            except StreamingQueryException as failure:
                # Spark gives a Python process ten seconds to begin, which a busy machine may not manage; a query that
                # is started again goes on exactly, so it may be tried again.
                if "failed to connect back" not in str(failure):
                    raise
        raise AssertionError(f"no Python process could be started in {TRIES} tries")

    def totals(self) -> dict[str, int]:
        with open_store(self.bootstrap, APPLICATION, TOTALS) as store:
            return {entry.key: entry.value for entry in store.all()}

    def numbers(self) -> dict[str, list[int]]:
        """Each key's numbers in the output, in order."""
        table = read_topic(self.bootstrap, f"{APPLICATION}-out", isolation_level="read_committed")
        found: dict[str, list[int]] = defaultdict(list)
        for key, value in zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True):
            found[key.decode()].append(int(value))
        return found

    def expected_numbers(self) -> dict[str, list[int]]:
        return {key: list(range(1, number + 1)) for key, number in self.sent.items()}


@pytest.mark.timeout(600)  # three runs of Spark, or four, on a busy machine
def test_state_is_asked_snapshotted_rescaled_and_restored_and_nothing_is_lost_or_doubled(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    before = spark.conf.get(SHUFFLE)
    try:
        _tell(Story(spark, cluster.bootstrap_servers), spark, tmp_path)
    finally:
        spark.conf.set(SHUFFLE, str(before))


def _tell(story: Story, spark: SparkSession, tmp_path: Path) -> None:
    checkpoint, kept = tmp_path / "checkpoint", tmp_path / "kept"
    changelogs = [changelog_topic(APPLICATION, TOTALS.name)]
    where: dict[str, Any] = {"bootstrap": story.bootstrap}

    story.send()
    story.run(checkpoint)
    assert story.totals() == story.sent, "what is asked is what was committed"
    full = take(checkpoint, kept, name="full", changelogs=changelogs, **where)

    # The input gets more partitions, and the state another number of parts.
    with Admin(bootstrap_servers=story.bootstrap) as admin:
        admin.create_partitions({f"{APPLICATION}-in": NewPartitions(4)}).all()
    with pytest.raises(PipelineError, match="has 2 parts"):
        check_scale(checkpoint, 3)
    rescale(spark, checkpoint, 3)
    check_scale(checkpoint, 3)
    story.send()
    story.run(checkpoint, partitions=3)
    assert story.totals() == story.sent
    assert story.numbers() == story.expected_numbers(), "in order, each once"

    # The first snapshot is behind the sink now: it says so, and the second is not.
    with pytest.raises(PipelineError, match=r"The sink has written batch \d+ .* ahead=.again. writes again"):
        restore(kept, tmp_path / "too-old", name="full", **where)
    partial = take(checkpoint, kept, name="partial", changelogs=changelogs, **where)
    assert [len(one.segments) for one in partial.changelogs] == [2]
    assert partial.changelogs[0].segments[0] == full.changelogs[0].segments[0]
    restore(kept, tmp_path / "another-machine" / "checkpoint", **where)
    story.send()
    story.run(tmp_path / "another-machine" / "checkpoint", partitions=3)
    assert story.totals() == story.sent
    assert story.numbers() == story.expected_numbers()

    if SOAK:
        # A snapshot that is behind, by choice: nothing is lost, and the store comes to the right totals again.
        restore(kept, tmp_path / "again" / "checkpoint", ahead="again", name="partial", **where)
        story.run(tmp_path / "again" / "checkpoint", partitions=3)
        assert story.totals() == story.sent
        assert {key: sorted(set(found)) for key, found in story.numbers().items()} == story.expected_numbers()

    # And the changelog by itself, on a cluster that has lost it.
    last = take(tmp_path / "another-machine" / "checkpoint", kept, changelogs=changelogs, full=True, **where)
    with pytest.raises(PipelineError, match="has records"):
        restore_changelogs(kept, story.bootstrap)
    with Admin(bootstrap_servers=story.bootstrap) as admin:
        admin.delete_topics(changelogs).all()
        # The controller has deleted it; the broker that is asked next may hear of that later.
        eventually(lambda: changelogs[0] not in admin.list_topics(include_internal=True), "the changelog is gone")
    assert restore_changelogs(kept, story.bootstrap) == {changelogs[0]: last.changelogs[0].segments[0].records}
    assert story.totals() == story.sent
