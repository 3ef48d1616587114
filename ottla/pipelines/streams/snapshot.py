"""Snapshots of state: the checkpoints of a topology's queries, and the changelogs of its stores.

    take("checkpoints/words", "snapshots", bootstrap="localhost:9092", changelogs=["words-counts-changelog"])
    restore("snapshots", "checkpoints/words", bootstrap="localhost:9092")

A snapshot is a list of files by their SHA-256; the files lie beside the lists, each once. So every snapshot can be
restored by itself, and the second one costs what is new since the first. Promises: a snapshot is there as a whole or
not at all, whatever is killed when; it is taken beside a running query and holds it as it was after a batch; every byte
is compared with its sum before a restored checkpoint appears under its name; and a checkpoint that is behind what its
sink has written is not restored unless told so, as its next batches would be taken for written and left out.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from ottla.pipelines.durable import sync, sync_tree, write_beside
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.sink.memory import query_names, sink_name
from ottla.pipelines.streams.stores.copies import Changelog, Segment, copy_changelog, write_changelogs
from ottla.pipelines.streams.stores.scale import last_batch
from ottla.pipelines.streams.stores.shelf import Shelf, StoredFile

log = logging.getLogger(__name__)

TRIES = 5
"""How often a copy begins anew because the running query removed a file under it."""
_VERSIONED = re.compile(r"\.?(\d+)(?:_[\w-]+)?\.(?:delta|snapshot|zip|changelog)(?:\.crc)?")
_NUMBERED = re.compile(r"\.?(\d+)(?:\.crc)?")
_NAME = re.compile(r"[\w.-]+")


@dataclass(frozen=True, slots=True)
class Query:
    """A query's checkpoint inside the one that was taken: where, whose, and after which batch."""

    path: str
    id: str
    sink: str
    """The name under which its sink remembers the batches it has written."""
    last_batch: int
    planned_batch: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a snapshot has. `new_bytes` is what it cost beside the ones before it."""

    name: str
    taken_ms: int
    queries: list[Query]
    files: list[StoredFile]
    changelogs: list[Changelog] = field(default_factory=list)
    new_bytes: int = 0


def take(
    checkpoint: Path | str,
    directory: Path | str,
    *,
    name: str | None = None,
    bootstrap: str | None = None,
    changelogs: Sequence[str] = (),
    full: bool = False,
    **settings: Any,
) -> Snapshot:
    """Take a snapshot of a checkpoint, and of changelogs, into a directory of snapshots.

    The query may run on. What an earlier snapshot in the directory has is not copied again, and a file that has its
    size and time of change is not even read; a `full` one reads everything, and mends what was damaged in the
    directory. `settings` are those of a client.
    """
    checkpoint, shelf = _local(checkpoint), Shelf(_local(directory), trusting=not full)
    if changelogs and bootstrap is None:
        raise PipelineError("To take changelogs, say where they are: bootstrap=...")
    before = _latest(shelf.directory)
    known = {file.path: file for file in before.files} if before is not None and not full else {}
    queries, files = _copied(checkpoint, shelf, known)
    # After the checkpoint, so that a changelog is never behind the state it tells of.
    earlier = {one.topic: one for one in before.changelogs} if before is not None and not full else {}
    client = {"bootstrap.servers": bootstrap, **settings}
    logs = [copy_changelog(client, topic, shelf, earlier.get(topic)) for topic in changelogs]
    now_ms = time.time_ns() // 1_000_000
    taken = Snapshot(name or _free_name(shelf.directory, now_ms), now_ms, queries, files, logs, shelf.new_bytes)
    _write_manifest(shelf.directory, taken)
    return taken


def list_snapshots(directory: Path | str) -> list[Snapshot]:
    """The snapshots of a directory, oldest first."""
    found = [_read_manifest(path) for path in Path(directory).glob("snapshots/*.json")]
    return sorted(found, key=lambda one: (one.taken_ms, one.name))


def verify(directory: Path | str, name: str | None = None) -> list[str]:
    """What is wrong with a snapshot, the latest unless named: files that are missing or damaged. Empty: nothing."""
    shelf = Shelf(Path(directory), trusting=False)
    snapshot = _chosen(shelf.directory, name)
    wrong = [f"{file.path}: {reason}" for file in snapshot.files if (reason := shelf.fault(file.sha256, file.size))]
    return wrong + [
        f"{one.topic} {segment.start}: {reason}"
        for one in snapshot.changelogs
        for segment in one.segments
        if (reason := shelf.fault(segment.sha256, segment.size))
    ]


def restore(
    directory: Path | str,
    checkpoint: Path | str,
    *,
    name: str | None = None,
    bootstrap: str | None = None,
    ahead: Literal["refuse", "again", "ignore"] = "refuse",
    transactional_ids: Mapping[str, str] | None = None,
    **settings: Any,
) -> Snapshot:
    """Put a snapshot's checkpoint, the latest unless named, where there is none. Changelogs: `restore_changelogs`.

    The exactly-once sink remembers which batches of a query it has written. If it has written more than the snapshot
    knows of, `ahead="refuse"` raises; with `ahead="again"` it is made to forget, and what came after the snapshot is
    written again; `ahead="ignore"` asks nobody, for queries that write elsewhere. `transactional_ids` has the names of
    sinks, by query path, that were given one of their own.
    """
    checkpoint, shelf = _local(checkpoint), Shelf(_local(directory), trusting=False)
    snapshot = _chosen(shelf.directory, name)
    if checkpoint.exists() and any(checkpoint.iterdir()):
        raise PipelineError(f"{checkpoint} is not empty: move it away first, or restore to another place")
    if bootstrap is None and ahead != "ignore":
        raise PipelineError(
            "Whether the sink is ahead of the snapshot is known to the brokers: say bootstrap=..., or "
            'ahead="ignore" for queries that write elsewhere'
        )
    client = {"bootstrap.servers": bootstrap, **settings}
    sinks = {(transactional_ids or {}).get(query.path, query.sink): query for query in snapshot.queries}
    if ahead == "refuse":
        _refuse_ahead(client, sinks)
    beside = checkpoint.with_name(f"{checkpoint.name}.restoring")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    for file in snapshot.files:
        shelf.give(file, beside / file.path)
    if ahead == "again":
        _forget_batches(client, sinks)
    sync_tree(beside)
    if checkpoint.exists():
        checkpoint.rmdir()
    beside.rename(checkpoint)
    sync(checkpoint.parent)
    return snapshot


def restore_changelogs(
    directory: Path | str, bootstrap: str, *, name: str | None = None, **settings: Any
) -> dict[str, int]:
    """Write a snapshot's changelogs to topics that are not there or empty; the number of records by topic.

    Each topic's records become visible together, in the partitions and in the order they had.
    """
    shelf = Shelf(Path(directory), trusting=False)
    snapshot = _chosen(shelf.directory, name)
    return write_changelogs({"bootstrap.servers": bootstrap, **settings}, snapshot.changelogs, shelf)


def prune(directory: Path | str, *, keep: int) -> int:
    """Delete all but the latest `keep` snapshots, and the files that only they had; how many bytes that freed.

    Not while one is being taken: its files would be those of no snapshot yet.
    """
    if keep < 1:
        raise PipelineError("keep at least one snapshot; to be rid of all, delete the directory")
    shelf = Shelf(Path(directory), trusting=True)
    snapshots = list_snapshots(directory)
    # The lists first: killed in between, there are files too many and never one too few.
    for old in snapshots[:-keep]:
        _manifest_path(shelf.directory, old.name).unlink()
    wanted = {file.sha256 for one in snapshots[-keep:] for file in one.files}
    wanted |= {segment.sha256 for one in snapshots[-keep:] for logged in one.changelogs for segment in logged.segments}
    return shelf.delete_others(wanted)


def _local(place: Path | str) -> Path:
    """A path of this machine; `file:` may stand before it."""
    text = str(place).removeprefix("file://").removeprefix("file:")
    if "://" in text:
        raise PipelineError(f"{place} is not on a disk of this machine: mount it, or copy the checkpoint to one first")
    return Path(text)


# --- the checkpoint


def _copied(checkpoint: Path, shelf: Shelf, known: Mapping[str, StoredFile]) -> tuple[list[Query], list[StoredFile]]:
    """The checkpoint as it was after a batch; begun anew when the running query cleans up under the copy."""
    for _ in range(TRIES):
        queries = _queries(checkpoint)
        try:
            files = [shelf.take(checkpoint, path, known) for path in _files(checkpoint, queries)]
        except FileNotFoundError as error:
            log.info("[Snapshot %s] %s went while it was copied; once more", checkpoint, error.filename)
            continue
        return queries, files
    raise PipelineError(
        f"{checkpoint} changed under each of {TRIES} copies: stop the query, or make its batches longer"
    )


def _queries(checkpoint: Path) -> list[Query]:
    """The queries whose checkpoints lie here or below."""
    queries = []
    for metadata in sorted(checkpoint.rglob("metadata")):
        home = metadata.parent
        committed = last_batch(home / "commits")
        if not (home / "offsets").is_dir() or committed is None:
            continue
        planned = last_batch(home / "offsets")
        assert planned is not None, f"{home} has committed batch {committed} and planned none"
        query_id = json.loads(metadata.read_text(encoding="utf-8"))["id"]
        application = _application(home.parent)
        sink = sink_name(query_id) if application is None else f"{application}-{home.name}"
        path = home.relative_to(checkpoint).as_posix()
        queries.append(Query(path, query_id, sink, committed, min(planned, committed + 1)))
    if not queries:
        raise PipelineError(f"{checkpoint} holds no query that has done a batch")
    return queries


def _application(home: Path) -> str | None:
    """The name of the application whose topology has its queries here, as `running` wrote it down."""
    for path in sorted(home.glob("topology/part-*")):
        return str(json.loads(path.read_text(encoding="utf-8"))["application"])
    return None


def _files(checkpoint: Path, queries: list[Query]) -> Iterator[Path]:
    """The files that belong to each query's state after its batch, and the plan of its next batch if there is one."""
    homes = {checkpoint / query.path: query for query in queries}
    for path in sorted(checkpoint.rglob("*")):
        if path.name.endswith((".tmp", ".tmp.crc")) or not path.is_file():
            continue
        home = next((one for one in homes if path.is_relative_to(one)), None)
        if home is None or _belongs(path.name, path.relative_to(home).parts[0], homes[home]):
            yield path


