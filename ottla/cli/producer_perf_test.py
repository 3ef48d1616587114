"""`ottla producer-perf-test`: how fast records are written, with the options and lines of `kafka-producer-perf-test`.

Records are made before the clock starts, and what is counted is counted once a batch: the figures are the producer's,
not the tool's. A record's latency runs from the call of `send` to the moment its batch was acknowledged.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.perf import Latencies, Underway, flush_and, paced, print_metrics, read_properties
from ottla.cli.tool import (
    BOOTSTRAP_SERVER,
    Refused,
    Tool,
    complete_topics,
    java_text,
    output_option,
    read_settings_file,
    version_option,
)

if TYPE_CHECKING:
    from ottla.client import Producer
    from ottla.client.producer.batch import ProducerBatch
    from ottla.errors import KafkaError

CLIENT_ID = "perf-producer-client"
TRANSACTION_DURATION_MS = 3000
SEED = 0
PAYLOAD_POOL_BYTES = 4 * 1024 * 1024
PAYLOAD_POOL_COUNT = 65_536
"""So many different payloads are made, of at most that size together: more than a batch holds, so that compression
finds no more in it than in random letters."""
MANY_VALUES = ("--command-property", "--producer-props")


class PerfTool(Tool):
    """A tool two of whose options take all the words up to the next option, as Kafka's do."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, spread(args, MANY_VALUES))


def spread(args: list[str], names: tuple[str, ...]) -> list[str]:
    """`--x a b` as `--x a --x b`, for the options of these names."""
    found: list[str] = []
    name = ""
    for word in args:
        if word.startswith("--"):
            name = word if word in names else ""
            found.append(word)
        elif name and found[-1] != name:
            found += [name, word]
        else:
            found.append(word)
    return found


@click.command(cls=PerfTool)
@click.option(
    "--bootstrap-server",
    metavar="HOST:PORT,...",
    help=f"The brokers to connect to; goes before bootstrap.servers of the settings. [default: {BOOTSTRAP_SERVER}]",
)
@click.option("--topic", metavar="TOPIC", required=True, shell_complete=complete_topics, help="Write to this topic.")
@click.option("--num-records", metavar="COUNT", type=int, required=True, help="How many records to write.")
@click.option("--record-size", metavar="BYTES", type=int, help="Write random capital letters, so many a record.")
@click.option("--payload-file", metavar="FILE", type=click.Path(), help="Write payloads of this UTF-8 file, by chance.")
@click.option("--payload-monotonic", is_flag=True, help="Write 0, 1, 2 and so on.")
@click.option(
    "--payload-delimiter",
    metavar="REGEX",
    default="\\n",
    show_default="new line",
    help="What is between the payloads of --payload-file.",
)
@click.option(
    "--throughput",
    metavar="RATE",
    type=float,
    required=True,
    help="Write about so many records a second; -1 for as fast as it goes.",
)
@click.option(
    "--command-property",
    metavar="NAME=VALUE...",
    multiple=True,
    help="Settings for the producer, such as linger.ms=10 batch.size=32768; go before --command-config.",
)
@click.option("--producer-props", metavar="NAME=VALUE...", multiple=True, help="The old name of --command-property.")
@click.option("--command-config", metavar="FILE", type=click.Path(), help="Settings for the producer, a property file.")
@click.option(
    "--producer.config", "producer_config", metavar="FILE", type=click.Path(), help="The old name of --command-config."
)
@click.option("--print-metrics", "with_metrics", is_flag=True, help="Print the producer's metrics at the end.")
@click.option(
    "--transactional-id",
    metavar="ID",
    help="Write in transactions. [default: of the settings, or performance-producer- and something random]",
)
@click.option(
    "--transaction-duration-ms",
    metavar="MS",
    type=int,
    help=f"Write in transactions that take so long. [default: {TRANSACTION_DURATION_MS}]",
)
@click.option(
    "--warmup-records",
    metavar="COUNT",
    type=int,
    default=0,
    show_default=True,
    help="Leave the first records out of a second, steady-state summary.",
)
@click.option(
    "--reporting-interval",
    metavar="MS",
    type=int,
    default=5000,
    show_default=True,
    help="Print progress this often.",
)
@output_option
@version_option
def command(bootstrap_server: str | None, with_metrics: bool, output: str, **options: Any) -> None:
    """Measure how fast records are written.

    \b
    ottla producer-perf-test --topic t --num-records 1000000 --record-size 100 --throughput -1
    """
    plan = read_plan(**options, as_json=output == "json")
    settings = read_producer_settings(bootstrap_server, plan, **options)
    values = payloads(plan)
    from ottla.client.quiet import quiet_client

    with quiet_client():
        from ottla.client import Producer

        producer = Producer(settings)
        try:
            run(producer, plan, values)
            if with_metrics:
                print_metrics(producer.metrics(), as_json=plan.as_json)
        except BaseException:
            producer.close(0)  # interrupted or failed: what is left is of no use
            raise
        producer.close()


