"""`ottla`, the one command: finds a subcommand's module by name and imports nothing else.

Promises: `ottla --help`, an unknown command and the completion of one answer at once, because no subcommand is imported
for them; a subcommand's `--help` and its mistakes load that one module and nothing of a client or a broker.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import click

from ottla import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# name -> (module, one line of help). The module holds a click command named `command`.
COMMANDS: dict[str, tuple[str, str]] = {
    "cluster": ("ottla.cli.cluster", "Start a cluster on this machine, a process for each node."),
    "completion": ("ottla.cli.completion", "Let the shell complete commands, topics and groups."),
    "configs": ("ottla.cli.configs", "Show and change settings of topics, brokers, groups, clients and users."),
    "console-consumer": ("ottla.cli.console_consumer", "Print the records of topics."),
    "console-producer": ("ottla.cli.console_producer", "Write lines as records."),
    "consumer-groups": ("ottla.cli.consumer_groups", "Show consumer groups, their lag, and set their offsets."),
    "consumer-perf-test": ("ottla.cli.consumer_perf_test", "Measure how fast records are read."),
    "delete-records": ("ottla.cli.delete_records", "Delete the records before an offset."),
    "dump-log": ("ottla.cli.dump_log", "Print what the files of a log directory hold."),
    "get-offsets": ("ottla.cli.get_offsets", "Show where partitions begin and end."),
    "log-dirs": ("ottla.cli.log_dirs", "Show what the log directories of brokers hold."),
    "pipeline": ("ottla.cli.pipeline", "Run pipelines between topics, files, databases and clusters."),
    "producer-perf-test": ("ottla.cli.producer_perf_test", "Measure how fast records are written."),
    "sql": ("ottla.cli.sql", "Run SQL on topics, at a prompt or from files."),
    "storage": ("ottla.cli.storage", "Format the log directories of a node and look at them."),
    "streams-application-reset": (
        "ottla.cli.streams_application_reset",
        "Take a Kafka Streams application or a topology back to its beginning.",
    ),
    "server": ("ottla.cli.server", "Run a broker, a controller, or both."),
    "topics": ("ottla.cli.topics", "Create, list, describe, grow and delete topics."),
    "up": ("ottla.cli.up", "Start a broker on this machine, ready in a moment."),
    "verifiable-consumer": ("ottla.cli.verifiable_consumer", "Read records and tell of each step as JSON."),
    "verifiable-producer": ("ottla.cli.verifiable_producer", "Write numbers and tell of each as JSON."),
    "wire": ("ottla.cli.wire", "Turn protocol bytes into JSON and back."),
}


class UnknownCommand(click.ClickException):
    """One line that names the nearest command, and exit code 1 as of Kafka's tools."""

    exit_code = 1

    def __init__(self, name: str) -> None:
        from difflib import get_close_matches

        nearest = get_close_matches(name, COMMANDS, 1)
        hint = f"did you mean `ottla {nearest[0]}`?" if nearest else "`ottla --help` lists what there is."
        super().__init__(f"ottla: there is no command {name}: {hint}")

    def show(self, file: object = None) -> None:
        click.echo(self.format_message(), err=True)


class LazyGroup(click.Group):
    """A group whose subcommands are imported on use; the list of them comes from the table."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = importlib.import_module(entry[0]).command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Commands by the table: a shell that waits for an answer does not wait for every module to be loaded."""
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=COMMANDS[name][1]) for name in sorted(COMMANDS) if name.startswith(incomplete)
        ]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise UnknownCommand(args[0])
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.command(cls=LazyGroup, invoke_without_command=True)
@click.version_option(__version__, prog_name="ottla")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Apache Kafka, rebuilt in Python."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


if __name__ == "__main__":
    main()
