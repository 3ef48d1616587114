"""`ottla verifiable-consumer`: reads a topic in a group and tells of each step as a line of JSON, as
`kafka-verifiable-consumer` does.

For tests that must know what was read, committed, assigned and revoked. It stops after `--max-messages`, or when it is
told to (SIGTERM, Ctrl-C): it then leaves the group and ends with `shutdown_complete`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ottla.cli.perf import StopSignals, event_line, print_lines
from ottla.cli.tool import (
    Refused,
    Tool,
    bootstrap_option,
    complete_groups,
    complete_topics,
    one_line,
    read_settings_file,
    version_option,
)

if TYPE_CHECKING:
    from ottla.client import Consumer, ConsumerRecord
    from ottla.types import TopicPartition

NO_LIMIT = -1


@click.command(cls=Tool)
@bootstrap_option
@click.option("--topic", metavar="TOPIC", required=True, shell_complete=complete_topics, help="Read this topic.")
@click.option("--group-id", metavar="GROUP", required=True, shell_complete=complete_groups, help="The consumer group.")
@click.option("--group-instance-id", metavar="ID", help="The name of a static member.")
@click.option(
    "--group-protocol",
    type=click.Choice(["classic", "consumer"], case_sensitive=False),
    default="classic",
    show_default=True,
    help="Who shares the partitions out: a member, or the broker.",
)
@click.option("--group-remote-assignor", metavar="NAME", help="The broker's assignor, with --group-protocol consumer.")
@click.option(
    "--assignment-strategy",
    metavar="CLASS",
    default="org.apache.kafka.clients.consumer.RangeAssignor",
    show_default=True,
    help="The assignor, with --group-protocol classic.",
)
@click.option("--session-timeout", metavar="MS", type=int, help="The session timeout, with --group-protocol classic.")
@click.option(
    "--max-messages",
    metavar="COUNT",
    type=int,
    default=NO_LIMIT,
    show_default=True,
    help="Read so many records; -1 for as many as there will be.",
)
@click.option("--verbose", is_flag=True, help="Tell of every record.")
@click.option("--enable-autocommit", is_flag=True, help="Let the consumer commit by itself.")
@click.option(
    "--reset-policy",
    metavar="POLICY",
    default="earliest",
    show_default=True,
    help="Where to begin without a committed offset: earliest, latest or none.",
)
@click.option(
    "--command-config",
    metavar="FILE",
    type=click.Path(),
    help="Settings for the consumer, a property file; the options go before them.",
)
@click.option(
    "--consumer.config", "consumer_config", metavar="FILE", type=click.Path(), help="The old name of --command-config."
)
@version_option
@click.pass_context
def command(
    ctx: click.Context,
    bootstrap_server: str,
    topic: str,
    group_id: str,
    group_instance_id: str | None,
    group_protocol: str,
    group_remote_assignor: str | None,
    assignment_strategy: str,
    session_timeout: int | None,
    max_messages: int,
    verbose: bool,
    enable_autocommit: bool,
    reset_policy: str,
    command_config: str | None,
    consumer_config: str | None,
) -> None:
    """Read a topic in a group, and tell of each step as a line of JSON.

    \b
    ottla verifiable-consumer --topic t --group-id g --max-messages 1000
    """
    if command_config is not None and consumer_config is not None:
        raise Refused("Options --consumer.config and --command-config are mutually exclusive.")
    if consumer_config is not None:
        click.echo(
            "Option --consumer.config has been deprecated and will be removed in a future version. "
            "Use --command-config instead."
        )
    settings: dict[str, object] = {
        **read_settings_file(command_config or consumer_config),
        "bootstrap.servers": bootstrap_server,
        "group.id": group_id,
        "group.protocol": group_protocol.lower(),
        "enable.auto.commit": enable_autocommit,
        "auto.offset.reset": reset_policy,
    }
    if group_protocol.lower() == "classic":
        settings["partition.assignment.strategy"] = assignment_strategy
    elif group_remote_assignor is not None:
        settings["group.remote.assignor"] = group_remote_assignor
    if session_timeout is not None:
        settings["session.timeout.ms"] = session_timeout
    if group_instance_id is not None:
        settings["group.instance.id"] = group_instance_id
    for name in ("key.deserializer", "value.deserializer"):
        settings.pop(name, None)  # keys and values are text
    from ottla.client.quiet import quiet_client

    with quiet_client():
        from ottla.client import Consumer

        consumer: Consumer[bytes | None, bytes | None] = Consumer(settings)
        reader = Reader(consumer, topic, max_messages=max_messages, is_verbose=verbose, commits=not enable_autocommit)
        with StopSignals(reader.stop) as stop:
            reader.run(stop)
    ctx.exit(stop.exit_code)


class Reader:
    """Reads and commits, and prints each step."""

    def __init__(
        self,
        consumer: Consumer[bytes | None, bytes | None],
        topic: str,
        *,
        max_messages: int,
        is_verbose: bool,
        commits: bool,
    ) -> None:
        self._consumer = consumer
        self._topic = topic
        self._max = max_messages
        self._is_verbose = is_verbose
        self._commits = commits
        self._consumed = 0
        self._is_closing = False

    def stop(self) -> None:
        """Have `run` end soon. From a signal handler."""
        if not self._is_closing:
            self._consumer.wakeup()

    @property
    def _is_finished(self) -> bool:
        return 0 <= self._max <= self._consumed

    def run(self, stop: StopSignals) -> None:
        """Read until it is enough, or until somebody says so; then leave."""
        from ottla.client.errors import Wakeup
        from ottla.errors import KafkaError

        consumer = self._consumer
        try:
            print_lines(event_line("startup_complete"))
            consumer.subscribe(
                [self._topic],
                on_assigned=lambda partitions: self._tell_partitions("partitions_assigned", partitions),
                on_revoked=lambda partitions: self._tell_partitions("partitions_revoked", partitions),
            )
            while not self._is_finished:
                records = consumer.poll(None)
                if not records:
                    continue
                offsets = self._take(records)
                if self._commits:
                    self._commit(offsets)
        except Wakeup:
            print_lines(event_line("shutdown_requested"))
        except KafkaError as error:
            # The lines of JSON are for programs, which see that this is the end; a person reads the reason.
            click.echo(f"Error during processing, terminating consumer process: {one_line(error)}", err=True)
        finally:
            self._is_closing = True
            consumer.close()
            print_lines(event_line("shutdown_complete"))
        if not stop.is_set:
            # Kafka's tool tells of the end of its process in the same way as of a signal, and so at the very end.
            print_lines(event_line("shutdown_requested"))

    def _take(self, records: list[ConsumerRecord[bytes | None, bytes | None]]) -> dict[TopicPartition, int]:
        """Tell of the records; the offsets to commit."""
        by_partition: dict[TopicPartition, list[ConsumerRecord[bytes | None, bytes | None]]] = {}
        for record in records:
            by_partition.setdefault(record.topic_partition, []).append(record)
        lines: list[str] = []
        summaries: list[dict[str, object]] = []
        offsets: dict[TopicPartition, int] = {}
        for partition, found in by_partition.items():
            if self._max >= 0:
                found = found[: self._max - self._consumed]
            if self._is_verbose:
                lines += map(_record_line, found)
            first, last = found[0].offset, found[-1].offset
            offsets[partition] = last + 1
            summaries.append({**_place(partition), "count": len(found), "minOffset": first, "maxOffset": last})
            self._consumed += len(found)
            if self._is_finished:
                break
        lines.append(event_line("records_consumed", count=len(records), partitions=summaries))
        print_lines(*lines)
        return offsets

    def _commit(self, offsets: dict[TopicPartition, int]) -> None:
        from ottla.client.errors import Wakeup
        from ottla.errors import FencedInstanceId, KafkaError

        places = [{**_place(partition), "offset": offset} for partition, offset in offsets.items()]
        try:
            self._consumer.commit(offsets)
        except Wakeup:
            self._commit(offsets)  # what was read counts; there is one wakeup only, so this one is not disturbed
            raise
        except FencedInstanceId:
            raise
        except KafkaError as error:
            print_lines(event_line("offsets_committed", offsets=places, error=one_line(error), success=False))
        else:
            print_lines(event_line("offsets_committed", offsets=places, success=True))

    def _tell_partitions(self, name: str, partitions: list[TopicPartition]) -> None:
        print_lines(event_line(name, partitions=[_place(one) for one in sorted(partitions)]))


def _place(partition: TopicPartition) -> dict[str, object]:
    return {"topic": partition.topic, "partition": partition.partition}


def _record_line(record: ConsumerRecord[bytes | None, bytes | None]) -> str:
    return event_line(
        "record_data",
        key=_text(record.key),
        value=_text(record.value),
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
    )


def _text(data: bytes | None) -> str | None:
    """What is not UTF-8 is shown as far as it is, as Java does."""
    return None if data is None else data.decode(errors="replace")