@dataclass(frozen=True, slots=True)
class Plan:
    """What to write, how fast, and what to tell of it."""

    topic: str
    num_records: int
    record_size: int | None
    payload_file: str | None
    payload_delimiter: str
    throughput: float
    transactional_id: str | None
    transaction_duration_ms: int | None
    warmup_records: int
    reporting_interval: int
    as_json: bool


def read_plan(
    *,
    topic: str,
    num_records: int,
    record_size: int | None,
    payload_file: str | None,
    payload_monotonic: bool,
    payload_delimiter: str,
    throughput: float,
    transactional_id: str | None,
    transaction_duration_ms: int | None,
    warmup_records: int,
    reporting_interval: int,
    as_json: bool,
    command_property: tuple[str, ...],
    producer_props: tuple[str, ...],
    command_config: str | None,
    producer_config: str | None,
) -> Plan:
    """The plan, once nothing of it contradicts itself."""
    given = {
        "--record-size": record_size is not None,
        "--payload-file": payload_file is not None,
        "--payload-monotonic": payload_monotonic,
    }
    chosen = [name for name, is_given in given.items() if is_given]
    if not chosen:
        raise Refused(f"one of the arguments {' '.join(given)} is required")
    if len(chosen) > 1:
        raise Refused(f"argument {chosen[1]}: not allowed with argument {chosen[0]}")
    if num_records <= 0:
        raise Refused("--num-records should be greater than zero.")
    if warmup_records >= num_records:
        raise Refused(
            "The value for --warmup-records must be strictly fewer than the number of records in the test, "
            "--num-records."
        )
    if record_size is not None and record_size <= 0:
        raise Refused("--record-size should be greater than zero.")
    if command_property and producer_props:
        raise Refused("--command-property and --producer-props cannot be specified together.")
    if command_config is not None and producer_config is not None:
        raise Refused("--command-config and --producer.config cannot be specified together.")
    if transaction_duration_ms is not None and transaction_duration_ms <= 0:
        raise Refused("--transaction-duration-ms should be greater than zero.")
    if reporting_interval <= 0:
        raise Refused("--reporting-interval should be greater than zero.")
    return Plan(
        topic=topic,
        num_records=num_records,
        record_size=record_size,
        payload_file=payload_file,
        payload_delimiter="\n" if payload_delimiter == "\\n" else payload_delimiter,
        throughput=throughput,
        transactional_id=transactional_id,
        transaction_duration_ms=transaction_duration_ms,
        warmup_records=max(warmup_records, 0),
        reporting_interval=reporting_interval,
        as_json=as_json,
    )


