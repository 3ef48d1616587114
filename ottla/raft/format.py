"""What a format puts into a metadata directory: the bootstrap records, and the first voters.

`storage format` calls `format_directory` and writes `meta.properties` last, because a directory that has it counts as
formatted.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.raft.batches import MetadataRecord
from ottla.raft.files import parent_of
from ottla.raft.snapshot import BOOTSTRAP, BOOTSTRAP_ID, read_snapshot_file, write_snapshot_file
from ottla.raft.voters import KRAFT_VERSION_MAX, VoterSet
from ottla.wire.metadata import VersionedRecord
from ottla.world import World

METADATA_DIR = "__cluster_metadata-0"


def format_directory(
    world: World,
    directory: str,
    records: Sequence[MetadataRecord],
    *,
    voters: VoterSet | None = None,
    is_metadata_dir: bool = True,
) -> None:
    """Write `bootstrap.checkpoint` with `records` (features, SCRAM users) into a log directory, durably.

    With `voters` (`--standalone`, `--initial-controllers`) the metadata directory also gets the snapshot that begins
    its log; without, the voters are those of `controller.quorum.voters` and `kraft.version` is 0.
    """
    disk = world.disk
    disk.make_dirs(directory)
    path = f"{directory}/{BOOTSTRAP}"
    write_snapshot_file(disk, world.clock, path, records, temporary=f"{path}.tmp")
    if voters is not None and is_metadata_dir:
        metadata_dir = f"{directory}/{METADATA_DIR}"
        disk.make_dirs(metadata_dir)
        write_snapshot_file(
            disk,
            world.clock,
            f"{metadata_dir}/{BOOTSTRAP_ID.name}",
            [],
            last_contained_log_timestamp=world.clock.now_ms(),
            kraft_version=KRAFT_VERSION_MAX,
            voters=voters,
        )
        disk.sync_dir(directory)
    disk.sync_dir(parent_of(directory))


def read_bootstrap(world: World, directory: str) -> list[VersionedRecord] | None:
    """The records of `bootstrap.checkpoint`; None where there is no such file."""
    path = f"{directory}/{BOOTSTRAP}"
    if not world.disk.exists(path):
        return None
    return [record for batch in read_snapshot_file(world.disk, path).record_batches() for record in batch]
