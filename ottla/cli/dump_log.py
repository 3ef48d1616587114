"""`ottla dump-log`: what the files of a log directory hold, in the words of Kafka's `kafka-dump-log`.

The options are Kafka's, and so is the output, line by line; `--output json` is for scripts. Where Kafka's tool ends
with a stack trace, this one says in a line what is wrong and goes on; the exit code is then 1.
"""

from __future__ import annotations

import sys

import click

from ottla import __version__
from ottla.cli.dump.options import INT_MAX, MAX_MESSAGE_SIZE, STRING_DECODER, DumpOptions


class BadOption(click.ClickException):
    """A command line that cannot be followed: told in one line, with the exit code of Kafka's tools."""

    exit_code = 1


class DumpLogCommand(click.Command):
    """A command that answers a mistake with one line."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise BadOption(f"{error.format_message()} See `ottla dump-log --help`.") from None


@click.command(cls=DumpLogCommand)
@click.option(
    "--files",
    required=True,
    multiple=True,
    metavar="FILE1,FILE2,...",
    help="The files to dump, with commas between them.",
)
@click.option("--print-data-log", is_flag=True, help="Show keys and values of records. Implied by every decoder.")
@click.option("--deep-iteration", is_flag=True, help="Show records and not only batches. Implied by --print-data-log.")
@click.option(
    "--skip-record-metadata", is_flag=True, help="Of a record show key and value only; of control records, nothing."
)
@click.option(
    "--max-bytes",
    type=click.IntRange(0, INT_MAX),
    default=INT_MAX,
    metavar="SIZE",
    help="Read no more than the first SIZE bytes of each log file.",
)
@click.option(
    "--max-message-size",
    type=click.IntRange(0, INT_MAX),
    default=MAX_MESSAGE_SIZE,
    metavar="SIZE",
    show_default=True,
    help="The largest batch that an index entry may point at.",
)
@click.option("--verify-index-only", is_flag=True, help="Hold an index against its log without showing its entries.")
@click.option(
    "--index-sanity-check",
    is_flag=True,
    help="Only make the check with which a broker decides, when it starts, whether to rebuild an index.",
)
@click.option(
    "--key-decoder-class",
    is_flag=False,
    flag_value=STRING_DECODER,
    metavar="[CLASS]",
    help="Show keys as StringDecoder, LongDecoder, IntegerDecoder or DefaultDecoder of org.apache.kafka.tools.api do. "
    f"Default: {STRING_DECODER}.",
)
@click.option(
    "--value-decoder-class",
    is_flag=False,
    flag_value=STRING_DECODER,
    metavar="[CLASS]",
    help="The same for values.",
)
@click.option("--offsets-decoder", is_flag=True, help="Decode records of __consumer_offsets.")
@click.option("--transaction-log-decoder", is_flag=True, help="Decode records of __transaction_state.")
@click.option("--cluster-metadata-decoder", is_flag=True, help="Decode records of the cluster's metadata log.")
@click.option("--remote-log-metadata-decoder", is_flag=True, help="Decode records of __remote_log_metadata.")
@click.option("--share-group-state-decoder", is_flag=True, help="Decode records of __share_group_state.")
@click.option(
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Kafka's text, or one JSON object a line under the same names.",
)
@click.version_option(__version__, message="%(version)s", help="Show the version.")
def command(
    files: tuple[str, ...],
    print_data_log: bool,
    deep_iteration: bool,
    skip_record_metadata: bool,
    max_bytes: int,
    max_message_size: int,
    verify_index_only: bool,
    index_sanity_check: bool,
    key_decoder_class: str | None,
    value_decoder_class: str | None,
    offsets_decoder: bool,
    transaction_log_decoder: bool,
    cluster_metadata_decoder: bool,
    remote_log_metadata_decoder: bool,
    share_group_state_decoder: bool,
    output: str,
) -> None:
    """Print what the files of a log directory hold: log segments (.log), their indexes (.index, .timeindex, .txnindex),
    producer snapshots (.snapshot) and metadata snapshots (.checkpoint).

    The options and the output are those of Kafka's kafka-dump-log. The files are only read.

    \b
    ottla dump-log --files data/orders-0/00000000000000000000.log --print-data-log
    ottla dump-log --files data/__consumer_offsets-3/00000000000000000000.log --offsets-decoder
    """
    # Loaded here and not above: `--help` and a mistake are answered without them.
    from ottla.cli.dump.decoders import record_decoder
    from ottla.cli.dump.dump import dump_files
    from ottla.cli.dump.findings import Findings
    from ottla.cli.dump.printer import Printer

    topics = {
        "offsets": offsets_decoder,
        "transactions": transaction_log_decoder,
        "metadata": cluster_metadata_decoder,
        "remote-log": remote_log_metadata_decoder,
        "share-state": share_group_state_decoder,
    }
    # The first one counts, as in Kafka's tool.
    topic = next((topic for topic, is_chosen in topics.items() if is_chosen), None)
    is_printing = bool(print_data_log or topic or key_decoder_class or value_decoder_class)
    try:
        decoder = record_decoder(topic, key_decoder_class or STRING_DECODER, value_decoder_class or STRING_DECODER)
    except ValueError as error:
        raise BadOption(str(error)) from None
    options = DumpOptions(
        is_deep=deep_iteration or is_printing,
        decoder=decoder if is_printing else None,
        skip_record_metadata=skip_record_metadata,
        max_bytes=max_bytes,
        max_message_size=max_message_size,
        verify_index_only=verify_index_only,
        index_sanity_check=index_sanity_check,
    )
    printer = Printer(sys.stdout.buffer, sys.stderr.buffer, is_json=output == "json")
    findings = Findings()
    paths = [path for given in files for path in given.split(",") if path]
    for name, row in dump_files(paths, options, findings):
        printer.show(name.path, row)
    for path, row in findings.rows():
        printer.show_finding(path, row)
    printer.flush()
    if printer.has_failed:
        sys.exit(1)
