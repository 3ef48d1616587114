"""`ottla consumer-perf-test`: how fast records are read, with the options and columns of `kafka-consumer-perf-test`.

Records are only counted, and in bulk: what is measured is the consumer, with its group and its positions.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.date_format import DateFormat
from ottla.cli.perf import MIB, java_number, json_number, print_metrics, ratio, read_properties
from ottla.cli.tool import (
    Refused,
    Tool,
    bootstrap_option,
    complete_groups,
    complete_topics,
    output_option,
    print_json,
    read_settings_file,
    version_option,
)

if TYPE_CHECKING:
    from ottla.client import Consumer, ConsumerRecord
    from ottla.types import TopicPartition

CLIENT_ID = "perf-consumer-client"
POLL_S = 0.1
TIMEOUT_MS = 10_000
COLUMNS = (
    "data.consumed.in.MB", "MB.sec", "data.consumed.in.nMsg", "nMsg.sec", "rebalance.time.ms", "fetch.time.ms",
    "fetch.MB.sec", "fetch.nMsg.sec",
)  # fmt: skip


@click.command(cls=Tool)
@bootstrap_option
@click.option("--topic", metavar="TOPIC", shell_complete=complete_topics, help="Read this topic.")
@click.option("--include", metavar="REGEX", help="Read the topics whose names match.")
@click.option("--num-records", metavar="COUNT", type=int, help="How many records to read.")
@click.option("--messages", metavar="COUNT", type=int, help="The old name of --num-records.")
@click.option(
    "--group",
    metavar="GROUP",
    shell_complete=complete_groups,
    help="The consumer group. [default: perf-consumer- and a random number]",
)
@click.option(
    "--from-latest", is_flag=True, help="Where the group has no offset, read what is written from now on, not all."
)
@click.option(
    "--fetch-size",
    metavar="BYTES",
    type=int,
    default=MIB,
    show_default=True,
    help="How much to fetch of a partition at once.",
)
@click.option(
    "--socket-buffer-size",
    metavar="BYTES",
    type=int,
    default=2 * MIB,
    show_default=True,
    help="How much the socket may hold before it is read.",
)
@click.option("--command-property", metavar="NAME=VALUE", multiple=True, help="A setting for the consumer; may repeat.")
@click.option("--command-config", metavar="FILE", type=click.Path(), help="Settings for the consumer, a property file.")
@click.option(
    "--consumer.config", "consumer_config", metavar="FILE", type=click.Path(), help="The old name of --command-config."
)
@click.option("--print-metrics", "with_metrics", is_flag=True, help="Print the consumer's metrics at the end.")
@click.option("--show-detailed-stats", is_flag=True, help="Print a line every --reporting-interval, and no summary.")
@click.option(
    "--timeout",
    metavar="MS",
    type=int,
    is_flag=False,
    flag_value=TIMEOUT_MS,
    default=TIMEOUT_MS,
    show_default=True,
    help="Give up when no record came for so long.",
)
@click.option(
    "--reporting-interval", metavar="MS", type=int, default=5000, show_default=True, help="Print progress this often."
)
@click.option(
    "--date-format",
    metavar="PATTERN",
    default="yyyy-MM-dd HH:mm:ss:SSS",
    show_default=True,
    help="How times are written, as Java's SimpleDateFormat has it.",
)
@click.option("--hide-header", is_flag=True, help="Leave the names of the columns out.")
@output_option
@version_option
def command(bootstrap_server: str, with_metrics: bool, output: str, **options: Any) -> None:
    """Measure how fast records are read.

    \b
    ottla consumer-perf-test --topic t --num-records 1000000
    """
    plan = read_plan(**options, as_json=output == "json")
    settings = read_consumer_settings(bootstrap_server, **options)
    if not plan.hide_header and not plan.as_json:
        begin = "time, threadId" if plan.show_detailed_stats else "start.time, end.time"
        click.echo(", ".join([begin, *COLUMNS]))
    from ottla.client.quiet import quiet_client

    with quiet_client():
        from ottla.client import Consumer

        with Consumer[bytes, bytes](settings) as consumer:
            Reading(plan).run(consumer)
            if with_metrics:
                print_metrics(consumer.metrics(), as_json=plan.as_json)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to read, and what to tell of it."""

    topics: list[str] | re.Pattern[str]
    num_records: int
    timeout_ms: int
    reporting_interval: int
    date_format: DateFormat
    show_detailed_stats: bool
    hide_header: bool
    as_json: bool


