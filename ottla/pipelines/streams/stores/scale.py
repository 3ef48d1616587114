"""How many parts a query's state has, and how to change that.

Spark ties state to the `spark.sql.shuffle.partitions` of a query's first batch: it goes on with the number in the
checkpoint whatever the session says. `check_scale` tells that instead, and `rescale` divides the state anew. The topics
that a query reads may get more partitions at any time: state is divided by key, not by the topic's partitions.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTING = "spark.sql.shuffle.partitions"


def state_partitions(checkpoint: Path) -> int | None:
    """The number of parts the state of a query's checkpoint has; None before its first batch."""
    batch = last_batch(checkpoint / "offsets")
    if batch is None:
        return None
    path = checkpoint / "offsets" / str(batch)
    lines = path.read_text(encoding="utf-8").splitlines()
    try:
        return int(json.loads(lines[1])["conf"][SETTING])
    except (IndexError, KeyError, ValueError) as error:
        raise PipelineError(f"{path} is no batch of a Spark checkpoint: {error!r}") from error


def last_batch(log: Path) -> int | None:
    """The number of the last entry of a checkpoint's log."""
    if not log.is_dir():
        return None
    return max((int(path.name) for path in log.iterdir() if path.name.isdecimal()), default=None)


def check_scale(checkpoint: Path, partitions: int) -> None:
    """Refuse a number of shuffle partitions that the checkpoint does not have."""
    made_with = state_partitions(checkpoint)
    if made_with is not None and made_with != partitions:
        raise PipelineError(
            f"The state in {checkpoint} has {made_with} parts, and {SETTING} is {partitions}: set it to {made_with}, "
            f"or divide the state anew with ottla.pipelines.streams.stores.rescale(spark, checkpoint, "
            f"{partitions}) while the query is stopped"
        )


def rescale(spark: SparkSession, checkpoint: Path, partitions: int) -> None:
    """Divide a stopped query's state into another number of parts; nothing is read or written twice for it.

    It adds a batch without records to the checkpoint, so one that is interrupted leaves the state as it was. The state
    must lie in RocksDB, as a session of `ottla.pipelines.session` has it.
    """
    if state_partitions(checkpoint) in (None, partitions):
        return
    planned, committed = last_batch(checkpoint / "offsets"), last_batch(checkpoint / "commits")
    if planned != committed:
        raise PipelineError(
            f"Batch {planned} in {checkpoint} is not done: start the query once more with "
            f"{SETTING}={state_partitions(checkpoint)}, stop it when the batch is through, and rescale then"
        )
    manager = spark._streamingCheckpointManager
    manager.repartition(str(checkpoint), partitions)
    found = state_partitions(checkpoint)
    assert found == partitions, f"{checkpoint} has {found} parts after it was divided into {partitions}"
