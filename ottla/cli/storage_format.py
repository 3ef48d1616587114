"""The formatting of a node's log directories: what is decided, and then written.

Promises: the files are Kafka's, byte for byte but for ids and times; `meta.properties` comes last, so a directory that
has it has everything; nothing is written when anything is wrong. What is wrong is a `Refusal` in Kafka's words.
Called by `ottla storage format`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ottla.config import BrokerConfig
from ottla.metadata import METADATA_VERSION, SUPPORTED_FEATURES, MetadataVersion, random_uuid
from ottla.metadata.levels import (
    KRAFT_VERSION,
    LATEST_METADATA_VERSION,
    MINIMUM_METADATA_VERSION,
    default_levels,
    missing_dependency,
)
from ottla.raft import ReplicaKey, VoterNode, VoterSet, format_directory
from ottla.storage import DamagedFile, MetaProperties, read_meta_properties, write_meta_properties
from ottla.types import Uuid
from ottla.wire.metadata import FeatureLevelRecord
from ottla.world import Address, World

KRAFT_VERSION_SINCE = 21
"""The `metadata.version` from which on the voters can be in the log."""


class Refusal(Exception):
    """Why the directories are not formatted: one line for the one who asked."""


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """What the command line says."""

    cluster_id: str
    release_version: str | None = None
    features: Mapping[str, int] = field(default_factory=dict)
    standalone: bool = False
    initial_controllers: str | None = None
    no_initial_controllers: bool = False
    ignore_formatted: bool = False


def format_storage(world: World, config: BrokerConfig, options: FormatOptions, say: Callable[[str], None]) -> None:
    """Format the directories of `config` that are not formatted yet; `say` takes the lines that Kafka prints."""
    voters = _initial_voters(world, config, options)
    version = _release(options)
    levels = feature_levels(version, options.features, is_dynamic=not config.quorum_voters)
    empty, formatted = _sort_out(world, config, options, say)
    if formatted and not options.ignore_formatted:
        raise Refusal(
            f"Log directory {formatted[0]} is already formatted. "
            "Use --ignore-formatted to ignore this directory and format the others."
        )
    if not empty:
        say("All of the log directories are already formatted.")
        return
    records = bootstrap_records(levels)
    say(f"Bootstrap metadata: {_bootstrap_text(records, version)}")
    for directory in empty:
        is_metadata_dir = directory == config.metadata_dir
        say(f"Formatting {_kind(config, voters, is_metadata_dir)} {directory} with {METADATA_VERSION} {version.name}.")
        format_directory(world, directory, records, voters=voters, is_metadata_dir=is_metadata_dir)
        own = voters.nodes.get(config.node_id) if voters is not None and is_metadata_dir else None
        directory_id = own.key.directory_id if own else random_uuid(world)
        properties = MetaProperties(options.cluster_id, config.node_id, directory_id)
        write_meta_properties(world.disk, directory, properties, world.clock.now_ms())


def all_directories(config: BrokerConfig) -> list[str]:
    """The log directories and the metadata directory, by name."""
    return sorted({*config.log_dir_list, config.metadata_dir})


def parse_release(text: str) -> MetadataVersion:
    """`4.3`, `4.3.1` or `4.3-IV0`: the newest `metadata.version` of a release, or that one."""
    levels = [MetadataVersion(level) for level in range(MINIMUM_METADATA_VERSION, LATEST_METADATA_VERSION + 1)]
    wanted = ".".join(text.split(".")[:2])
    found = [level for level in levels if wanted in (level.name, level.name.partition("-")[0])]
    if not found:
        supported = ", ".join(level.name for level in levels)
        raise Refusal(f"Unknown metadata.version '{text}'. Supported metadata.version are: {supported}")
    return found[-1]


def default_level(feature: str, version: MetadataVersion) -> int:
    """The level of a feature in a new cluster of a release."""
    if feature == KRAFT_VERSION:
        return int(version >= KRAFT_VERSION_SINCE)
    return default_levels(version).get(feature, 0)


def feature_levels(version: MetadataVersion, asked: Mapping[str, int], *, is_dynamic: bool) -> dict[str, int]:
    """Every feature's level: as asked for, else what the release begins with. By name."""
    known = sorted(name for name in SUPPORTED_FEATURES if name != METADATA_VERSION)
    for name in asked:
        if name not in known and name != METADATA_VERSION:
            raise Refusal(f"Unsupported feature: {name}. Supported features are: {', '.join(known)}")
    levels = {name: asked.get(name, default_level(name, version)) for name in known}
    levels[KRAFT_VERSION] = _kraft_level(asked.get(KRAFT_VERSION), is_dynamic=is_dynamic)
    levels[METADATA_VERSION] = int(version)
    for name in known:
        if not SUPPORTED_FEATURES[name].includes(levels[name]):
            raise Refusal(f"No feature:{name} with feature level {levels[name]}")
        missing = missing_dependency(name, levels[name], levels)
        if missing is not None:
            raise Refusal(missing)
    return dict(sorted(levels.items()))


