"""`ottla verifiable-producer`: write numbers, and tell of each what became of it, as JSON; with the options and the
events of `kafka-verifiable-producer`."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.tool import (
    Refused,
    Tool,
    bootstrap_option,
    complete_topics,
    java_name,
    one_line,
    quiet_client,
    read_settings_file,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.producer.delivery import RecordMetadata
    from ottla.errors import KafkaError


@click.command(cls=Tool)
@bootstrap_option
@click.option("--topic", required=True, metavar="TOPIC", shell_complete=complete_topics, help="Where to write.")
@click.option("--max-messages", type=int, default=-1, show_default=True, metavar="COUNT", help="-1 is without end.")
@click.option(
    "--throughput", type=int, default=-1, show_default=True, metavar="RATE", help="Records a second; -1 for no limit."
)
@click.option("--acks", type=click.Choice(["0", "1", "-1"]), default="-1", show_default=True, help="acks")
@click.option("--message-create-time", type=int, default=-1, metavar="MS", help="The first timestamp. [default: now]")
@click.option("--value-prefix", type=int, metavar="NUMBER", help="Write PREFIX.NUMBER.")
@click.option("--repeating-keys", type=int, metavar="COUNT", help="Keys from 0 on, so many, again and again.")
@click.option("--command-config", type=click.Path(), metavar="FILE", help="Settings of the producer, a property file.")
@click.option("--producer.config", "producer_config", metavar="FILE", help="Deprecated: use --command-config.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Write numbers, and print what became of each as JSON.

    \b
    ottla verifiable-producer --topic checked --max-messages 1000
    """
    if options["producer_config"] and options["command_config"]:
        raise Refused("Options --producer.config and --command-config are mutually exclusive.")
    if options["producer_config"]:
        click.echo(
            "Option --producer.config has been deprecated and will be removed in a future version. "
            "Use --command-config instead."
        )
    settings = {
        "bootstrap.servers": options["bootstrap_server"],
        "acks": options["acks"],
        # What fails is told, and not tried again behind the back of whoever counts.
        "retries": "0",
        **read_settings_file(options["producer_config"] or options["command_config"]),
    }
    for name in ("key.serializer", "value.serializer"):
        settings.pop(name, None)
    with quiet_client():
        ctx.exit(Run(options, settings).run())


class Run:
    """One run: what was sent, and what was acknowledged."""

    def __init__(self, options: Mapping[str, Any], settings: Mapping[str, str]) -> None:
        self._options = options
        self._settings = settings
        self._sent = 0
        self._acked = 0

    def run(self) -> int:
        from ottla.cli.events import Stopped, print_event, stopped_by_signals
        from ottla.client.producer.sync_producer import Producer

        code = 0
        begun = time.monotonic()
        producer = Producer(self._settings)
        try:
            with stopped_by_signals():
                print_event("startup_complete")
                self._send_all(producer)
        except Stopped as stopped:
            code = stopped.code
        finally:
            producer.close()
        print_event("shutdown_complete")
        elapsed_s = max(time.monotonic() - begun, 0.001)
        print_event(
            "tool_data",
            sent=self._sent,
            acked=self._acked,
            target_throughput=self._options["throughput"],
            avg_throughput=self._acked / elapsed_s,
        )
        return code

    def _send_all(self, producer: Any) -> None:
        options = self._options
        begun = time.monotonic()
        start_ms = time.time_ns() // 1_000_000
        create_ms: int | None = None if options["message_create_time"] == -1 else options["message_create_time"]
        numbers = itertools.count() if options["max_messages"] < 0 else range(options["max_messages"])
        for number in numbers:
            keys = options["repeating_keys"]
            key = None if keys is None else str(number % keys)
            value = str(number) if options["value_prefix"] is None else f"{options['value_prefix']}.{number}"
            self._send(producer, key, value, create_ms)
            if create_ms is not None:
                create_ms += time.time_ns() // 1_000_000 - start_ms
            if options["throughput"] > 0:
                ahead_s = (number + 1) / options["throughput"] - (time.monotonic() - begun)
                if ahead_s > 0:
                    time.sleep(ahead_s)

    def _send(self, producer: Any, key: str | None, value: str, create_ms: int | None) -> None:
        from ottla.cli.events import print_event
        from ottla.errors import KafkaError

        topic = self._options["topic"]

        def failed(error: KafkaError) -> None:
            print_event(
                "producer_send_error", key=key, value=value, topic=topic, exception=f"class {java_name(error)}",
                message=one_line(error),
            )  # fmt: skip

        def told(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
            if error is not None:
                failed(error)
                return
            assert metadata is not None, "either"
            self._acked += 1
            print_event(
                "producer_send_success", key=key, value=value, partition=metadata.partition, offset=metadata.offset,
                topic=metadata.topic,
            )  # fmt: skip

        self._sent += 1
        try:
            producer.send(
                topic,
                value.encode(),
                None if key is None else key.encode(),
                timestamp_ms=create_ms,
                on_delivery=told,
            )
        except KafkaError as error:
            failed(error)