def read_producer_settings(
    bootstrap_server: str | None,
    plan: Plan,
    *,
    command_property: tuple[str, ...],
    producer_props: tuple[str, ...],
    command_config: str | None,
    producer_config: str | None,
    **others: object,
) -> dict[str, object]:
    """The producer's settings: those of the file, then those of the line, then what options say."""
    from ottla.client.config import FIRST_CONTACT

    for is_old, old, new in (
        (producer_props, "--producer-props", "--command-property"),
        (producer_config, "--producer.config", "--command-config"),
    ):
        if is_old:
            click.echo(
                f"Option {old} has been deprecated and will be removed in a future version. Use {new} instead.",
                err=plan.as_json,
            )
    settings: dict[str, object] = {
        **FIRST_CONTACT,
        "bootstrap.servers": BOOTSTRAP_SERVER,
        "client.id": CLIENT_ID,
        **read_settings_file(command_config or producer_config),
        **read_properties(command_property or producer_props),
    }
    for name in ("key.serializer", "value.serializer"):
        settings.pop(name, None)  # payloads are bytes
    if bootstrap_server is not None:
        settings["bootstrap.servers"] = bootstrap_server
    if plan.transactional_id is not None:
        settings["transactional.id"] = plan.transactional_id
    elif plan.transaction_duration_ms is not None and "transactional.id" not in settings:
        from uuid import uuid4

        settings["transactional.id"] = f"performance-producer-{uuid4()}"
    return settings


# Payloads


def payloads(plan: Plan) -> Iterator[bytes]:
    """What the records hold, without end."""
    if plan.payload_file is not None:
        return _chosen(read_payload_file(plan.payload_file, plan.payload_delimiter, is_quiet=plan.as_json))
    if plan.record_size is not None:
        return itertools.cycle(random_payloads(plan.record_size, plan.num_records))
    return map(b"%d".__mod__, itertools.count())


