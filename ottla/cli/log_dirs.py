"""`ottla log-dirs`: what the log directories of brokers hold, with the options and words of `kafka-log-dirs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ottla.cli.java_order import map_order, partition_hash
from ottla.cli.tool import (
    Refused,
    Tool,
    admin_of,
    bootstrap_option,
    command_config_option,
    java_name,
    output_option,
    version_option,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.cli.dump.java_text import Json
    from ottla.client.admin import LogDirDescription, LogDirs, ReplicaInfo
    from ottla.types import TopicPartition


@click.command(cls=Tool)
@bootstrap_option
@command_config_option
@click.option("--describe", is_flag=True, help="Show the directories. Required, as in Kafka's tool.")
@click.option("--topic-list", metavar="TOPIC,...", default="", help="Only replicas of these topics. [default: all]")
@click.option("--broker-list", metavar="ID,...", default="", help="Only these brokers. [default: all]")
@output_option
@version_option
def command(
    bootstrap_server: str, command_config: str | None, describe: bool, topic_list: str, broker_list: str, output: str
) -> None:
    """Show the log directories of brokers, and the sizes of the replicas in them, as JSON.

    \b
    ottla log-dirs --describe --topic-list orders
    """
    if not describe:
        raise Refused('Missing required argument "[describe]"')
    topics = {topic for topic in topic_list.split(",") if topic}
    try:
        wanted = {int(one) for one in broker_list.split(",") if one}
    except ValueError:
        raise Refused(f"--broker-list takes ids with commas between, and not {broker_list!r}") from None
    with admin_of(bootstrap_server, command_config, **{"client.id": "log-dirs-tool"}) as admin:
        alive = {node.node_id for node in admin.describe_cluster().nodes}
        missing = sorted(wanted - alive)
        if missing:
            raise Refused(
                f"ERROR: The given brokers do not exist from --broker-list: {_ids(missing)}. Current existent brokers: "
                f"{_ids(sorted(alive))}"
            )
        brokers = sorted(wanted or alive)
        if output == "text":
            click.echo("Querying brokers for log directories information")
        found = admin.describe_log_dirs(brokers).all()
    if output == "text":
        click.echo(f"Received log directory information from brokers {_ids(brokers)}")
    from ottla.cli.dump.java_text import json_text

    click.echo(json_text(as_json(found, topics)))


def as_json(found: Mapping[int, LogDirs], topics: set[str]) -> Json:
    """The directories of each broker, in the order of the names that Java's maps give."""
    return {
        "brokers": [
            {
                "broker": broker,
                "logDirs": [
                    {
                        "partitions": [
                            {
                                "partition": str(partition),
                                "size": replica.size,
                                "offsetLag": replica.offset_lag,
                                "isFuture": replica.is_future,
                            }
                            for partition, replica in _in_order(directory, topics)
                        ],
                        "error": None if directory.error is None else java_name(directory.error),
                        "logDir": path,
                    }
                    for path, directory in directories.items()
                ],
            }
            for broker, directories in found.items()
        ],
        "version": 1,
    }


def _in_order(directory: LogDirDescription, topics: set[str]) -> list[tuple[TopicPartition, ReplicaInfo]]:
    """The replicas of some topics, or of all."""
    found = [one for one in directory.replicas if not topics or one.topic in topics]
    return [(partition, directory.replicas[partition]) for partition in map_order(found, partition_hash)]


def _ids(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))
