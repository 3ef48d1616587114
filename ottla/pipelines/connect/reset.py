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

QUERIES = ("main", "dead-letter", "sinks/*", "dead-letters/*")
"""The queries of a pipeline, which are also the directories of its checkpoint; those of parts that the file does not
have any more too."""


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
    positions: tuple[Path, ...]
    """The spools of tables that grow and of databases that are captured, which are read again."""
    notes: tuple[str, ...]
    """What stays, and why."""
    pipeline: Pipeline
    slot: Slot | None
    """The replication slot of a source `postgresql-cdc`, with the publication that was made for it."""

    def reset(self) -> None:
        """Takes the pipeline back to its beginning: what its sinks remember first, while the checkpoint says it."""
        with self.home.running():
            self._forget_batches()
            if self.slot is not None:
                from ottla.pipelines.connect import capture

                # Before the spool, which says that the slot is the pipeline's.
                capture.drop(self.pipeline, self.slot)
            for path in (*self.checkpoints, *self.positions):
                if path.exists():
                    shutil.rmtree(path)
            self.home.sources.unlink(missing_ok=True)

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
    places = [path.parent for pattern in QUERIES for path in sorted(base.glob(f"{pattern}/metadata"))]
    found = {str(path.relative_to(base)): path for path in places}
    memories = tuple(
        Memory(sink_name(json.loads((path / "metadata").read_text(encoding="utf-8"))["id"]), settings)
        for name, path in found.items()
        if (settings := _client(pipeline, name)) is not None
    )
    captures = [name for name, part in pipeline.sources.items() if part.kind == CDC]
    spools = {
        name: home.spool_of(pipeline, name)
        for name, part in pipeline.sources.items()
        if part.has_spool or name in captures
    }
    positions = [
        spool
        for name, spool in spools.items()
        if (pipeline.sources[name].is_growing or name in captures) and spool.exists()
    ]
    slot = read_slot(spools[captures[0]]) if captures else None  # a capture is the only source of its pipeline
    return Belongings(
        home, tuple(found.values()), memories, tuple(positions), tuple(_notes(pipeline, spools)), pipeline, slot
    )


def _client(pipeline: Pipeline, query: str) -> dict[str, str] | None:
    """Settings of a client of the cluster that a query writes to; None where it writes to no topic, or is gone."""
    kind, _, name = query.partition("/")
    if kind in ("main", "sinks"):
        sink = pipeline.sinks.get(name or kind)
        return _settings(sink) if sink is not None and sink.kind == "topic" else None
    letter = pipeline.dead_letter
    if letter is None or letter.servers is None:
        return None
    for part in pipeline.topics:
        if part.options["bootstrap.servers"] == letter.servers:
            return _settings(part)
    return {"bootstrap.servers": letter.servers}


def _settings(part: Part) -> dict[str, str]:
    settings = {name.removeprefix("kafka."): str(value) for name, value in part.passed("kafka.").items()}
    return {**settings, "bootstrap.servers": part.options["bootstrap.servers"]}


def _notes(pipeline: Pipeline, spools: Mapping[str, Path]) -> list[str]:
    notes = []
    for name, spool in spools.items():
        if pipeline.sources[name].kind == "http" and spool.is_dir() and any(spool.iterdir()):
            notes.append(f"requests that were answered and are still in {spool} stay, and are read again with a reset")
    kinds = list(dict.fromkeys(sink.kind for sink in pipeline.sinks.values()))
    if "jdbc" in kinds:
        notes.append("the marks of written batches stay in the database: a new checkpoint has marks of its own")
    notes += [f"what was written to the sink {kind} stays, and a new run writes it again" for kind in kinds]
    return notes


def _local(place: str) -> Path:
    text = place.removeprefix("file://").removeprefix("file:")
    if "://" in text:
        raise PipelineError(f"the checkpoint {place} is not on a disk of this machine: remove it where it is")
    return Path(text)
