"""The log directories of a node before anything is opened: formatted, of one cluster, of this node.

Promises: a node never starts on another cluster's or another node's data; what is wrong is one line that says what to
do. Called by `node` at start, and by `ottla up`, which formats what is new.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from ottla.config import BrokerConfig
from ottla.metadata import bootstrap_records, random_uuid
from ottla.raft import format_directory
from ottla.storage import CleanShutdownFile, DamagedFile, MetaProperties, read_meta_properties, write_meta_properties
from ottla.types import Uuid
from ottla.world import World

log = logging.getLogger(__name__)


class CannotStart(Exception):
    """Why a node does not start: one line for the one who started it."""


class Directories(NamedTuple):
    """What the directories agree on, and the id of each that works."""

    cluster_id: str
    ids: dict[str, Uuid]


def check_directories(world: World, config: BrokerConfig) -> Directories:
    """Read every `meta.properties`; `CannotStart` unless they agree with each other and with the settings."""
    found: dict[str, MetaProperties] = {}
    problems: list[str] = []
    for directory in _all_directories(config):
        try:
            properties = read_meta_properties(world.disk, directory)
        except DamagedFile as error:
            raise CannotStart(f"{error}. Restore the file, or format a new directory.") from None
        except OSError as error:
            # The directory is offline, which the others can do without.
            log.error("[Node %d] Cannot read meta.properties in %s: %s", config.node_id, directory, error)
            problems.append(f"{directory}: {error}")
            continue
        if properties is not None:
            found[directory] = properties
    if not found:
        if problems:
            raise CannotStart(f"No log directory can be read. {'; '.join(problems)}")
        raise CannotStart(
            f"No readable meta.properties files found in {', '.join(_all_directories(config))}. "
            "Format them first: ottla storage format -t $(ottla storage random-uuid) -c server.properties"
        )
    clusters = sorted({str(properties.cluster_id) for properties in found.values()})
    if len(clusters) > 1:
        raise CannotStart(f"The log directories belong to different clusters: {', '.join(clusters)}")
    for directory, properties in found.items():
        if properties.node_id != config.node_id:
            raise CannotStart(
                f"Stored node id {properties.node_id} in {directory} doesn't match the configured node id "
                f"{config.node_id}. Set node.id={properties.node_id}, or use another directory."
            )
    if config.metadata_dir not in found:
        raise CannotStart(
            f"The metadata log directory {config.metadata_dir} is not formatted. "
            "Format it first: ottla storage format -t CLUSTER_ID -c server.properties --ignore-formatted"
        )
    ids = {path: properties.directory_id for path, properties in found.items() if properties.directory_id is not None}
    for directory in _all_directories(config):
        if directory not in found and not any(problem.startswith(f"{directory}:") for problem in problems):
            # A directory that was added later is formatted by the broker itself, as Kafka does.
            ids[directory] = _write_properties(world, config, directory, clusters[0])
    return Directories(clusters[0], ids)


def format_new(world: World, config: BrokerConfig, cluster_id: str | None = None) -> None:
    """Format every directory of a node that was never formatted; one that was is left as it is.

    Nodes of one cluster are formatted with one `cluster_id`; without it the node is of a cluster of its own.
    """
    for directory in _all_directories(config):
        if world.disk.exists(directory) and read_meta_properties(world.disk, directory) is not None:
            return
    cluster_id = cluster_id or str(random_uuid(world))
    for directory in _all_directories(config):
        world.disk.make_dirs(directory)
        format_directory(world, directory, bootstrap_records(), is_metadata_dir=directory == config.metadata_dir)
        _write_properties(world, config, directory, cluster_id)


def epoch_of_clean_shutdown(world: World, config: BrokerConfig) -> int:
    """The broker epoch that every log directory was closed in; -1 unless all of them were, and in the same one.

    With it the controller knows that nothing was lost since, and lets the replicas be what they were (KIP-966).
    """
    epochs = set()
    for directory in config.log_dir_list:
        try:
            epochs.add(CleanShutdownFile(world.disk, directory).read())
        except (DamagedFile, OSError):
            return -1  # an unclean stop is what is assumed when nothing better is known
    epoch = epochs.pop() if len(epochs) == 1 else None
    return -1 if epoch is None else epoch


def _write_properties(world: World, config: BrokerConfig, directory: str, cluster_id: str) -> Uuid:
    world.disk.make_dirs(directory)
    directory_id = random_uuid(world)
    properties = MetaProperties(cluster_id, config.node_id, directory_id)
    write_meta_properties(world.disk, directory, properties, world.clock.now_ms())
    return directory_id


def _all_directories(config: BrokerConfig) -> list[str]:
    """The log directories, and the metadata directory where it is another one."""
    return list(dict.fromkeys([*config.log_dir_list, config.metadata_dir]))