def dependencies(feature: str, level: int) -> dict[str, int]:
    """What else must be finalized, and at least how high: the lowest level of each at which nothing is missing."""
    newest = {name: levels.max for name, levels in SUPPORTED_FEATURES.items()}
    needed = {}
    for name, levels in SUPPORTED_FEATURES.items():
        enough = next(
            least
            for least in range(levels.min, levels.max + 1)
            if missing_dependency(feature, level, {**newest, name: least}) is None
        )
        if enough > levels.min:
            needed[name] = enough
    return needed


def bootstrap_records(levels: Mapping[str, int]) -> list[FeatureLevelRecord]:
    """The records that a new cluster begins with: `metadata.version` first, the others by name.

    `kraft.version` is no feature record: it is in the snapshot that begins the log, with the voters.
    """
    names = [METADATA_VERSION, *sorted(set(levels) - {METADATA_VERSION, KRAFT_VERSION})]
    return [FeatureLevelRecord(name=name, feature_level=levels[name]) for name in names if levels[name] > 0]


def parse_voters(text: str, listener: str) -> VoterSet:
    """`--initial-controllers`: id@host:port:directory, with commas between them."""
    voters: dict[int, VoterNode] = {}
    for entry in filter(None, text.strip().split(",")):
        id, host, port, directory_id = _parse_voter(entry)
        if id in voters:
            raise Refusal(f"Node id {id} was specified more than once.")
        voters[id] = VoterNode(ReplicaKey(id, directory_id), {listener: Address(host, port)})
    if not voters:
        raise Refusal("No voters given.")
    return VoterSet.of(voters.values())


def _parse_voter(entry: str) -> tuple[int, str, int, Uuid]:
    number, at, rest = entry.partition("@")
    if not at:
        raise Refusal("No @ found in dynamic voter string.")
    if not number.isascii() or not number.isdigit():
        raise Refusal(f"Failed to parse node id in dynamic voter string: {entry}")
    if rest.startswith("["):
        host, bracket, rest = rest[1:].partition("]")
        if not bracket:
            raise Refusal("Hostname began with left bracket, but no right bracket was found.")
    else:
        host, colon, after = rest.partition(":")
        if not host or not colon:
            raise Refusal("No colon following hostname could be found.")
        rest = f":{after}"
    if not rest.startswith(":"):
        raise Refusal("Port section must start with a colon.")
    port, colon, directory = rest[1:].partition(":")
    if not colon:
        raise Refusal("No colon following port could be found.")
    if not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise Refusal(f"Failed to parse port in dynamic voter string: {entry}")
    try:
        return int(number), host, int(port), Uuid.parse(directory)
    except ValueError as error:
        raise Refusal(f"Failed to parse directory ID in dynamic voter string: {error}") from None


def _release(options: FormatOptions) -> MetadataVersion:
    level = options.features.get(METADATA_VERSION)
    if level is None:
        return LATEST_METADATA_VERSION if options.release_version is None else parse_release(options.release_version)
    if options.release_version is not None:
        raise Refusal(f"Use --release-version instead of --feature {METADATA_VERSION}=X to avoid ambiguity.")
    if not SUPPORTED_FEATURES[METADATA_VERSION].includes(level):
        low, high = SUPPORTED_FEATURES[METADATA_VERSION]
        raise Refusal(f"No MetadataVersion with feature level {level}. Valid feature levels are from {low} to {high}.")
    return MetadataVersion(level)


