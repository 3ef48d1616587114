"""`ottla pipeline`: run pipelines of YAML and Python files, look at those that run, and stop them.

Promises: only `run` loads Spark, and only a file with SQL makes `validate` start Spark's parser; everything else
answers at once. What is wrong with a file is a line each, with the file and the line in front, as compilers write it. A
pipeline that fails, or a name that is not there, is one line and exit code 1. Ctrl-C, SIGTERM and `stop` all end a run
after the micro-batch that is being written.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ottla.cli import pipeline_plan, pipeline_reset, pipeline_serve
from ottla.cli.tool import Refused, Tool, output_option, print_json

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ottla.pipelines.connect.progress import Batch
    from ottla.pipelines.connect.spec import Pipeline
    from ottla.pipelines.connect.state import Home, SinkState, State

STOP_S = 300
LOOK_S = 0.1


class PipelineTool(Tool):
    """A tool whose files and runs can be wrong in ways of their own, each of which is a line."""

    def invoke(self, ctx: click.Context) -> Any:
        from ottla.pipelines.errors import PipelineError

        try:
            return super().invoke(ctx)
        except PipelineError as error:
            raise Refused(str(error)) from None


class Tools(click.Group):
    """The subcommands; a word that is none of them is one line."""

    command_class = PipelineTool

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.commands, 1)
            hint = (
                f"did you mean `ottla pipeline {near[0]}`?" if near else "`ottla pipeline --help` lists what there is."
            )
            raise Refused(f"ottla pipeline: there is no command {args[0]}: {hint}")
        return super().resolve_command(ctx, args)


@click.group(name="pipeline", cls=Tools)
def command() -> None:
    """Move records between topics, files, databases and clusters, by a file that says how."""


command.command(name="plan")(pipeline_plan.plan)
command.command(name="serve")(pipeline_serve.serve)


def complete_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Pipelines that were run here."""
    from click.shell_completion import CompletionItem

    from ottla.pipelines.connect.state import homes

    return [CompletionItem(home.name) for home in homes() if home.name.startswith(incomplete)]


@command.command()
@click.argument("file", type=click.Path())
@click.option("--master", metavar="ADDRESS", help="The Spark to run on: local[*], spark://host:port, yarn, k8s://...")
@click.option("--once", is_flag=True, help="Write what there is by now, and end.")
@click.option("--quiet", is_flag=True, help="Say nothing of the progress.")
@click.option(
    "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How progress is told."
)
def run(file: str, master: str | None, once: bool, quiet: bool, output: str) -> None:
    """Run the pipeline that FILE describes, until it is stopped."""
    from ottla.pipelines.connect import load
    from ottla.pipelines.connect.runner import PipelineFailed
    from ottla.pipelines.connect.runner import run as run_pipeline
    from ottla.pipelines.connect.state import Home

    pipeline = load(file)
    home = Home(pipeline.name)
    asked = _Asked()
    screen = _Screen(pipeline, output=output, is_quiet=quiet)
    screen.begin()
    try:
        state = run_pipeline(
            pipeline,
            master=master,
            once=once,
            home=home,
            file=file,
            on_batch=screen.batch,
            on_ready=screen.ready,
            is_asked_to_stop=asked,
        )
    except PipelineFailed:
        click.echo(f"All that was said of this failure is in {home.failure}", err=True)
        raise
    screen.end(state)


@command.command()
@click.argument("file", type=click.Path())
@output_option
def validate(file: str, output: str) -> None:
    """Say what is wrong with FILE, without running it."""
    from ottla.pipelines.connect import SpecError, load

    try:
        pipeline = load(file)
        _check_sql(pipeline)
    except SpecError as error:
        if output == "json":
            print_json({"valid": False, "problems": [asdict(problem) for problem in error.problems]})
            sys.exit(1)
        raise
    if output == "json":
        print_json({"valid": True, "name": pipeline.name, "problems": []})
    else:
        click.echo(f"{file}: {pipeline.name} is right: {_path(pipeline)}")