def random_payloads(size: int, count_max: int) -> list[bytes]:
    """Different payloads of random capital letters."""
    from random import Random

    letters = bytes(65 + code % 26 for code in range(256))
    count = max(1, min(PAYLOAD_POOL_BYTES // size, PAYLOAD_POOL_COUNT, count_max))
    pool = Random(SEED).randbytes(size * count).translate(letters)
    return [pool[start : start + size] for start in range(0, size * count, size)]


def read_payload_file(path: str, delimiter: str, *, is_quiet: bool = False) -> list[bytes]:
    """The payloads of a file."""
    import os

    click.echo(f"Reading payloads from: {os.path.abspath(path)}", err=is_quiet)
    try:
        with open(path, encoding="utf-8", newline="") as file:
            text = file.read()
    except FileNotFoundError:
        text = ""
    except OSError as error:
        raise Refused(f"Cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Refused(f"Cannot read {path}: it is not UTF-8") from None
    if not text:
        raise Refused("File does not exist or empty file provided.")
    found = split_payloads(text, delimiter)
    click.echo(f"Number of records read: {len(found)}", err=is_quiet)
    if not found:
        raise Refused(f"There is no payload in {path}, nothing but delimiters.")
    return found


def split_payloads(text: str, delimiter: str) -> list[bytes]:
    """What is between delimiters, which are a regular expression, as Java's `Scanner` finds it: one at the very start
    or the very end has nothing on its other side, two in a row have an empty payload between them."""
    import re

    try:
        found = [match.span() for match in re.finditer(delimiter, text) if match.group()]
    except re.error as error:
        raise Refused(f"{delimiter} is no regular expression: {error}") from None
    starts = [0, *(end for _, end in found)]
    ends = [*(start for start, _ in found), len(text)]
    spans = list(zip(starts, ends, strict=True))
    if spans[0] == (0, 0):
        del spans[0]
    if spans and spans[-1][0] == len(text):
        del spans[-1]
    return [text[start:end].encode() for start, end in spans]


def _chosen(found: list[bytes]) -> Iterator[bytes]:
    from random import Random

    random = Random(SEED)
    while True:
        yield from random.choices(found, k=1024)


# The run


def run(producer: Producer, plan: Plan, values: Iterator[bytes]) -> None:
    """Write the records and print how that went."""
    is_transactional = bool(producer.config.transactional_id)
    if is_transactional:
        producer.init_transactions()
    if plan.warmup_records and not plan.as_json:
        click.echo(
            f"Warmup first {plan.warmup_records} records. "
            "Steady state results will print after the complete test summary."
        )
    sent = Sent(plan)
    duration_s = (plan.transaction_duration_ms or TRANSACTION_DURATION_MS) / 1000
    in_transaction = False
    began_s = 0.0
    left = plan.num_records
    for allowed in paced(plan.throughput, sent.started_s):
        if allowed:
            if is_transactional and not in_transaction:
                producer.begin_transaction()
                in_transaction, began_s = True, time.time()
            until_steady = plan.warmup_records - (plan.num_records - left)
            count = min(allowed, left, until_steady if until_steady > 0 else left)
            sent.burst(producer, itertools.islice(values, count))
            left -= count
            if count == until_steady:
                sent.begin_steady(left)
            if in_transaction and time.time() - began_s >= duration_s:
                producer.commit_transaction()
                in_transaction = False
        sent.look()
        if not left:
            break
    if in_transaction:
        producer.commit_transaction()
    flush_and(producer, sent.look)
    sent.print_total()


class Notes:
    """When each record of a batch was sent, and how large it is."""

    __slots__ = ("sizes", "started_s")

    def __init__(self) -> None:
        self.started_s: list[float] = []
        self.sizes: list[int] = []


class Sent:
    """The records that were sent, and what is known of them."""

    def __init__(self, plan: Plan) -> None:
        self.started_s = time.time()
        self._plan = plan
        self._underway = Underway(Notes)
        self._all = Latencies(plan.num_records, plan.reporting_interval, self.started_s, as_json=plan.as_json)
        self._steady: Latencies | None = None
        self._warm: dict[ProducerBatch, int] = {}
        """How many records of a batch were sent before the steady state."""

    def burst(self, producer: Producer, values: Iterator[bytes]) -> None:
        """Send these one after the other. This is the loop whose speed is measured: a callback for each record would
        more than double its cost."""
        send, topic, now_s = producer.send, self._plan.topic, time.time
        batch: ProducerBatch | None = None
        for value in values:
            started_s = now_s()
            delivery = send(topic, value)
            if delivery[0] is not batch:
                batch = delivery[0]
                notes = self._underway.notes_of(delivery)
                note_start, note_size = notes.started_s.append, notes.sizes.append
            note_start(started_s)
            note_size(len(value))

    def begin_steady(self, left: int) -> None:
        """What is sent from here on counts as steady state too, and progress tells of that alone."""
        self._warm = {batch: len(notes.sizes) for batch, notes in self._underway.all().items()}
        self._all.is_quiet = True
        self._steady = Latencies(
            left, self._plan.reporting_interval, time.time(), is_steady=True, as_json=self._plan.as_json
        )

    def look(self) -> None:
        """Count what has arrived since, and tell of it when it is time."""
        for arrived in self._underway.arrived():
            started_s, sizes = arrived.notes.started_s, arrived.notes.sizes
            warm = self._warm.pop(arrived.batch, 0)
            failures = arrived.failures(len(sizes))
            if failures:
                tell_failures(failures)
                warm -= sum(1 for index in failures if index < warm)
                started_s = [one for index, one in enumerate(started_s) if index not in failures]
                sizes = [one for index, one in enumerate(sizes) if index not in failures]
            self._all.record(started_s, sum(sizes), arrived.at_s)
            if self._steady is not None:
                self._steady.record(started_s[warm:], sum(sizes[warm:]), arrived.at_s)
        now_s = time.time()
        self._all.report(now_s)
        if self._steady is not None:
            self._steady.report(now_s)

    def print_total(self) -> None:
        """The summary."""
        now_s = time.time()
        self._all.print_total(now_s)
        if self._steady is not None:
            self._steady.print_total(now_s)


def tell_failures(failures: dict[int, KafkaError]) -> None:
    """Why records were not written: a line for each reason, and not for each record."""
    reasons: dict[str, int] = {}
    for error in failures.values():
        text = java_text(error)
        reasons[text] = reasons.get(text, 0) + 1
    for text, count in reasons.items():
        click.echo(f"{count} records failed: {text}", err=True)
