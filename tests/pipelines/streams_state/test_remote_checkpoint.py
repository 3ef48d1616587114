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


@pytest.mark.timeout(600)  # four runs of Spark on a busy machine
def test_batches_are_remembered_by_the_querys_id_wherever_its_checkpoint_is(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    """A snapshot that is behind the sink is refused, and so is an old copy of the checkpoint; a new checkpoint at the
    same address begins anew, and none of its batches is left out."""
    application, bootstrap = new_topic("far"), cluster.bootstrap_servers
    source, target = cluster.create_topic(f"{application}-in"), cluster.create_topic(f"{application}-out")
    disk, address = tmp_path / "disk", f"viewfs://{application}/checkpoints"
    disk.mkdir()
    spark.conf.set(f"fs.viewfs.mounttable.{application}.link./checkpoints", disk.as_uri())
    builder = StreamsBuilder()
    builder.stream(source).group_by_key().count().to_stream().to(target)
    topology = builder.build(application)

    def run() -> list[int]:
        """The counts in the output after one more record, and the batches that it takes."""
        with Producer(bootstrap_servers=bootstrap) as producer:
            producer.send(source, key=b"k", value=b"v")
            producer.flush()
        topology.start(spark, bootstrap, checkpoint=f"{address}/words", available_now=True)
        rows = read_topic(bootstrap, target, isolation_level="read_committed")
        return [int.from_bytes(value) for value in rows["value"].to_pylist()]

    assert run() == [1]
    take(disk / "words", tmp_path / "kept")
    shutil.copytree(disk / "words", tmp_path / "copy")
    assert run() == [1, 2]
    assert run() == [1, 2, 3]
    with pytest.raises(PipelineError, match=r"The sink has written batch \d+ of query .*, and the snapshot knows of"):
        restore(tmp_path / "kept", tmp_path / "restored", bootstrap=bootstrap)
    shutil.rmtree(disk / "words")
    shutil.move(tmp_path / "copy", disk / "words")
    with pytest.raises(Exception, match="CheckpointBehind: Batch 1 is to be written, and the sink has written batch 2"):
        run()
    shutil.rmtree(disk / "words")
    assert run() == [1, 2, 3, 5], "a new checkpoint counts all records again, in its first batch"
