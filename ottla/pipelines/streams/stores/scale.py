"""How many parts a query's state has, and how to change that.

Spark ties state to the `spark.sql.shuffle.partitions` of a query's first batch: it goes on with the number in the
checkpoint whatever the session says. `check_scale` tells that instead, and `rescale` divides the state anew; for all
queries of a topology there are `other_scales` and `rescale_topology`. The topics that a query reads may get more
partitions at any time: state is divided by key, not by the topic's partitions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
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
    return _made_with(path.read_text(encoding="utf-8"), str(path))


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


def other_scales(spark: SparkSession, checkpoint: str, queries: Iterable[str]) -> dict[str, int]:
    """Those of a topology's queries whose state has another number of parts than the session asks for."""
    wanted = int(str(spark.conf.get(SETTING)))
    found = {name: _partitions_anywhere(spark, f"{checkpoint}/{name}") for name in queries}
    return {name: parts for name, parts in found.items() if parts is not None and parts != wanted}


def rescale_topology(spark: SparkSession, checkpoint: Path | str, partitions: int) -> list[str]:
    """Divide the state of all queries of a stopped topology anew, and return their names.

    Interrupted, it has divided some of them: call it again. The checkpoint must be a directory of this machine's.
    """
    queries = sorted(path.parent for path in Path(checkpoint).glob("*/state") if path.is_dir())
    if not queries:
        raise PipelineError(f"{checkpoint} holds no query with state")
    for query in queries:
        rescale(spark, query, partitions)
    return [query.name for query in queries]


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


def _partitions_anywhere(spark: SparkSession, checkpoint: str) -> int | None:
    """As `state_partitions`, on any file system that Spark reaches."""
    if "://" not in checkpoint:
        return state_partitions(Path(checkpoint))
    from pyspark.errors import AnalysisException

    log = f"{checkpoint}/offsets"
    try:
        rows = spark.read.text(log, wholetext=True).select("_metadata.file_name", "value").collect()
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return None
        raise
    batches = {int(row.file_name): row.value for row in rows if row.file_name.isdecimal()}
    return _made_with(batches[max(batches)], f"{log}/{max(batches)}") if batches else None


def _made_with(batch: str, place: str) -> int:
    try:
        return int(json.loads(batch.splitlines()[1])["conf"][SETTING])
    except (IndexError, KeyError, ValueError) as error:
        raise PipelineError(f"{place} is no batch of a Spark checkpoint: {error!r}") from error