def read_plan(
    *,
    topic: str | None,
    include: str | None,
    num_records: int | None,
    messages: int | None,
    timeout: int,
    reporting_interval: int,
    date_format: str,
    show_detailed_stats: bool,
    hide_header: bool,
    as_json: bool,
    command_config: str | None,
    consumer_config: str | None,
    **others: object,
) -> Plan:
    """The plan, once nothing of it contradicts itself."""
    if (topic is None) == (include is None):
        raise Refused("Exactly one of the following arguments is required: [topic], [include]")
    wanted = [count for count in (messages, num_records) if count is not None]
    if len(wanted) != 1:
        raise Refused("Exactly one of the following arguments is required: [messages], [num-records]")
    if consumer_config is not None and command_config is not None:
        raise Refused('Option "[consumer.config]" can\'t be used with option "[command-config]"')
    if messages is not None:
        click.echo("Warning: --messages is deprecated. Use --num-records instead.", err=as_json)
    if consumer_config is not None:
        click.echo("Warning: --consumer.config is deprecated. Use --command-config instead.", err=as_json)
    if reporting_interval <= 0:
        raise Refused("Reporting interval must be greater than 0.")
    try:
        topics = [topic] if topic is not None else re.compile(include or "")
    except re.error as error:
        raise Refused(f"{include} is no regular expression: {error}") from None
    try:
        dates = DateFormat(date_format)
    except ValueError as error:
        raise Refused(str(error)) from None
    return Plan(
        topics=topics,
        num_records=wanted[0],
        timeout_ms=timeout,
        reporting_interval=reporting_interval,
        date_format=dates,
        show_detailed_stats=show_detailed_stats,
        hide_header=hide_header,
        as_json=as_json,
    )


def read_consumer_settings(
    bootstrap_server: str,
    *,
    group: str | None,
    from_latest: bool,
    fetch_size: int,
    socket_buffer_size: int,
    command_property: tuple[str, ...],
    command_config: str | None,
    consumer_config: str | None,
    **others: object,
) -> dict[str, object]:
    """The consumer's settings: those of the file, then those of the line, then what options say."""
    from ottla.client.config import FIRST_CONTACT

    if group is None:
        from random import randrange

        group = f"perf-consumer-{randrange(100_000)}"
    settings: dict[str, object] = {
        **FIRST_CONTACT,
        "client.id": CLIENT_ID,
        **read_settings_file(command_config or consumer_config),
        **read_properties(command_property),
        "bootstrap.servers": bootstrap_server,
        "group.id": group,
        "receive.buffer.bytes": socket_buffer_size,
        "max.partition.fetch.bytes": fetch_size,
        "auto.offset.reset": "latest" if from_latest else "earliest",
        "check.crcs": False,
    }
    for name in ("key.deserializer", "value.deserializer"):
        settings.pop(name, None)  # nobody looks into the records
    return settings


