"""What an ETL pipeline left behind, and how it is taken back to its beginning or deleted.

A reset removes the checkpoints, what exactly-once sinks remember of the batches they have written, how far a table
that grows was read, and the replication slot of a database that is captured. What was written stays. Promises: not
while the pipeline runs, nor while it is started; what a source `http` has taken and no query has read stays through a
reset, because it was answered for. No Spark. Called by `ottla pipeline reset` and `ottla pipeline delete`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.pipelines.connect.change_spool import read_slot
from ottla.pipelines.connect.kinds import CDC
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.sink.memory import sink_name

if TYPE_CHECKING:
    from ottla.pipelines.connect.change_spool import Slot
    from ottla.pipelines.connect.spec import Part, Pipeline
    from ottla.pipelines.connect.state import Home

QUERIES = {"main": "the sink", "dead-letter": "the dead letters"}
"""The queries of a pipeline, which are also the directories of its checkpoint."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The group in which a sink of topics remembers what it has written, and settings of a client that reaches it."""

    group: str
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Belongings:
    """What a pipeline has beside its output."""

    home: Home
    checkpoints: tuple[Path, ...]
    memories: tuple[Memory, ...]
    position: Path | None
    """The spool of a table that grows, which is read again."""
    notes: tuple[str, ...]
    """What stays, and why."""
    slot: Slot | None = None
    """The replication slot of a source `postgresql-cdc`, with the publication that was made for it."""
    pipeline: Pipeline | None = None

    def reset(self) -> None:
        """Takes the pipeline back to its beginning: what its sinks remember first, while the checkpoint says it."""
        with self.home.running():
            self._forget_batches()
            if self.slot is not None and self.pipeline is not None:
                from ottla.pipelines.connect import capture

                # Before the spool, which says that the slot is the pipeline's.
                capture.drop(self.pipeline, self.slot)
            for path in (*self.checkpoints, *([] if self.position is None else [self.position])):
                if path.exists():
                    shutil.rmtree(path)

    def delete(self) -> None:
        """And removes the pipeline itself, with what a source `http` still has."""
        self.reset()
        shutil.rmtree(self.home.path)

    def _forget_batches(self) -> None:
        from ottla.client import Admin
        from ottla.client.config import FIRST_CONTACT
        from ottla.errors import GroupIdNotFound

        for memory in self.memories:
            with Admin({**FIRST_CONTACT, **memory.settings}) as admin:
                outcome = admin.delete_groups([memory.group])[memory.group]
            if outcome.error is not None and not isinstance(outcome.error, GroupIdNotFound):
                raise PipelineError(f"the sink {memory.group} cannot be made to forget its batches: {outcome.error}")


def belongings(home: Home) -> Belongings:
    """What a pipeline that was run here has; `PipelineError` where its file would have to tell and cannot."""
    from ottla.pipelines.connect.spec import load

    state = home.read()
    assert state is not None, f"{home.path} is that of a pipeline that was run"
    if not Path(state.file).is_file():
        raise PipelineError(
            f"{state.file}, which describes {home.name}, is not there any more, and it says where the checkpoint and "
            f"the sink are: put it back, or remove {home.path} yourself"
        )
    pipeline = load(state.file)
    if pipeline.name != home.name:
        raise PipelineError(f"{state.file} describes {pipeline.name} by now, and not {home.name}")
    base = _local(pipeline.checkpoint) if pipeline.checkpoint else home.checkpoint
    found = {name: base / name for name in QUERIES if (base / name / "metadata").is_file()}
    memories = tuple(
        Memory(sink_name(json.loads((path / "metadata").read_text(encoding="utf-8"))["id"]), settings)
        for name, path in found.items()
        if (settings := _client(pipeline, name)) is not None
    )
    spool = Path(pipeline.source.options.get("spool") or home.spool)
    position = spool if (pipeline.source.is_growing or pipeline.source.kind == CDC) and spool.exists() else None
    slot = read_slot(spool) if pipeline.source.kind == CDC else None
    return Belongings(home, tuple(found.values()), memories, position, tuple(_notes(pipeline, spool)), slot, pipeline)


def _client(pipeline: Pipeline, query: str) -> dict[str, str] | None:
    """Settings of a client of the cluster that a query writes to; None where it writes to no topic."""
    if query == "main":
        return _settings(pipeline.sink) if pipeline.sink.kind == "topic" else None
    letter = pipeline.dead_letter
    if letter is None or letter.servers is None:
        return None
    for part in (pipeline.sink, pipeline.source):
        if part.kind == "topic" and part.options["bootstrap.servers"] == letter.servers:
            return _settings(part)
    return {"bootstrap.servers": letter.servers}


def _settings(part: Part) -> dict[str, str]:
    settings = {name.removeprefix("kafka."): str(value) for name, value in part.passed("kafka.").items()}
    return {**settings, "bootstrap.servers": part.options["bootstrap.servers"]}


def _notes(pipeline: Pipeline, spool: Path) -> list[str]:
    notes = []
    if pipeline.source.kind == "http" and spool.is_dir() and any(spool.iterdir()):
        notes.append(f"requests that were answered and are still in {spool} stay, and are read again with a reset")
    if pipeline.sink.kind == "jdbc":
        notes.append("the marks of written batches stay in the database: a new checkpoint has marks of its own")
    notes.append(f"what was written to the sink {pipeline.sink.kind} stays, and a new run writes it again")
    return notes


def _local(place: str) -> Path:
    text = place.removeprefix("file://").removeprefix("file:")
    if "://" in text:
        raise PipelineError(f"the checkpoint {place} is not on a disk of this machine: remove it where it is")
    return Path(text)
