"""`ottla storage`: format a node's log directories and look at them, with the options and words of `kafka-storage`.

What goes wrong is one line on stderr and exit code 1, where Kafka's tool may print a stack trace.
"""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ottla.config import BrokerConfig
    from ottla.world import World


class Failure(click.ClickException):
    """What went wrong, in one line and without a word before it, as Kafka's tool says it."""

    exit_code = 1

    def show(self, file: object = None) -> None:
        click.echo(self.format_message(), file=sys.stderr)


class OneLineCommand(click.Command):
    """A command that answers a mistake in its options with one line."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise Failure(f"{error.format_message()} See `{ctx.command_path} --help`.") from None


class StorageGroup(click.Group):
    """A group whose own mistakes are one line too."""

    command_class = OneLineCommand

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise Failure(f"{error.format_message()} See `{ctx.command_path} --help`.") from None


CONFIG_OPTION = click.option(
    "-c", "--config", "path", required=True, metavar="FILE", help="The server.properties file."
)


@click.group(cls=StorageGroup)
def command() -> None:
    """Format the log directories of a node and look at them.

    \b
    ottla storage format -t "$(ottla storage random-uuid)" -c server.properties --standalone
    ottla storage info -c server.properties
    """


@command.command("random-uuid")
def random_uuid_command() -> None:
    """Print a random UUID, which can be a cluster id or a directory id."""
    from ottla.metadata import random_uuid

    click.echo(str(random_uuid(_world())))


@command.command("format")
@CONFIG_OPTION
@click.option("-t", "--cluster-id", required=True, metavar="ID", help="The id of the cluster.")
@click.option("-g", "--ignore-formatted", is_flag=True, help="Leave directories that are formatted as they are.")
@click.option("-r", "--release-version", metavar="V", help="The release whose feature levels the cluster begins with.")
@click.option(
    "-f", "--feature", "features", multiple=True, metavar="FEATURE=LEVEL", help="The level of one feature. Repeatable."
)
@click.option("-s", "--standalone", is_flag=True, help="Begin a quorum of this one controller; others can join it.")
@click.option(
    "-N", "--no-initial-controllers", is_flag=True, help="The quorum exists, or another node begins it: this one joins."
)
@click.option(
    "-I",
    "--initial-controllers",
    metavar="ID@HOST:PORT:DIRECTORY,...",
    help="Begin a quorum of these controllers. The same on every one of them.",
)
@click.option("-S", "--add-scram", multiple=True, metavar="CREDENTIAL", help="Not supported yet.")
def format_command(
    path: str,
    cluster_id: str,
    ignore_formatted: bool,
    release_version: str | None,
    features: tuple[str, ...],
    standalone: bool,
    no_initial_controllers: bool,
    initial_controllers: str | None,
    add_scram: tuple[str, ...],
) -> None:
    """Format the log directories of a node.

    Which controllers the quorum has stands in controller.quorum.voters, or is said here with one of --standalone,
    --initial-controllers and --no-initial-controllers.
    """
    from ottla.cli.storage_format import FormatOptions, Refusal, format_storage

    if add_scram:
        raise Failure("--add-scram is not supported yet: Ottla does not authenticate clients so far.")
    chosen = {
        "--standalone": standalone,
        "--no-initial-controllers": no_initial_controllers,
        "--initial-controllers": initial_controllers is not None,
    }
    given = [name for name, is_given in chosen.items() if is_given]
    if len(given) > 1:
        raise Failure(f"Option {given[1]} is not allowed with option {given[0]}.")
    config = _read_config(path)
    options = FormatOptions(
        cluster_id=cluster_id,
        release_version=release_version,
        features=dict(_parse_feature(feature) for feature in features),
        standalone=standalone,
        initial_controllers=initial_controllers,
        no_initial_controllers=no_initial_controllers,
        ignore_formatted=ignore_formatted,
    )
    try:
        format_storage(_world(), config, options, click.echo)
    except Refusal as error:
        raise Failure(str(error)) from None
    except OSError as error:
        raise Failure(f"Cannot format {error.filename or 'the log directories'}: {error.strerror}") from None


@command.command("info")
@CONFIG_OPTION
def info_command(path: str) -> None:
    """Show which log directories a node has, what they say of themselves, and what is wrong with them."""
    from ottla.cli.storage_format import all_directories

    config = _read_config(path)
    report = Report(_world())
    for directory in all_directories(config):
        report.look_at(directory)
    for line in report.lines():
        click.echo(line)
    if report.problems:
        raise SystemExit(1)


@command.command("version-mapping")
@click.option("-r", "--release-version", metavar="V", help="The release; without it, the newest.")
def version_mapping_command(release_version: str | None) -> None:
    """Show the feature levels that a new cluster of a release has."""
    from ottla.cli.storage_format import Refusal, default_level, parse_release
    from ottla.metadata import LATEST_METADATA_VERSION

    text = LATEST_METADATA_VERSION.name if release_version is None else release_version
    try:
        version = parse_release(text)
    except Refusal as error:
        raise Failure(str(error)) from None
    click.echo(f"metadata.version={int(version)} ({text})")
    for feature in FEATURES:
        click.echo(f"{feature}={default_level(feature, version)}")


@command.command("feature-dependencies")
@click.option(
    "-f", "--feature", "features", multiple=True, required=True, metavar="FEATURE=LEVEL", help="A feature. Repeatable."
)
def feature_dependencies_command(features: tuple[str, ...]) -> None:
    """Show which other features a feature's level needs, and at which level."""
    for feature in features:
        for line in _dependencies(feature):
            click.echo(line)


