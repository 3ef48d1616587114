"""`ottla get-offsets`: where partitions begin and end, with the options and words of `kafka-get-offsets`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from ottla.cli.tool import (
    IncludeList,
    Refused,
    Tool,
    admin_of,
    bootstrap_option,
    command_config_option,
    complete_topics,
    java_text,
    output_option,
    print_json,
    version_option,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.client.admin import OffsetSpec
    from ottla.types import TopicPartition

INT_MAX = 2**31 - 1
NO_OFFSET = -1
RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")
SPECS = {
    "latest": -1, "earliest": -2, "max-timestamp": -3, "earliest-local": -4, "latest-tiered": -5,
    "earliest-pending-upload": -6,
}  # fmt: skip


@click.command(cls=Tool)
@bootstrap_option
@command_config_option
@click.option(
    "--topic",
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="The topic, or a pattern. [default: all]",
)
@click.option("--partitions", metavar="ID,ID,...", help="The partitions. [default: all]")
@click.option(
    "--topic-partitions",
    metavar="RULE,RULE,...",
    help="Topics and partitions: a pattern, and after a colon a number, N-M (M excluded), N- or -M.",
)
@click.option(
    "--time",
    metavar="TIME",
    default="latest",
    show_default=True,
    help="latest (-1), earliest (-2), max-timestamp (-3), earliest-local (-4), latest-tiered (-5), "
    "earliest-pending-upload (-6), or a timestamp in ms: the first record that is not older.",
)
@click.option("--exclude-internal-topics", is_flag=True, help="Leave internal topics out.")
@output_option
@version_option
def command(
    bootstrap_server: str,
    command_config: str | None,
    topic: str | None,
    partitions: str | None,
    topic_partitions: str | None,
    time: str,
    exclude_internal_topics: bool,
    output: str,
) -> None:
    """Show offsets of partitions: TOPIC:PARTITION:OFFSET, a line each.

    \b
    ottla get-offsets --topic orders
    ottla get-offsets --topic-partitions 'orders:0-3,bills' --time earliest
    """
    if topic_partitions is not None and (topic is not None or partitions is not None):
        raise Refused("Error occurred: --topic-partitions cannot be used with --topic or --partitions")
    spec = parse_time(time)
    allows = parse_rules(topic_partitions) if topic_partitions is not None else parse_filter(topic, partitions)
    with admin_of(bootstrap_server, command_config, **{"client.id": "GetOffsetShell"}) as admin:
        from ottla.types import TopicPartition

        names = [name for name in admin.list_topics(include_internal=not exclude_internal_topics) if allows.topic(name)]
        described = admin.describe_topics(names).all() if names else {}
        wanted = [
            TopicPartition(found.name, one.partition)
            for found in described.values()
            for one in found.partitions
            if allows.partition(found.name, one.partition)
        ]
        if not wanted:
            raise Refused("Error occurred: Could not match any topic-partitions with the specified filters")
        outcomes = admin.list_offsets(dict.fromkeys(wanted, spec))
    found_offsets: list[tuple[TopicPartition, int]] = []
    for partition in sorted(wanted, key=str):
        error = outcomes[partition].error
        if error is not None:
            click.echo(
                f"Skip getting offsets for topic-partition {partition} due to error: {java_text(error)}", err=True
            )
            continue
        offset = outcomes[partition].result().offset
        if offset != NO_OFFSET:
            found_offsets.append((partition, offset))
    if output == "json":
        print_json([{"topic": one.topic, "partition": one.partition, "offset": end} for one, end in found_offsets])
        return
    for partition, offset in found_offsets:
        click.echo(f"{partition.topic}:{partition.partition}:{offset}")


def parse_time(text: str) -> OffsetSpec:
    """Which offset is meant."""
    from ottla.client.admin import OffsetSpec

    try:
        timestamp = SPECS[text] if text in SPECS else int(text)
    except ValueError:
        raise Refused(
            f"Error occurred: Malformed time argument {text}. Please use -1 or latest / -2 or earliest / -3 or "
            "max-timestamp / -4 or earliest-local / -5 or latest-tiered / -6 or earliest-pending-upload, or a "
            "specified long format timestamp"
        ) from None
    kinds = {
        -1: OffsetSpec.latest, -2: OffsetSpec.earliest, -3: OffsetSpec.max_timestamp, -4: OffsetSpec.earliest_local,
        -5: OffsetSpec.latest_tiered, -6: OffsetSpec.earliest_pending_upload,
    }  # fmt: skip
    return kinds[timestamp]() if timestamp in kinds else OffsetSpec.for_timestamp(timestamp)


class Rule:
    """Topics of a pattern, and some of their partitions."""

    def __init__(self, pattern: str, partition: Callable[[int], bool]) -> None:
        self._include = IncludeList(pattern)
        self._partition = partition

    def allows(self, topic: str, partition: int | None) -> bool:
        return self._include.allows(topic) and (partition is None or self._partition(partition))


class Rules:
    """What at least one rule allows."""

    def __init__(self, rules: list[Rule]) -> None:
        self._rules = rules

    def topic(self, name: str) -> bool:
        return any(rule.allows(name, None) for rule in self._rules)

    def partition(self, topic: str, partition: int) -> bool:
        return any(rule.allows(topic, partition) for rule in self._rules)


def parse_filter(topic: str | None, partitions: str | None) -> Rules:
    """The rule of --topic and --partitions."""
    try:
        wanted = {int(one) for one in partitions.split(",")} if partitions else set()
    except ValueError:
        raise Refused(
            "Error occurred: --partitions expects a comma separated list of numeric partition ids, but received: "
            f"{partitions}"
        ) from None
    return Rules([Rule(topic if topic is not None else ".*", lambda one: not wanted or one in wanted)])


def parse_rules(text: str) -> Rules:
    """The rules of --topic-partitions."""
    rules = []
    for spec in text.split(","):
        match = RULE.fullmatch(spec)
        if match is None:
            raise Refused(f"Error occurred: Invalid rule specification: {spec}")
        pattern, only, low, high = (part or None for part in match.groups())
        if only is not None:
            rules.append(Rule(pattern or ".*", int(only).__eq__))
        else:
            span = range(int(low) if low else 0, int(high) if high else INT_MAX)
            rules.append(Rule(pattern or ".*", span.__contains__))
    return Rules(rules)
