"""What a checkpoint notes of the topology it was made by: a line of JSON in `<checkpoint>/topology`.

Promises: notes are added and never replaced, the newest one counts, so a start that is killed leaves the notes there
were; they are read and written through Spark, which reaches any file system, or on a disk of this machine without it.
Called by `running`, and by the tools.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.evolution import VERSION
from ottla.pipelines.streams.planning import NOTES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def read(spark: SparkSession, checkpoint: str) -> dict[str, Any] | None:
    """The notes of a checkpoint anywhere; None for a new one."""
    from pyspark.errors import AnalysisException

    try:
        rows = spark.read.text(f"{checkpoint}/{NOTES}").collect()
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return None
        raise
    return _newest(row[0] for row in rows)


def write(spark: SparkSession, checkpoint: str, notes: Mapping[str, Any]) -> None:
    """Adds notes to a checkpoint anywhere."""
    from pyspark.sql import functions as F

    # Of a literal: a DataFrame made of Python's rows would start a Python worker for one of them.
    rows = spark.range(1, numPartitions=1).select(F.lit(json.dumps(_next(notes))).alias("value"))
    rows.write.mode("append").text(f"{checkpoint}/{NOTES}")


def local(checkpoint: str) -> Path:
    """A checkpoint's directory on this machine; `file:` may stand before it."""
    text = checkpoint.removeprefix("file://").removeprefix("file:")
    if "://" in text:
        raise PipelineError(f"{checkpoint} is not on a disk of this machine: mount it, or copy it to one first")
    return Path(text)


def read_local(checkpoint: Path) -> dict[str, Any]:
    """The notes of a checkpoint on this machine, which has some."""
    files = sorted((checkpoint / NOTES).glob("part-*"))
    found = _newest(line for path in files for line in path.read_text(encoding="utf-8").splitlines())
    if found is None:
        raise PipelineError(f"{checkpoint} is no checkpoint of a topology: there is no {NOTES}/part-* in it")
    return found


def write_local(checkpoint: Path, notes: Mapping[str, Any]) -> None:
    """Adds notes to a checkpoint on this machine."""
    from ottla.pipelines.durable import write_beside

    new = _next(notes)
    write_beside(checkpoint / NOTES / f"part-{new['generation']:05}.txt", json.dumps(new).encode())


def _next(notes: Mapping[str, Any]) -> dict[str, Any]:
    return {**notes, "version": VERSION, "generation": notes.get("generation", 0) + 1}


def _newest(lines: Iterable[str]) -> dict[str, Any] | None:
    found = [json.loads(line) for line in lines if line]
    if not found:
        return None
    newest: dict[str, Any] = max(found, key=lambda one: one.get("generation", 0))
    if newest.get("version", 1) > VERSION:
        raise PipelineError("the checkpoint was made by a newer version of Ottla: start it with that one")
    return newest