def _belongs(name: str, part: str, query: Query) -> bool:
    match part:
        case "offsets":
            found, newest = _NUMBERED.fullmatch(name), query.planned_batch
        case "commits":
            found, newest = _NUMBERED.fullmatch(name), query.last_batch
        case "state":
            found, newest = _VERSIONED.fullmatch(name), query.last_batch + 1  # version n + 1 is after batch n
        case _:
            return True
    return found is None or int(found.group(1)) <= newest


def _refuse_ahead(client: Mapping[str, Any], sinks: Mapping[str, Query]) -> None:
    from ottla.client import Admin

    with Admin(client) as admin:
        found = admin.list_consumer_group_offsets(dict.fromkeys(sinks))
        for group, query in sinks.items():
            offsets = found[group].result()
            names = query_names(query.id)
            written = [one.offset for one in offsets.values() if one is not None and one.metadata in names]
            # A planned batch that the sink has is written exactly as it would be again: it is left out rightly.
            if max(written, default=0) > query.planned_batch + 1:
                raise PipelineError(
                    f"The sink has written batch {max(written) - 1} of query {query.path}, and the snapshot knows of "
                    f'{query.planned_batch}: its next batches would be left out. ahead="again" writes again what came '
                    f"after the snapshot"
                )


def _forget_batches(client: Mapping[str, Any], sinks: Iterable[str]) -> None:
    """Make the sinks forget what they have written: only then is it written again."""
    from ottla.client import Admin
    from ottla.errors import GroupIdNotFound

    with Admin(client) as admin:
        for group, outcome in admin.delete_groups(list(sinks)).items():
            if outcome.error is not None and not isinstance(outcome.error, GroupIdNotFound):
                raise PipelineError(f"The sink {group} could not be made to forget its batches: {outcome.error}")


