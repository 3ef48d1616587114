"""`ottla delete-records`: delete the records before an offset, with the options and words of `kafka-delete-records`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.java_order import map_order, partition_hash
from ottla.cli.tool import (
    Refused,
    Tool,
    admin_of,
    bootstrap_option,
    command_config_option,
    java_text,
    output_option,
    print_json,
    version_option,
)

if TYPE_CHECKING:
    from ottla.types import TopicPartition

VERSION = 1


@click.command(cls=Tool)
@bootstrap_option
@command_config_option
@click.option(
    "--offset-json-file",
    required=True,
    metavar="FILE",
    type=click.Path(),
    help='{"partitions": [{"topic": "orders", "partition": 1, "offset": 10}], "version": 1}',
)
@output_option
@version_option
def command(bootstrap_server: str, command_config: str | None, offset_json_file: str, output: str) -> None:
    """Delete the records of partitions before an offset each; -1 is the end.

    \b
    ottla delete-records --offset-json-file offsets.json
    """
    try:
        with open(offset_json_file, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        raise Refused(f"Cannot read {offset_json_file}: {error.strerror}") from None
    before = parse_offsets(text)
    with admin_of(bootstrap_server, command_config) as admin:
        if output == "text":
            click.echo("Executing records delete operation")
        outcomes = admin.delete_records(before)
        rows: list[dict[str, object]] = []
        if output == "text":
            click.echo("Records delete operation completed:")
        for partition in map_order(outcomes, partition_hash):
            outcome = outcomes[partition]
            error_found = outcome.error
            if output == "json":
                row: dict[str, object] = {"topic": partition.topic, "partition": partition.partition}
                row |= {"error": str(error_found)} if error_found else {"lowWatermark": outcome.result()}
                rows.append(row)
            elif error_found is not None:
                click.echo(f"partition: {partition}\terror: {java_text(error_found)}")
            else:
                click.echo(f"partition: {partition}\tlow_watermark: {outcome.result()}")
        if output == "json":
            print_json(rows)


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    """The partitions of the file and their offsets; `Refused` with what is wrong with it."""
    from ottla.types import TopicPartition

    try:
        document: Any = json.loads(text)
    except ValueError:
        raise Refused("The input string is not a valid JSON") from None
    try:
        version = document.get("version", VERSION)
        if version != VERSION:
            raise Refused(f"Not supported version field value {version}")
        if "partitions" not in document:
            raise Refused("Missing partitions field")
        listed = [
            (TopicPartition(_field(one, "topic", str), _field(one, "partition", int)), _field(one, "offset", int))
            for one in document["partitions"]
        ]
    except (AttributeError, TypeError):
        raise Refused('The file holds {"partitions": [{"topic": ..., "partition": ..., "offset": ...}]}') from None
    partitions = [partition for partition, _ in listed]
    twice = sorted({str(one) for one in partitions if partitions.count(one) > 1})
    if twice:
        raise Refused(f"Offset json file contains duplicate topic partitions: {','.join(twice)}")
    return dict(listed)


def _field(entry: Any, name: str, kind: type) -> Any:
    value = entry.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise Refused(f"No such field exists: `{name}`" if value is None else f"Expected `{kind.__name__}` in `{name}`")
    return value
