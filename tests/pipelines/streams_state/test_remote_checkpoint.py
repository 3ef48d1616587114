"""A topology in update mode whose checkpoint is on a file system that is not this machine's, as far as our code sees.

Hadoop's view of file systems (`viewfs`) has this machine's disk under another address.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.client import Producer, read_topic
from ottla.pipelines import PipelineError
from ottla.pipelines.streams import StreamsBuilder
from ottla.pipelines.streams.snapshot import restore, take
from ottla.testing import Cluster
from tests.support.clients import new_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Counting:
    """A topology that counts, with its checkpoint under `address`, which is the directory `disk`."""

    def __init__(self, spark: SparkSession, bootstrap: str, source: str, target: str, disk: Path) -> None:
        self.spark, self.bootstrap, self.source, self.target = spark, bootstrap, source, target
        self.application = new_topic("far")
        disk.mkdir()
        spark.conf.set(f"fs.viewfs.mounttable.{self.application}.link./checkpoints", disk.as_uri())
        self.address = f"viewfs://{self.application}/checkpoints"
        builder = StreamsBuilder()
        builder.stream(source).group_by_key().count().to_stream().to(target)
        self.topology = builder.build(self.application)

    def run(self) -> list[int]:
        """The counts in the output after one more record, and the batches that it takes."""
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            producer.send(self.source, key=b"k", value=b"v")
            producer.flush()
        self.topology.start(self.spark, self.bootstrap, checkpoint=f"{self.address}/words", available_now=True)
        rows = read_topic(self.bootstrap, self.target, isolation_level="read_committed")
        return [int.from_bytes(value) for value in rows["value"].to_pylist()]


@pytest.fixture
def counting(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> Counting:
    source, target = cluster.create_topic(new_topic("far-in")), cluster.create_topic(new_topic("far-out"))
    return Counting(spark, cluster.bootstrap_servers, source, target, tmp_path / "disk")


@pytest.mark.timeout(600)  # four runs of Spark on a busy machine
def test_a_snapshot_and_an_old_copy_of_a_remote_checkpoint_are_refused(counting: Counting, tmp_path: Path) -> None:
    """Where the sink has written batches that they do not know of."""
    disk = tmp_path / "disk"
    assert counting.run() == [1]
    take(disk / "words", tmp_path / "kept")
    shutil.copytree(disk / "words", tmp_path / "copy")
    assert counting.run() == [1, 2]
    assert counting.run() == [1, 2, 3]
    with pytest.raises(PipelineError, match=r"The sink has written batch \d+ of query .*, and the snapshot knows of"):
        restore(tmp_path / "kept", tmp_path / "restored", bootstrap=counting.bootstrap)
    shutil.rmtree(disk / "words")
    shutil.move(tmp_path / "copy", disk / "words")
    with pytest.raises(Exception, match="CheckpointBehind: Batch 1 is to be written, and the sink has written batch 2"):
        counting.run()


@pytest.mark.timeout(600)
def test_a_new_remote_checkpoint_at_the_address_of_a_deleted_one_begins_anew(
    counting: Counting, tmp_path: Path
) -> None:
    """None of its batches is left out as one of the query before."""
    assert counting.run() == [1]
    shutil.rmtree(tmp_path / "disk" / "words")
    assert counting.run() == [1, 2], "all records again, in its first batch"