# --- the directory


def _manifest_path(directory: Path, name: str) -> Path:
    return directory / "snapshots" / f"{name}.json"


def _free_name(directory: Path, now_ms: int) -> str:
    stem = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now_ms / 1000)) + f".{now_ms % 1000:03}"
    name, number = stem, 1
    while _manifest_path(directory, name).exists():
        number += 1
        name = f"{stem}-{number}"
    return name


def _write_manifest(directory: Path, snapshot: Snapshot) -> None:
    if not _NAME.fullmatch(snapshot.name):
        raise PipelineError(f"{snapshot.name!r} is no name for a snapshot: letters, digits, dots, dashes, underscores")
    path = _manifest_path(directory, snapshot.name)
    if path.exists():
        raise PipelineError(f"There is a snapshot {snapshot.name} in {directory} already")
    path.parent.mkdir(parents=True, exist_ok=True)
    body = json.dumps(asdict(snapshot), indent=1)
    sealed = json.dumps({"sha256": hashlib.sha256(body.encode()).hexdigest(), "snapshot": body})
    write_beside(path, sealed.encode())


def _read_manifest(path: Path) -> Snapshot:
    try:
        sealed = json.loads(path.read_bytes())
        if hashlib.sha256(sealed["snapshot"].encode()).hexdigest() != sealed["sha256"]:
            raise ValueError("its sum is another")
        found = json.loads(sealed["snapshot"])
        logs = [
            Changelog(**{**one, "segments": [Segment(**part) for part in one["segments"]]})
            for one in found.pop("changelogs")
        ]
        queries = [Query(**one) for one in found.pop("queries")]
        files = [StoredFile(**one) for one in found.pop("files")]
        return Snapshot(**found, queries=queries, files=files, changelogs=logs)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PipelineError(f"{path} is damaged: {error}") from error


def _latest(directory: Path) -> Snapshot | None:
    found = list_snapshots(directory)
    return found[-1] if found else None


def _chosen(directory: Path, name: str | None) -> Snapshot:
    if name is not None:
        path = _manifest_path(directory, name)
        if not path.exists():
            names = ", ".join(one.name for one in list_snapshots(directory)) or "none"
            raise PipelineError(f"There is no snapshot {name} in {directory}; there are: {names}")
        return _read_manifest(path)
    found = _latest(directory)
    if found is None:
        raise PipelineError(f"There is no snapshot in {directory}")
    return found
