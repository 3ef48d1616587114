"""`ottla console-producer`: each line of the standard input becomes a record; with the options of
`kafka-console-producer`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.tool import (
    Refused,
    Tool,
    bootstrap_option,
    complete_topics,
    read_key_values,
    read_settings_file,
    version_option,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ottla.client.producer.delivery import RecordMetadata
    from ottla.errors import KafkaError

LINE_READER = "org.apache.kafka.tools.LineMessageReader"
MERGED = {
    # option: (setting, default); a default gives way to the settings of the user's file
    "timeout": ("linger.ms", "1000"),
    "request_required_acks": ("acks", "-1"),
    "request_timeout_ms": ("request.timeout.ms", "1500"),
    "message_send_max_retries": ("retries", "3"),
    "retry_backoff_ms": ("retry.backoff.ms", "100"),
    "socket_buffer_size": ("send.buffer.bytes", "102400"),
    "max_memory_bytes": ("buffer.memory", "33554432"),
    "batch_size": ("batch.size", "16384"),
    "max_partition_memory_bytes": ("batch.size", "16384"),
    "metadata_expiry_ms": ("metadata.max.age.ms", "300000"),
    "max_block_ms": ("max.block.ms", "60000"),
}


@click.command(cls=Tool)
@bootstrap_option
@click.option("--topic", required=True, metavar="TOPIC", shell_complete=complete_topics, help="Where to write.")
@click.option("--sync", is_flag=True, help="Wait for each record before the next is sent.")
@click.option(
    "--compression-codec",
    is_flag=False,
    flag_value="gzip",
    metavar="[CODEC]",
    help="none, gzip, snappy, lz4 or zstd; gzip when no codec is named.",
)
@click.option("--batch-size", type=int, metavar="SIZE", help="batch.size [default: 16384]")
@click.option("--message-send-max-retries", type=int, metavar="COUNT", help="retries [default: 3]")
@click.option("--retry-backoff-ms", type=int, metavar="MS", help="retry.backoff.ms [default: 100]")
@click.option("--timeout", type=int, metavar="MS", help="linger.ms [default: 1000]")
@click.option("--request-required-acks", metavar="ACKS", help="acks [default: -1]")
@click.option("--request-timeout-ms", type=int, metavar="MS", help="request.timeout.ms [default: 1500]")
@click.option("--metadata-expiry-ms", type=int, metavar="MS", help="metadata.max.age.ms [default: 300000]")
@click.option("--max-block-ms", type=int, metavar="MS", help="max.block.ms [default: 60000]")
@click.option("--max-memory-bytes", type=int, metavar="SIZE", help="buffer.memory [default: 33554432]")
@click.option("--max-partition-memory-bytes", type=int, metavar="SIZE", help="Deprecated: use --batch-size.")
@click.option("--socket-buffer-size", type=int, metavar="SIZE", help="send.buffer.bytes [default: 102400]")
@click.option("--line-reader", default=LINE_READER, metavar="CLASS", help="Only Kafka's LineMessageReader is known.")
@click.option(
    "--reader-property",
    multiple=True,
    metavar="NAME=VALUE",
    help="parse.key, parse.headers, ignore.error (true or false); key.separator, headers.delimiter, "
    "headers.separator, headers.key.separator; null.marker. May be repeated.",
)
@click.option("--reader-config", metavar="FILE", type=click.Path(), help="The same from a property file.")
@click.option("--property", "property", multiple=True, metavar="NAME=VALUE", help="Deprecated: use --reader-property.")
@click.option("--command-property", multiple=True, metavar="NAME=VALUE", help="A setting of the producer.")
@click.option("--command-config", metavar="FILE", type=click.Path(), help="Settings of the producer, a property file.")
@click.option("--producer-property", multiple=True, metavar="NAME=VALUE", help="Deprecated: use --command-property.")
@click.option("--producer.config", "producer_config", metavar="FILE", help="Deprecated: use --command-config.")
@version_option
def command(**options: Any) -> None:
    """Write each line of the standard input as a record.

    \b
    echo 'hello' | ottla console-producer --topic greetings
    ottla console-producer --topic orders --reader-property parse.key=true --reader-property key.separator=:
    """
    check_options(options)
    if options["line_reader"] != LINE_READER:
        raise Refused(f"There is no line reader {options['line_reader']}: the one there is is {LINE_READER}")
    from ottla.cli.line_reader import BadLine, LineReader
    from ottla.client.quiet import quiet_client

    try:
        reader = LineReader(reader_settings(options))
        with quiet_client():
            write(options, reader)
    except BadLine as error:
        raise Refused(str(error)) from None


def check_options(options: dict[str, Any]) -> None:
    """`Refused` for what makes no sense together; what is deprecated is said, and taken for what replaces it."""
    pairs = (
        ("command_config", "--command-config", "producer_config", "--producer.config"),
        ("command_property", "--command-property", "producer_property", "--producer-property"),
        ("reader_property", "--reader-property", "property", "--property"),
    )
    for new, new_name, old, old_name in pairs:
        if options[new] and options[old]:
            raise Refused(f"Options {new_name} and {old_name} cannot be specified together.")
    for new, new_name, old, old_name in (pairs[1], pairs[0], pairs[2]):
        if options[old]:
            click.echo(
                f"Warning: {old_name} is deprecated and will be removed in a future version. Use {new_name} instead."
            )
            options[new] = options[old]
    if options["max_partition_memory_bytes"] is not None:
        click.echo(
            "Warning: --max-partition-memory-bytes is deprecated and will be removed in Apache Kafka 5.0. "
            "Use --batch-size instead."
        )


def reader_settings(options: Mapping[str, Any]) -> dict[str, str]:
    return {**read_settings_file(options["reader_config"]), **read_key_values(options["reader_property"])}


def producer_settings(options: Mapping[str, Any]) -> dict[str, str]:
    from ottla.client.config import FIRST_CONTACT

    given = {**read_settings_file(options["command_config"]), **read_key_values(options["command_property"])}
    settings = {**FIRST_CONTACT, **given}
    settings["bootstrap.servers"] = options["bootstrap_server"]
    settings["compression.type"] = options["compression_codec"] or "none"
    settings.setdefault("client.id", "console-producer")
    for name in ("key.serializer", "value.serializer"):
        settings.pop(name, None)  # lines are bytes
    for option, (name, default) in MERGED.items():
        if options[option] is not None or name not in settings:
            settings[name] = default if options[option] is None else str(options[option])
    return settings


def write(options: Mapping[str, Any], reader: Any) -> None:
    """Write every line; a record that could not be written is told on standard error."""
    from ottla.client.producer.sync_producer import Producer

    topic = options["topic"]
    failed = 0

    def told(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        nonlocal failed
        if error is not None:
            failed += 1
            click.echo(f"Error when sending message to topic {topic}: {error}", err=True)

    with Producer(producer_settings(options)) as producer:
        for text in lines():
            line = reader.parse(text)
            if options["sync"]:
                producer.send_and_wait(topic, line.value, line.key, headers=line.headers)
            else:
                producer.send(topic, line.value, line.key, headers=line.headers, on_delivery=told)
        producer.flush()


def lines() -> Iterator[str]:
    """The lines of the standard input; at a terminal with a prompt before each."""
    stdin = sys.stdin.buffer
    is_terminal = stdin.isatty()
    while True:
        if is_terminal:
            click.echo(">", nl=False)
            sys.stdout.flush()
        line = stdin.readline()
        if not line:
            return
        yield line.removesuffix(b"\n").removesuffix(b"\r").decode(errors="replace")