FEATURES = (
    "kraft.version",
    "transaction.version",
    "group.version",
    "eligible.leader.replicas.version",
    "share.version",
    "streams.version",
)
"""The features beside `metadata.version`, in the order in which Kafka's tool names them."""


def _dependencies(feature: str) -> list[str]:
    from ottla.cli.storage_format import dependencies
    from ottla.metadata import METADATA_VERSION, SUPPORTED_FEATURES, MetadataVersion

    name, equals, text = (part.strip() for part in feature.partition("="))
    if not equals:
        raise Failure(f"Invalid feature format: {feature}. Expected format: 'feature=version' (e.g. 'group.version=1')")
    level = _short(text)
    if level is None:
        raise Failure(f"Invalid version format: {text} for feature {name}")
    if name == METADATA_VERSION:
        if not SUPPORTED_FEATURES[name].includes(level):
            raise Failure(f"Unknown metadata.version {level}")
        return [f"{name}={level} ({MetadataVersion(level).name}) has no dependencies."]
    if name not in FEATURES:
        raise Failure(f"Unknown feature: {name}")
    if not SUPPORTED_FEATURES[name].includes(level):
        raise Failure(f"Feature level {level} is not supported for feature {name}")
    needed = dependencies(name, level)
    if not needed:
        return [f"{name}={level} has no dependencies."]
    lines = [f"{name}={level} requires:"]
    for other, least in needed.items():
        release = f" ({MetadataVersion(least).name})" if other == METADATA_VERSION else ""
        lines.append(f"    {other}={least}{release}")
    return lines


class Report:
    """What `info` finds in the directories, one after the other."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.found: list[str] = []
        self.problems: list[str] = []
        self.properties: dict[str, str] = {}
        """Of the first directory that has them."""

    def look_at(self, directory: str) -> None:
        from ottla.storage import DamagedFile, read_meta_properties

        disk = self.world.disk
        try:
            disk.names(directory)
        except FileNotFoundError:
            self.problems.append(f"{directory} does not exist")
            return
        except NotADirectoryError:
            self.problems.append(f"{directory} is not a directory")
            return
        except OSError as error:
            self.problems.append(f"{directory} cannot be read: {error.strerror}")
            return
        self.found.append(directory)
        try:
            properties = read_meta_properties(disk, directory)
        except (DamagedFile, OSError) as error:
            self.problems.append(f"Error loading {directory}/meta.properties: {error}")
            return
        if properties is None:
            self.problems.append(f"{directory} is not formatted.")
            return
        node = "node.id" if properties.version else "broker.id"
        texts = {
            "cluster.id": properties.cluster_id,
            "directory.id": properties.directory_id,
            node: properties.node_id,
            "version": properties.version,
        }
        self._compare({name: str(value) for name, value in sorted(texts.items()) if value is not None})

    def _compare(self, properties: dict[str, str]) -> None:
        if not self.properties:
            self.properties = properties
            if properties["version"] == "0":
                self.problems.append(
                    "The kafka configuration file appears to be for a cluster in KRaft mode, but the directories are "
                    "formatted for legacy mode."
                )
        elif self.properties.get("cluster.id") != properties.get("cluster.id"):
            self.problems.append("Mismatched cluster IDs between storage directories.")
        elif self.properties.get("node.id") != properties.get("node.id"):
            self.problems.append("Mismatched node IDs between storage directories.")

    def lines(self) -> list[str]:
        lines = []
        if self.found:
            lines.append("Found log directory:" if len(self.found) == 1 else "Found log directories:")
            lines += [f"  {directory}" for directory in self.found]
            lines.append("")
        if self.properties:
            shown = ", ".join(f"{name}={value}" for name, value in self.properties.items())
            lines += [f"Found metadata: {{{shown}}}", ""]
        if self.problems:
            lines.append("Found problem:" if len(self.problems) == 1 else "Found problems:")
            lines += [f"  {problem}" for problem in self.problems]
            lines.append("")
        return lines


def _read_config(path: str) -> BrokerConfig:
    """The settings in a file of Java properties; a `Failure` says what is wrong with the file or with a setting."""
    from ottla.config import BrokerConfig, MalformedEscape, read_properties
    from ottla.errors import InvalidConfig

    try:
        with open(path, encoding="latin-1", newline="") as file:
            return BrokerConfig(read_properties(file.read()))
    except OSError as error:
        raise Failure(f"Cannot read {path}: {error.strerror}") from None
    except (InvalidConfig, MalformedEscape) as error:
        raise Failure(f"{path}: {error}") from None


def _parse_feature(text: str) -> tuple[str, int]:
    name, equals, level_text = text.partition("=")
    if not equals:
        raise Failure(f"Can't parse feature=level string {text}: equals sign not found.")
    level = _short(level_text.strip())
    if level is None:
        raise Failure(f"Can't parse feature=level string {text}: unable to parse {level_text.strip()} as a short.")
    return name.strip(), level


def _short(text: str) -> int | None:
    try:
        level = int(text)
    except ValueError:
        return None
    return level if -32_768 <= level <= 32_767 else None


def _world() -> World:
    from ottla.world import World
    from ottla.world.system import SystemClock, SystemDisk

    return World(clock=SystemClock(), disk=SystemDisk(), random=random.SystemRandom())