def _check_sql(pipeline: Pipeline) -> None:
    from ottla.pipelines.connect.sql_check import check
    from ottla.pipelines.errors import MissingDependency

    def note(count: int) -> None:
        texts = "one text" if count == 1 else f"{count} texts"
        click.echo(f"Spark's parser is started to check {texts} of SQL ...", err=True)

    try:
        check(pipeline, note)
    except MissingDependency as missing:
        click.echo(f"The SQL of the file was not checked: {missing}", err=True)


@command.command(name="list")
@output_option
def list_(output: str) -> None:
    """List the pipelines that were run here."""
    from ottla.pipelines.connect.state import homes

    states = [state for home in homes() if (state := home.read()) is not None]
    if output == "json":
        print_json([_as_json(state) for state in states])
        return
    if not states:
        click.echo("No pipeline was run here yet.")
        return
    rows = [[state.name, state.status, f"{state.source} -> {state.sink}", state.file] for state in states]
    _print_table(["NAME", "STATUS", "PATH", "FILE"], rows)


@command.command()
@click.argument("name", required=False, shell_complete=complete_names)
@output_option
def status(name: str | None, output: str) -> None:
    """Show how the pipeline NAME does, or all of them."""
    from ottla.pipelines.connect.state import homes

    chosen = homes() if name is None else [_home(name)]
    states = [state for home in chosen if (state := home.read()) is not None]
    if output == "json":
        print_json([_as_json(state) for state in states] if name is None else _as_json(states[0]))
        return
    if not states:
        click.echo("No pipeline was run here yet.")
        return
    _print_table(
        ["NAME", "STATUS", "PID", "BATCH", "RECORDS", "BAD", "IN/S", "OUT/S", "LAG", "BATCH-MS", "AGE"],
        [row for state in states for row in (_row(state), *_sink_rows(state))],
    )
    for state in states:
        if state.error:
            click.echo(f"{state.name}: {state.error}")


@command.command()
@click.argument("name", shell_complete=complete_names)
@click.option("--timeout", default=STOP_S, show_default=True, help="Seconds to wait for the end; 0 does not wait.")
def stop(name: str, timeout: int) -> None:
    """Stop the pipeline NAME after the micro-batch that is being written."""
    home = _home(name)
    home.ask_to_stop()
    deadline = time.monotonic() + timeout
    while home.is_running:
        if timeout == 0:
            click.echo(f"{name} was asked to stop.")
            return
        if time.monotonic() > deadline:
            raise Refused(f"{name} did not stop within {timeout} seconds; it has been asked to")
        time.sleep(LOOK_S)
    click.echo(f"{name} has stopped.")


@command.command()
@click.argument("name", shell_complete=complete_names)
@click.option("--yes", is_flag=True, help="Do not ask.")
def reset(name: str, yes: bool) -> None:
    """Take the pipeline NAME back to its beginning: its checkpoint, and what its sink remembers."""
    pipeline_reset.reset(_home(name), yes=yes)


@command.command()
@click.argument("name", shell_complete=complete_names)
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(name: str, yes: bool) -> None:
    """Reset the pipeline NAME, and forget it."""
    pipeline_reset.delete(_home(name), yes=yes)


def _home(name: str) -> Home:
    from difflib import get_close_matches

    from ottla.pipelines.connect.state import Home, homes

    known = [home.name for home in homes()]
    if name not in known:
        near = get_close_matches(name, known, 1)
        raise Refused(f"there is no pipeline {name}" + (f": did you mean {near[0]}?" if near else " that was run here"))
    return Home(name)


class _Asked:
    """Whether a signal has asked for the end; a second one does not wait for it."""

    def __init__(self) -> None:
        self._is_asked = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)

    def _note(self, number: int, frame: object) -> None:
        if self._is_asked:
            raise KeyboardInterrupt
        self._is_asked = True
        click.echo("stopping after the micro-batch that runs; once more to stop now", err=True)

    def __call__(self) -> bool:
        return self._is_asked


