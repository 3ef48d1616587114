"""`ottla verifiable-consumer`: read a topic in a group, and tell of each step as JSON; with the options and the events
of `kafka-verifiable-consumer`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ottla.cli.tool import (
    Refused,
    Tool,
    bootstrap_option,
    complete_groups,
    complete_topics,
    one_line,
    quiet_client,
    read_settings_file,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ottla.cli.dump.java_text import Json
    from ottla.client import ConsumerRecord
    from ottla.client.consumer.sync_consumer import Consumer
    from ottla.types import TopicPartition

    AnyConsumer = Consumer[bytes | None, bytes | None]
    Raw = ConsumerRecord[bytes | None, bytes | None]

POLL_S = 1.0
RANGE_ASSIGNOR = "org.apache.kafka.clients.consumer.RangeAssignor"


@click.command(cls=Tool)
@bootstrap_option
@click.option("--topic", required=True, metavar="TOPIC", shell_complete=complete_topics, help="The topic to read.")
@click.option("--group-id", required=True, metavar="GROUP", shell_complete=complete_groups, help="The group.")
@click.option("--group-protocol", default="classic", show_default=True, metavar="NAME", help="classic or consumer")
@click.option("--group-remote-assignor", metavar="NAME", help="The broker's assignor, with the consumer protocol.")
@click.option("--group-instance-id", metavar="ID", help="Be a static member.")
@click.option("--max-messages", type=int, default=-1, show_default=True, metavar="COUNT", help="-1 is without end.")
@click.option("--session-timeout", type=int, metavar="MS", help="session.timeout.ms, with the classic protocol.")
@click.option("--verbose", is_flag=True, help="Tell of each record.")
@click.option("--enable-autocommit", is_flag=True, help="Commit by time, and not after each poll.")
@click.option("--reset-policy", default="earliest", show_default=True, metavar="POLICY", help="auto.offset.reset")
@click.option(
    "--assignment-strategy", default=RANGE_ASSIGNOR, metavar="CLASS", help="The assignor, with the classic protocol."
)
@click.option("--command-config", type=click.Path(), metavar="FILE", help="Settings of the consumer, a property file.")
@click.option("--consumer.config", "consumer_config", metavar="FILE", help="Deprecated: use --command-config.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Read a topic in a group, and print each step as JSON: assignments, records, commits.

    \b
    ottla verifiable-consumer --topic checked --group-id checkers --max-messages 1000
    """
    settings = consumer_settings(options)
    with quiet_client():
        ctx.exit(Run(options, settings).run())


def consumer_settings(options: Mapping[str, Any]) -> dict[str, str]:
    if options["consumer_config"] and options["command_config"]:
        raise Refused("Options --consumer.config and --command-config are mutually exclusive.")
    if options["consumer_config"]:
        click.echo(
            "Option --consumer.config has been deprecated and will be removed in a future version. "
            "Use --command-config instead."
        )
    settings = read_settings_file(options["consumer_config"] or options["command_config"])
    protocol = options["group_protocol"].lower()
    settings["group.protocol"] = protocol
    if protocol == "consumer":
        if options["group_remote_assignor"] is not None:
            settings["group.remote.assignor"] = options["group_remote_assignor"]
    else:
        settings["partition.assignment.strategy"] = options["assignment_strategy"]
    if options["session_timeout"] is not None:
        settings["session.timeout.ms"] = str(options["session_timeout"])
    settings["group.id"] = options["group_id"]
    if options["group_instance_id"] is not None:
        settings["group.instance.id"] = options["group_instance_id"]
    settings["bootstrap.servers"] = options["bootstrap_server"]
    settings["enable.auto.commit"] = "true" if options["enable_autocommit"] else "false"
    settings["auto.offset.reset"] = options["reset_policy"]
    for name in ("key.deserializer", "value.deserializer"):
        settings.pop(name, None)
    return settings


class Run:
    """One run: how many were read."""

    def __init__(self, options: Mapping[str, Any], settings: Mapping[str, str]) -> None:
        self._options = options
        self._settings = settings
        self._consumed = 0

    @property
    def _is_finished(self) -> bool:
        most: int = self._options["max_messages"]
        return 0 <= most <= self._consumed

    def run(self) -> int:
        from ottla.cli.events import Stopped, print_event, stopped_by_signals
        from ottla.client.consumer.sync_consumer import Consumer

        code = 0
        consumer: AnyConsumer = Consumer(self._settings)
        try:
            with stopped_by_signals():
                print_event("startup_complete")
                consumer.subscribe(
                    [self._options["topic"]],
                    on_assigned=lambda partitions: _print_partitions("partitions_assigned", partitions),
                    on_revoked=lambda partitions: _print_partitions("partitions_revoked", partitions),
                )
                while not self._is_finished:
                    records = consumer.poll(POLL_S)
                    if not records:
                        continue
                    offsets = self._tell(records)
                    if not self._options["enable_autocommit"]:
                        self._commit(consumer, offsets)
        except Stopped as stopped:
            code = stopped.code
            print_event("shutdown_requested")
        finally:
            consumer.close()
        print_event("shutdown_complete")
        if not code:
            print_event("shutdown_requested")  # as Kafka's does, whose last act is to ask itself to stop
        return code

    def _tell(self, records: list[Raw]) -> dict[TopicPartition, int]:
        """Print what came; returns what is to be committed."""
        from ottla.cli.dump.java_text import utf8_text
        from ottla.cli.events import print_event

        by_partition: dict[TopicPartition, list[Raw]] = {}
        for record in records:
            by_partition.setdefault(record.topic_partition, []).append(record)
        offsets: dict[TopicPartition, int] = {}
        summaries: list[Json] = []
        for partition, found in by_partition.items():
            most = self._options["max_messages"]
            if most >= 0:
                found = found[: most - self._consumed]
            if not found:
                continue
            offsets[partition] = found[-1].offset + 1
            summaries.append(
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "count": len(found),
                    "minOffset": found[0].offset,
                    "maxOffset": found[-1].offset,
                }
            )
            if self._options["verbose"]:
                for record in found:
                    print_event(
                        "record_data",
                        key=None if record.key is None else utf8_text(record.key),
                        value=None if record.value is None else utf8_text(record.value),
                        topic=record.topic,
                        partition=record.partition,
                        offset=record.offset,
                    )
            self._consumed += len(found)
            if self._is_finished:
                break
        print_event("records_consumed", count=len(records), partitions=summaries)
        return offsets

    def _commit(self, consumer: AnyConsumer, offsets: Mapping[TopicPartition, int]) -> None:
        from ottla.cli.events import print_event
        from ottla.client import OffsetAndMetadata
        from ottla.errors import FencedInstanceId, KafkaError

        shown: list[Json] = [
            {"topic": partition.topic, "partition": partition.partition, "offset": offset}
            for partition, offset in offsets.items()
        ]
        try:
            consumer.commit({partition: OffsetAndMetadata(offset) for partition, offset in offsets.items()})
        except FencedInstanceId:
            raise
        except KafkaError as error:
            print_event("offsets_committed", offsets=shown, error=one_line(error), success=False)
        else:
            print_event("offsets_committed", offsets=shown, success=True)


def _print_partitions(name: str, partitions: Collection[TopicPartition]) -> None:
    from ottla.cli.events import print_event

    print_event(name, partitions=[{"topic": one.topic, "partition": one.partition} for one in sorted(partitions)])