def _kraft_level(asked: int | None, *, is_dynamic: bool) -> int:
    if asked is None:
        return int(is_dynamic)
    flags = "--standalone, --initial-controllers, or --no-initial-controllers"
    if asked == 0 and is_dynamic:
        raise Refusal(
            f"Cannot set kraft.version to 0 if controller.quorum.voters is empty and one of the flags {flags} is used. "
            "For dynamic controllers support, try removing the --feature flag for kraft.version."
        )
    if asked != 0 and not is_dynamic:
        raise Refusal(
            f"Cannot set kraft.version to {asked} unless controller.quorum.voters is empty and one of the flags "
            f"{flags} is used. For dynamic controllers support, try using one of {flags} and removing "
            "controller.quorum.voters."
        )
    return asked


def _initial_voters(world: World, config: BrokerConfig, options: FormatOptions) -> VoterSet | None:
    """The voters that the metadata log shall begin with; None when the settings have them, or others do."""
    if config.quorum_voters and (options.standalone or options.initial_controllers is not None):
        raise Refusal(
            "You cannot specify controller.quorum.voters and format the node with --initial-controllers or "
            "--standalone. If you want to use dynamic quorum, please remove controller.quorum.voters and specify "
            "controller.quorum.bootstrap.servers instead."
        )
    listener = config.controller_listener_names[0].upper()
    if options.initial_controllers is not None:
        return parse_voters(options.initial_controllers, listener)
    if options.standalone:
        if not config.is_controller:
            raise Refusal("You can only use --standalone on a controller.")
        own = config.advertised_controller_listener_list[0]
        address = Address(own.host or "localhost", own.port)
        return VoterSet.standalone(config.node_id, random_uuid(world), {listener: address})
    if config.is_controller and not config.quorum_voters and not options.no_initial_controllers:
        raise Refusal(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
            "--standalone, --initial-controllers, or --no-initial-controllers."
        )
    return None


def _sort_out(
    world: World, config: BrokerConfig, options: FormatOptions, say: Callable[[str], None]
) -> tuple[list[str], list[str]]:
    """The directories to format, and those that are formatted, which must be of this cluster and node."""
    empty, formatted = [], []
    for directory in all_directories(config):
        try:
            properties = read_meta_properties(world.disk, directory)
        except (DamagedFile, OSError) as error:
            say(f"I/O error trying to read log directory {directory}. Ignoring... ({error})")
            continue
        if properties is None:
            empty.append(directory)
        else:
            _check_owner(directory, properties, config, options)
            formatted.append(directory)
    if not empty and not formatted:
        raise Refusal("No available log directories to format.")
    return empty, formatted


def _check_owner(directory: str, found: MetaProperties, config: BrokerConfig, options: FormatOptions) -> None:
    path = f"{directory}/meta.properties"
    if found.cluster_id is not None and found.cluster_id != options.cluster_id:
        raise Refusal(f"Invalid cluster.id in: {path}. Expected {options.cluster_id}, but read {found.cluster_id}")
    if found.node_id is not None and found.node_id != config.node_id:
        raise Refusal(
            f"Stored node id {found.node_id} doesn't match previous node id {config.node_id} in {path}. If you moved "
            "your data, make sure your configured node id matches. If you intend to create a new node, you should "
            "remove all data in your data directories."
        )


def _kind(config: BrokerConfig, voters: VoterSet | None, is_metadata_dir: bool) -> str:
    if not is_metadata_dir:
        return "data directory"
    if voters is None:
        return "metadata directory"
    return "dynamic metadata voter directory" if config.node_id in voters.nodes else "dynamic metadata directory"


def _bootstrap_text(records: Sequence[FeatureLevelRecord], version: MetadataVersion) -> str:
    shown = ", ".join(
        f"ApiMessageAndVersion(FeatureLevelRecord(name='{record.name}', featureLevel={record.feature_level}) "
        "at version 0)"
        for record in records
    )
    return f"BootstrapMetadata(records=[{shown}], metadataVersionLevel={int(version)}, source=format command)"