class Reading:
    """What was read, in all and since the last report. Times are milliseconds since the epoch."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.records = self.bytes = 0
        self.started_ms = self._report_ms = self._join_began_ms = now_ms()
        self._report_records = self._report_bytes = 0
        self.join_ms = self._report_join_ms = 0.0
        self._assigned: set[TopicPartition] = set()

    def run(self, consumer: Consumer[bytes, bytes]) -> None:
        """Read until it is enough or nothing comes any more, and print how that went."""
        plan = self._plan
        consumer.subscribe(plan.topics, on_assigned=self._on_assigned, on_revoked=self._on_revoked)
        at_ms = last_ms = now_ms()
        while self.records < plan.num_records and at_ms - last_ms <= plan.timeout_ms:
            records = consumer.poll(POLL_S)
            at_ms = now_ms()
            if not records:
                continue
            last_ms = at_ms
            self.records += len(records)
            self.bytes += size_of(records)
            if at_ms - self._report_ms >= plan.reporting_interval:
                self._report(at_ms)
        if self.records < plan.num_records:
            click.echo(
                "WARNING: Exiting before consuming the expected number of records: timeout "
                f"({plan.timeout_ms} ms) exceeded. You can use the --timeout option to increase the timeout.",
                err=plan.as_json,
            )
        if not plan.show_detailed_stats:
            self._print_total(now_ms())

    # Rebalances: what is read is measured with and without the time until there was something to read

    def _on_revoked(self, partitions: list[TopicPartition]) -> None:
        self._assigned.difference_update(partitions)
        if not self._assigned:
            self._join_began_ms = now_ms()

    def _on_assigned(self, partitions: list[TopicPartition]) -> None:
        if not self._assigned:
            elapsed_ms = now_ms() - self._join_began_ms
            self.join_ms += elapsed_ms
            self._report_join_ms += elapsed_ms
        self._assigned.update(partitions)

    # Output

    def _report(self, at_ms: float) -> None:
        """A line about the time since the last one."""
        if self._plan.show_detailed_stats:
            self._print(
                [at_ms],
                at_ms - self._report_ms,
                self.bytes - self._report_bytes,
                self.records - self._report_records,
                self._report_join_ms,
            )
        self._report_join_ms = 0
        self._report_ms, self._report_records, self._report_bytes = at_ms, self.records, self.bytes

    def _print_total(self, at_ms: float) -> None:
        self._print([self.started_ms, at_ms], at_ms - self.started_ms, self.bytes, self.records, self.join_ms)

    def _print(self, times: list[float], elapsed_ms: float, size: int, records: int, join_ms: float) -> None:
        """One row: so much was read by now, and this of it in `elapsed_ms`, `join_ms` of which a rebalance took."""
        mb, fetch_ms = size / MIB, elapsed_ms - join_ms
        is_progress = len(times) == 1
        if is_progress and fetch_ms <= 0:
            fetch_mb_s = fetch_records_s = 0.0
        else:
            fetch_mb_s, fetch_records_s = ratio(mb, fetch_ms / 1000), ratio(records, fetch_ms / 1000)
        numbers: list[float] = [
            self.bytes / MIB, ratio(mb, elapsed_ms / 1000), self.records, ratio(records, elapsed_ms / 1000),
            int(join_ms), int(fetch_ms), fetch_mb_s, fetch_records_s,
        ]  # fmt: skip
        dates = [self._plan.date_format.format(one) for one in times]
        if self._plan.as_json:
            names = ["time"] if is_progress else ["start.time", "end.time"]
            row = dict(zip(COLUMNS, map(json_number, numbers), strict=True))
            print_json({**dict(zip(names, dates, strict=True)), **row})
            return
        begin = [dates[0], "0"] if is_progress else dates
        click.echo(", ".join([*begin, *(str(one) if isinstance(one, int) else java_number(one, 4) for one in numbers)]))


def now_ms() -> float:
    return time.time() * 1000


def size_of(records: list[ConsumerRecord[bytes, bytes]]) -> int:
    """The bytes of keys and values; what is null has none."""
    return sum(map(len, filter(None, map(KEY, records)))) + sum(map(len, filter(None, map(VALUE, records))))


KEY, VALUE = itemgetter(5), itemgetter(6)
"""`key` and `value` of a `ConsumerRecord`, which is a tuple."""