class _Screen:
    """The progress of a run: one line that changes on a terminal, a line a micro-batch elsewhere."""

    def __init__(self, pipeline: Pipeline, *, output: str, is_quiet: bool) -> None:
        self._pipeline = pipeline
        self._is_json = output == "json"
        self._is_quiet = is_quiet
        self._is_terminal = sys.stdout.isatty() and not self._is_json
        self._records = 0

    def begin(self) -> None:
        self._say(f"{self._pipeline.name}: {_path(self._pipeline)}")

    def ready(self, address: str) -> None:
        if self._is_json:
            self._json({"event": "listening", "address": address})
        else:
            self._say(f"{self._pipeline.name}: records are taken at {address}")

    def batch(self, batch: Batch) -> None:
        self._records += batch.records
        if self._is_json:
            self._json({"event": "batch", **asdict(batch)})
        elif self._is_terminal and not self._is_quiet:
            # Back to the line's beginning, and what is left of a longer one is cleared.
            click.echo(f"\r{batch.line} | {self._records:,} in all\x1b[K", nl=False)
        else:
            self._say(batch.line)

    def end(self, state: State) -> None:
        if self._is_terminal and not self._is_quiet and self._records:
            click.echo()
        if self._is_json:
            self._json({"event": "end", **_as_json(state)})
        else:
            bad = f", {state.bad:,} of them bad" if state.bad else ""
            self._say(f"{state.name}: {state.status} after {state.records:,} records{bad}")

    def _json(self, value: object) -> None:
        if not self._is_quiet:
            print_json(value)
            sys.stdout.flush()

    def _say(self, line: str) -> None:
        if not self._is_quiet and not self._is_json:
            click.echo(line)


def _path(pipeline: Pipeline) -> str:
    """`topic -> mask -> cast -> parquet`; of several `orders (topic) + customers (csv) -> sql -> parquet`."""

    def shown(role: str) -> str:
        parts = [(place, part.kind) for place, part in pipeline.placed_parts() if str(place[0]).startswith(role)]
        return " + ".join(kind if len(place) == 1 else f"{place[1]} ({kind})" for place, kind in parts)

    return " -> ".join([shown("source"), *(part.kind for part in pipeline.transforms), shown("sink")])


def _row(state: State) -> list[str]:
    is_alive = state.status in ("starting", "running", "stopping")
    return [
        state.name, state.status, str(state.pid) if is_alive else "-", *_figures(state),
        _age(time.time() - (state.started_s if is_alive else state.updated_s)),
    ]  # fmt: skip


def _sink_rows(state: State) -> list[list[str]]:
    """Of several sinks, what each did."""
    return [[f"{state.name}/{name}", "-", "-", *_figures(one), "-"] for name, one in state.sinks.items()]


def _figures(of: State | SinkState) -> list[str]:
    figures = (of.batch, of.records, of.bad, of.in_per_s, of.out_per_s, of.lag, of.batch_ms)
    return ["-" if value is None else f"{value:,.0f}" for value in figures]


def _age(seconds: float) -> str:
    """How long it runs, or has not run: `3d 4h`, `12m`, `5s`."""
    whole = max(0, int(seconds))
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days}d {hours}h"
    if hours:
        return f"{hours}h {minutes}m"
    return f"{minutes}m" if minutes else f"{whole}s"


def _as_json(state: State) -> dict[str, object]:
    return {name: value for name, value in asdict(state).items() if not name.startswith("jvm_")}


def _print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as what stands in them; figures to the right."""
    widths = [max(len(row[index]) for row in [heads, *rows]) for index in range(len(heads))]
    is_figure = [all(row[index][:1].isdigit() or row[index] == "-" for row in rows) for index in range(len(heads))]
    for row in [heads, *rows]:
        cells = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, is_figure, strict=True)
        )
        click.echo("  ".join(cells).rstrip())
