"""`ottla console-consumer`: print the records of topics, with the options and words of `kafka-console-consumer`."""

from __future__ import annotations

import random
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.tool import (
    INTERRUPTED,
    Refused,
    Tool,
    bootstrap_option,
    complete_groups,
    complete_topics,
    one_line,
    read_key_values,
    read_settings_file,
    version_option,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ottla.cli.formatters import Formatter, Raw
    from ottla.client.consumer.sync_consumer import Consumer

    AnyConsumer = Consumer[bytes | None, bytes | None]

POLL_S = 1.0
FLUSH_BYTES = 64 * 1024
EARLIEST, LATEST = -2, -1
TERMINATED = 143


@click.command(cls=Tool)
@bootstrap_option
@click.option("--topic", metavar="TOPIC", shell_complete=complete_topics, help="The topic to read.")
@click.option("--include", metavar="REGEX", help="All topics that match, instead.")
@click.option("--partition", type=int, metavar="ID", help="Only this partition, without a group.")
@click.option("--offset", metavar="OFFSET", help="Where to begin in the partition: earliest, latest or a number.")
@click.option("--group", metavar="GROUP", shell_complete=complete_groups, help="The group to read as.")
@click.option("--from-beginning", is_flag=True, help="Begin with the first record where nothing was read before.")
@click.option("--max-messages", type=int, metavar="COUNT", help="End after so many. [default: never]")
@click.option("--timeout-ms", type=int, metavar="MS", help="End when nothing came for so long. [default: never]")
@click.option(
    "--isolation-level", metavar="LEVEL", help="read_uncommitted or read_committed. [default: read_uncommitted]"
)
@click.option("--formatter", metavar="CLASS", help="How records are shown: one of Kafka's, or a Python class.")
@click.option(
    "--formatter-property",
    multiple=True,
    metavar="NAME=VALUE",
    help="print.timestamp, print.key, print.offset, print.partition, print.headers, print.value (true or false); "
    "key.separator, line.separator, headers.separator, null.literal; key.deserializer, value.deserializer, "
    "headers.deserializer. May be repeated.",
)
@click.option("--formatter-config", metavar="FILE", type=click.Path(), help="The same from a property file.")
@click.option("--property", "property", multiple=True, metavar="NAME=VALUE", help="Deprecated: --formatter-property.")
@click.option("--key-deserializer", metavar="CLASS", help="How keys become text.")
@click.option("--value-deserializer", metavar="CLASS", help="How values become text.")
@click.option("--skip-message-on-error", is_flag=True, help="Go on when a record cannot be shown.")
@click.option("--enable-systest-events", is_flag=True, help="Say when it is over. For Kafka's system tests.")
@click.option("--command-property", multiple=True, metavar="NAME=VALUE", help="A setting of the consumer.")
@click.option("--command-config", metavar="FILE", type=click.Path(), help="Settings of the consumer, a property file.")
@click.option("--consumer-property", multiple=True, metavar="NAME=VALUE", help="Deprecated: use --command-property.")
@click.option("--consumer.config", "consumer_config", metavar="FILE", help="Deprecated: use --command-config.")
@version_option
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Print the records of topics.

    \b
    ottla console-consumer --topic orders --from-beginning
    ottla console-consumer --topic orders --partition 0 --offset 42 --max-messages 1
    ottla console-consumer --topic __consumer_offsets --from-beginning \\
        --formatter org.apache.kafka.tools.consumer.OffsetsMessageFormatter
    """
    check_options(options)
    settings = consumer_settings(options)
    start = start_offset(options)
    from ottla.cli.formatters import DEFAULT_FORMATTER, formatter_of
    from ottla.client.quiet import quiet_client

    formatter = formatter_of(options["formatter"] or DEFAULT_FORMATTER, formatter_settings(options))
    with quiet_client():
        code = run(options, settings, start, formatter)
    ctx.exit(code)


def check_options(options: dict[str, Any]) -> None:
    """`Refused` for what makes no sense together, in Kafka's words."""
    if (options["topic"] is None) == (options["include"] is None):
        raise Refused("Exactly one of the following arguments is required: [topic], [include]")
    if options["partition"] is not None:
        if options["topic"] is None:
            raise Refused("The topic is required when partition is specified.")
        if options["from_beginning"] and options["offset"] is not None:
            raise Refused("Options from-beginning and offset cannot be specified together.")
    elif options["offset"] is not None:
        raise Refused("The partition is required when offset is specified.")
    pairs = (
        ("command_property", "--command-property", "consumer_property", "--consumer-property"),
        ("command_config", "--command-config", "consumer_config", "--consumer.config"),
        ("formatter_property", "--formatter-property", "property", "--property"),
    )
    for new, new_name, old, old_name in pairs:
        if options[new] and options[old]:
            raise Refused(f"Options {old_name} and {new_name} cannot be specified together.")
        if options[old]:
            click.echo(
                f"Option {old_name} is deprecated and will be removed in a future version. Use {new_name} instead."
            )
            options[new] = options[old]


def consumer_settings(options: Mapping[str, Any]) -> dict[str, str]:
    from ottla.client.config import FIRST_CONTACT

    file = read_settings_file(options["command_config"])
    given = read_key_values(options["command_property"])
    groups = list(
        dict.fromkeys(name for name in (options["group"], file.get("group.id"), given.get("group.id")) if name)
    )
    if len(groups) > 1:
        raise Refused(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', or via "
            "'--consumer.config') do not match. Detected group ids: " + ", ".join(f"'{name}'" for name in groups)
        )
    if groups and options["partition"] is not None:
        raise Refused("Options group and partition cannot be specified together.")
    settings = {**FIRST_CONTACT, **file, **given}
    reset = settings.get("auto.offset.reset")
    if reset is not None and options["from_beginning"] and reset != "earliest":
        raise Refused(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove one option"
        )
    settings.setdefault("auto.offset.reset", "earliest" if options["from_beginning"] else "latest")
    settings["bootstrap.servers"] = options["bootstrap_server"]
    settings.setdefault("client.id", "console-consumer")
    if options["isolation_level"] is not None or "isolation.level" not in settings:
        settings["isolation.level"] = options["isolation_level"] or "read_uncommitted"
    for name in ("key.deserializer", "value.deserializer"):
        settings.pop(name, None)  # the formatter's business
    if groups:
        settings["group.id"] = groups[0]
    else:
        # A group that nobody will use again keeps no offsets.
        settings["group.id"] = f"console-consumer-{random.randrange(100_000)}"
        settings.setdefault("enable.auto.commit", "false")
    return settings


def start_offset(options: Mapping[str, Any]) -> int:
    """Where a partition is read from."""
    given = options["offset"]
    if given is None:
        return EARLIEST if options["from_beginning"] else LATEST
    if given.lower() in ("earliest", "latest"):
        return EARLIEST if given.lower() == "earliest" else LATEST
    if not given.isascii() or not given.isdigit():
        raise Refused(
            f"The provided offset value '{given}' is incorrect. Valid values are 'earliest', 'latest', or a "
            "non-negative long."
        )
    return int(given)


def formatter_settings(options: Mapping[str, Any]) -> dict[str, str]:
    settings = read_settings_file(options["formatter_config"])
    for part in ("key", "value"):
        if options[f"{part}_deserializer"]:
            settings[f"{part}.deserializer"] = options[f"{part}_deserializer"]
    return {**settings, **read_key_values(options["formatter_property"])}


def run(options: Mapping[str, Any], settings: Mapping[str, str], start: int, formatter: Formatter) -> int:
    """Print records until there were enough, or for too long none, or until someone says stop; the exit code."""
    from ottla.client.consumer.sync_consumer import Consumer

    count = 0
    code = 0
    consumer: AnyConsumer = Consumer(settings)
    records = Records(consumer, options["timeout_ms"])
    output = sys.stdout.buffer
    try:
        _choose(consumer, options, start)
        previous = _end_on_sigterm()
        try:
            most = options["max_messages"]
            while most is None or most < 0 or count < most:
                record = records.next()
                if record is None:
                    break
                count += 1
                try:
                    output.write(formatter.format(record))
                except ValueError as error:
                    if not options["skip_message_on_error"]:
                        raise Refused(one_line(error)) from None
                    click.echo(f"Error processing message, skipping this message: {one_line(error)}", err=True)
                if not records.has_more:
                    output.flush()
        finally:
            if previous is not None:
                signal.signal(signal.SIGTERM, previous)
        output.flush()
    except BrokenPipeError:
        click.echo("Unable to write to standard out, closing consumer.", err=True)
        raise
    except KeyboardInterrupt:
        code = INTERRUPTED
    except _Terminated:
        code = TERMINATED
    finally:
        records.give_back()
        consumer.close()
        click.echo(f"Processed a total of {count} messages", err=True)
        if options["enable_systest_events"]:
            click.echo("shutdown_complete")
    return code


class _Terminated(BaseException):
    """SIGTERM: leave the group in order."""


def _end_on_sigterm() -> Any:
    def end(number: int, frame: object) -> None:
        raise _Terminated

    try:
        return signal.signal(signal.SIGTERM, end)
    except ValueError:
        return None  # not the main thread, which has no signals


def _choose(consumer: AnyConsumer, options: Mapping[str, Any], start: int) -> None:
    import re

    from ottla.types import TopicPartition

    if options["partition"] is None:
        consumer.subscribe([options["topic"]] if options["topic"] is not None else re.compile(options["include"]))
        return
    partition = TopicPartition(options["topic"], options["partition"])
    consumer.assign([partition])
    if start == EARLIEST:
        consumer.seek_to_beginning([partition])
    elif start == LATEST:
        consumer.seek_to_end([partition])
    else:
        consumer.seek(partition, start)


class Records:
    """Records one at a time; what was fetched and not shown is not taken for read."""

    def __init__(self, consumer: AnyConsumer, timeout_ms: int | None) -> None:
        self._consumer = consumer
        self._timeout_s = None if timeout_ms is None or timeout_ms < 0 else timeout_ms / 1000
        self._waiting: Iterator[Raw] = iter(())
        self._next: Raw | None = None

    @property
    def has_more(self) -> bool:
        """Whether the next one is at hand."""
        self._next = self._next or next(self._waiting, None)
        return self._next is not None

    def next(self) -> Raw | None:
        """The next record; None when none came in time."""
        begun = time.monotonic()
        while not self.has_more:
            passed = time.monotonic() - begun
            if self._timeout_s is not None and passed > self._timeout_s:
                return None
            # In short turns, so that Ctrl-C is heard.
            left = POLL_S if self._timeout_s is None else min(POLL_S, max(0.0, self._timeout_s - passed) + 0.001)
            self._waiting = iter(self._consumer.poll(left))
        found, self._next = self._next, None
        return found

    def give_back(self) -> None:
        """Set the consumer's positions to what was not shown, before it commits them."""
        first: dict[Any, int] = {}
        while self.has_more:
            record, self._next = self._next, None
            assert record is not None, "there is more"
            first.setdefault(record.topic_partition, record.offset)
        for partition, offset in first.items():
            if partition in self._consumer.assignment():
                self._consumer.seek(partition, offset)
