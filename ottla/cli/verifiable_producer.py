"""`ottla verifiable-producer`: writes numbers and tells of each as a line of JSON, as `kafka-verifiable-producer` does.

For tests that must know which records were acknowledged. It stops after `--max-messages`, or when it is told to
(SIGTERM, Ctrl-C): it then waits for what is under way and ends with `shutdown_complete` and a summary, `tool_data`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, cycle, repeat
from typing import TYPE_CHECKING

import click

from ottla.cli.perf import StopSignals, Underway, event_line, flush_and, now_ms, paced, print_lines
from ottla.cli.tool import (
    Refused,
    Tool,
    bootstrap_option,
    complete_topics,
    java_name,
    one_line,
    read_settings_file,
    version_option,
)

if TYPE_CHECKING:
    from ottla.client import Producer
    from ottla.errors import KafkaError

NO_LIMIT = -1
NO_TIME = -1


@click.command(cls=Tool)
@bootstrap_option
@click.option("--topic", metavar="TOPIC", required=True, shell_complete=complete_topics, help="Write to this topic.")
@click.option(
    "--max-messages",
    metavar="COUNT",
    type=int,
    default=NO_LIMIT,
    show_default=True,
    help="Write so many records; -1 for as many as it gets to.",
)
@click.option(
    "--throughput",
    metavar="RATE",
    type=int,
    default=-1,
    show_default=True,
    help="Write about so many records a second; -1 for as fast as it goes.",
)
@click.option(
    "--acks",
    type=click.Choice(["0", "1", "-1"]),
    default="-1",
    show_default=True,
    help="Who must have a record before it counts as written: nobody, the leader, all in sync.",
)
@click.option(
    "--message-create-time",
    metavar="MS",
    type=int,
    default=NO_TIME,
    show_default="the present time",
    help="The timestamp of the first record; those after it grow.",
)
@click.option("--value-prefix", metavar="NUMBER", type=int, help="Write NUMBER.0, NUMBER.1 and so on.")
@click.option(
    "--repeating-keys", metavar="COUNT", type=int, help="Give the records the keys 0 to COUNT-1, again and again."
)
@click.option(
    "--command-config",
    metavar="FILE",
    type=click.Path(),
    help="Settings for the producer, a property file; they go before the options.",
)
@click.option(
    "--producer.config", "producer_config", metavar="FILE", type=click.Path(), help="The old name of --command-config."
)
@version_option
@click.pass_context
def command(
    ctx: click.Context,
    bootstrap_server: str,
    topic: str,
    max_messages: int,
    throughput: int,
    acks: str,
    message_create_time: int,
    value_prefix: int | None,
    repeating_keys: int | None,
    command_config: str | None,
    producer_config: str | None,
) -> None:
    """Write 0, 1, 2 and so on, and tell of each as a line of JSON.

    \b
    ottla verifiable-producer --topic t --max-messages 1000
    """
    if command_config is not None and producer_config is not None:
        raise Refused("Options --producer.config and --command-config are mutually exclusive.")
    if repeating_keys is not None and repeating_keys <= 0:
        raise Refused("--repeating-keys should be greater than zero.")
    if producer_config is not None:
        click.echo(
            "Option --producer.config has been deprecated and will be removed in a future version. "
            "Use --command-config instead."
        )
    settings: dict[str, object] = {
        "bootstrap.servers": bootstrap_server,
        "acks": acks,
        "retries": 0,
        **read_settings_file(command_config or producer_config),
    }
    for name in ("key.serializer", "value.serializer"):
        settings.pop(name, None)  # keys and values are text
    from ottla.client.quiet import quiet_client

    with quiet_client():
        from ottla.client import Producer

        producer = Producer(settings)
        writer = Writer(
            producer,
            topic,
            prefix="" if value_prefix is None else f"{value_prefix}.",
            keys=repeat(None) if repeating_keys is None else cycle(map(str, range(repeating_keys))),
            create_time_ms=None if message_create_time == NO_TIME else message_create_time,
        )
        try:
            with StopSignals() as stop:
                writer.run(max_messages, throughput, stop)
        except BaseException:
            producer.close(0)
            raise
    ctx.exit(stop.exit_code)


class Writer:
    """Sends the numbers and prints what becomes of them."""

    def __init__(
        self,
        producer: Producer,
        topic: str,
        *,
        prefix: str,
        keys: Iterator[str | None],
        create_time_ms: int | None,
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._prefix = prefix
        self._keys = keys
        self._create_time_ms = create_time_ms
        self._underway: Underway[list[tuple[str | None, str]]] = Underway(list)
        self._started_ms = now_ms()
        self.sent = 0
        self.acked = 0

    def run(self, max_messages: int, throughput: int, stop: StopSignals) -> None:
        """Send until it is enough, wait for the rest, and sum up."""
        print_lines(event_line("startup_complete"))
        numbers = count()
        if max_messages:
            for allowed in paced(throughput, self._started_ms / 1000):
                is_over = self._burst(numbers, allowed, max_messages, stop)
                self._look()
                if is_over:
                    break
        flush_and(self._producer, self._look)
        self._producer.close()
        stopped_ms = now_ms()
        print_lines(
            event_line("shutdown_complete"),
            event_line(
                "tool_data",
                sent=self.sent,
                acked=self.acked,
                target_throughput=throughput,
                avg_throughput=1000 * self.acked / max(stopped_ms - self._started_ms, 1),
            ),
        )

    def _burst(self, numbers: Iterator[int], allowed: int, max_messages: int, stop: StopSignals) -> bool:
        """Send up to `allowed`; whether that was the last of it."""
        for _ in range(allowed):
            if stop.is_set:
                break
            self._send(next(self._keys), f"{self._prefix}{next(numbers)}")
            if self.sent == max_messages:
                return True
        return stop.is_set

    def _send(self, key: str | None, value: str) -> None:
        from ottla.errors import KafkaError

        timestamp_ms = self._create_time_ms
        if timestamp_ms is not None:
            self._create_time_ms = timestamp_ms + now_ms() - self._started_ms
        self.sent += 1
        try:
            delivery = self._producer.send(
                self._topic, value.encode(), None if key is None else key.encode(), timestamp_ms=timestamp_ms
            )
        except KafkaError as error:
            print_lines(self._failed(key, value, error, now_ms()))
            return
        self._underway.notes_of(delivery).append((key, value))

    def _look(self) -> None:
        """Print what has arrived since, all of it at once: lines one by one would cost a system call each."""
        lines = []
        for notes, batch, at_s in self._underway.arrived():
            at_ms = int(at_s * 1000)
            partition = batch.partition.partition
            for index, (key, value) in enumerate(notes):
                offset, error, _ = batch.fate_of(index)
                if error is not None:
                    lines.append(self._failed(key, value, error, at_ms))
                    continue
                self.acked += 1
                lines.append(
                    event_line(
                        "producer_send_success",
                        at_ms,
                        key=key,
                        value=value,
                        offset=offset,
                        topic=self._topic,
                        partition=partition,
                    )
                )
        if lines:
            print_lines(*lines)

    def _failed(self, key: str | None, value: str, error: KafkaError, at_ms: int) -> str:
        return event_line(
            "producer_send_error",
            at_ms,
            key=key,
            value=value,
            exception=f"class {java_name(error)}",
            message=one_line(error),
            topic=self._topic,
        )
