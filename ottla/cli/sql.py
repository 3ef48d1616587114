"""`ottla sql`: a prompt for SQL on topics, and scripts.

Promises: Spark is loaded by the first statement that needs it, so help, mistakes, SHOW and DESCRIBE answer at once; a
mistake is one line, which at the prompt ends the statement and in a script the script, with exit code 1; Ctrl-C ends a
SELECT that runs, and not the prompt.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.tool import Refused, Tool, bootstrap_option, command_config_option, one_line, read_settings_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.pipelines.sql.engine import Answer, Engine

PROMPT, MORE = "ottla> ", "   ... "
HISTORY, LOG = "history", "spark.log"
"""Files of a catalog's directory."""
STDERR = 2
HISTORY_MAX = 10_000
LOOK_S = 0.5
PEEKED = 200
"""Rows that the widths of a table's columns are worked out of."""
WIDTH = 16
"""Of a column whose rows are still to come."""
HELP = """\
SQL on topics. A statement ends with a semicolon. exit or Ctrl-D leaves, Ctrl-C ends a SELECT that runs.

  SHOW TOPICS | STREAMS | TABLES | QUERIES | PROPERTIES;      DESCRIBE name [EXTENDED];
  CREATE STREAM orders (id BIGINT KEY, customer STRING, amount DOUBLE)
    WITH (KAFKA_TOPIC = 'orders', VALUE_FORMAT = 'JSON');
  SELECT * FROM orders WHERE amount > 10 EMIT CHANGES LIMIT 5;   -- goes on;  without EMIT: what there is now
  CREATE TABLE totals AS SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer;
  INSERT INTO orders VALUES (1, 'anna', 9.5);                 PRINT 'orders' FROM BEGINNING LIMIT 3;
  EXPLAIN id | statement;   PAUSE | RESUME | TERMINATE id | ALL;   DROP STREAM | TABLE name [DELETE TOPIC];
  SET 'auto.offset.reset' = 'latest';                         RUN SCRIPT 'file.sql';"""


class SqlTool(Tool):
    """A tool whose statements can be wrong in ways of their own, each of which is a line."""

    def invoke(self, ctx: click.Context) -> Any:
        from ottla.pipelines.errors import PipelineError

        try:
            return super().invoke(ctx)
        except PipelineError as error:
            raise Refused(one_line(error)) from None


@click.command(name="sql", cls=SqlTool)
@bootstrap_option
@command_config_option
@click.option("-f", "--file", metavar="FILE", type=click.Path(), help="Run the statements of a file.")
@click.option("-e", "--execute", metavar="STATEMENT", multiple=True, help="Run statements; may be given several times.")
@click.option("--once", is_flag=True, help="Let queries work off what there is, and end.")
@click.option(
    "--catalog", metavar="DIRECTORY", type=click.Path(), help="Where streams, tables and queries are kept."
)  # fmt: skip
@click.option("--schema-registry", metavar="URL", help="The registry of AVRO, PROTOBUF and JSON_SR.")
@click.option("--master", metavar="ADDRESS", help="The Spark to run on: local[*], spark://host:port, yarn, k8s://...")
@click.option(
    "--output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="How rows are shown."
)
def command(
    bootstrap_server: str,
    command_config: str | None,
    file: str | None,
    execute: tuple[str, ...],
    once: bool,
    catalog: str | None,
    schema_registry: str | None,
    master: str | None,
    output: str,
) -> None:
    """Run SQL on topics: at a prompt, from a file, or from the command line.

    Without --file and --execute, statements come from standard input. A script's queries go on until it is stopped.
    """
    from ottla.pipelines.sql.catalog import Catalog, default_home
    from ottla.pipelines.sql.cluster import Cluster
    from ottla.pipelines.sql.engine import Engine

    if file is not None and execute:
        raise Refused("--file and --execute are two ways to say what to run: use one of them")
    home = Path(catalog) if catalog is not None else default_home()
    engine = Engine(
        Catalog(home),
        Cluster(bootstrap_server, read_settings_file(command_config)),
        once=once,
        registry=schema_registry,
        session=lambda: _session(master, home),
    )
    screen = Screen(is_json=output == "json")
    with closing(engine):
        if file is None and not execute and sys.stdin.isatty():
            Prompt(engine, screen).run()
            return
        code = _run(engine, screen, *_script(file, execute))
    sys.exit(code)


def _script(file: str | None, execute: tuple[str, ...]) -> tuple[str, str]:
    """What to run, and what it is called."""
    if execute:
        return ";\n".join(execute), "--execute"
    if file is None:
        return sys.stdin.read(), "standard input"
    try:
        return Path(file).read_text(encoding="utf-8"), file
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{file} cannot be read: {one_line(error)}") from None


def _session(master: str | None, home: Path) -> SparkSession:
    from ottla.pipelines.spark import session

    if "SPARK_REMOTE" in os.environ:
        raise Refused("ottla sql runs on Spark itself and not over Spark Connect: unset SPARK_REMOTE, or give --master")
    before = signal.getsignal(signal.SIGINT)
    with _stderr_to(home / LOG):
        made = session("ottla-sql", master=master)
    # Spark's own handler would cancel the jobs of every query that runs.
    signal.signal(signal.SIGINT, before if before is not None else signal.default_int_handler)
    return made


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """What is started meanwhile writes its standard error to a file: Java and the workers talk between the rows.

    What matters of it comes as an error of the statement.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    own = os.dup(STDERR)
    try:
        with open(path, "w") as file:
            os.dup2(file.fileno(), STDERR)
        yield
    finally:
        os.dup2(own, STDERR)
        os.close(own)


class _Asked:
    """Whether SIGINT or SIGTERM has asked a script to end; a second one does not wait for the statement that runs."""

    def __init__(self, engine: Engine) -> None:
        self.number: int | None = None
        self._engine = engine
        self._before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}

    def _note(self, number: int, frame: object) -> None:
        if self.number is not None:
            raise KeyboardInterrupt
        self.number = number
        self._engine.interrupt()

    def close(self) -> None:
        """Gives the signals back."""
        for number, before in self._before.items():
            signal.signal(number, before)


def _run(engine: Engine, screen: Screen, text: str, name: str) -> int:
    """Runs a script, and its queries until somebody asks for the end; the exit code."""
    from ottla.pipelines.errors import PipelineError

    with closing(_Asked(engine)) as asked:
        try:
            for answer in engine.script(text, name):
                screen.show(answer)
                if asked.number is not None:
                    break
        except (KeyboardInterrupt, PipelineError):
            if asked.number is None:
                raise
        if engine.running:
            if asked.number is None:
                click.echo(f"{', '.join(engine.running)}: until Ctrl-C", err=True)
            while asked.number is None:
                engine.raise_failures()
                time.sleep(LOOK_S)
            click.echo("the queries are stopped; RESUME ALL goes on where they were", err=True)
            return 0
        return 0 if asked.number is None else 128 + asked.number


class Prompt:
    """Reads statements from a terminal and runs them, one after the other."""

    def __init__(self, engine: Engine, screen: Screen) -> None:
        self._engine = engine
        self._screen = screen

    def run(self) -> None:
        """Until exit or the end of the input."""
        from ottla.pipelines.sql.parser import is_complete

        click.echo("SQL on topics; help shows statements, exit leaves.")
        self._tell_of_stopped()
        with _history(self._engine.catalog.home / HISTORY):
            text = ""
            while True:
                try:
                    line = input(MORE if text else PROMPT)
                except KeyboardInterrupt:
                    text = ""
                    click.echo()
                    continue
                except EOFError:
                    click.echo()
                    return
                if not text and line.strip().rstrip(";").lower() in ("exit", "quit"):
                    return
                if not text and line.strip().rstrip(";").lower() in ("help", "?"):
                    click.echo(HELP)
                    continue
                text += line + "\n"
                if text.strip() and is_complete(text):
                    self._statements(text)
                    text = ""
                elif not text.strip():
                    text = ""

    def _statements(self, text: str) -> None:
        from ottla.errors import KafkaError
        from ottla.pipelines.errors import PipelineError
        from ottla.pipelines.sql.parser import parse

        try:
            self._engine.raise_failures()
        except PipelineError as error:
            click.echo(one_line(error), err=True)
        before = signal.signal(signal.SIGINT, lambda number, frame: self._engine.interrupt())
        try:
            for statement in parse(text):
                for answer in self._engine.run(statement):
                    self._screen.show(answer)
        except KeyboardInterrupt:
            click.echo("\nended", err=True)
        except (PipelineError, KafkaError, OSError) as error:
            click.echo("\nended" if self._engine.is_interrupted else one_line(error), err=True)
        finally:
            signal.signal(signal.SIGINT, before)

    def _tell_of_stopped(self) -> None:
        catalog = self._engine.catalog
        stopped = [one.id for one in catalog.read().queries.values() if not one.is_paused]
        if stopped and not catalog.is_run_elsewhere:
            click.echo(f"Stopped: {', '.join(stopped)}. RESUME ALL; runs them here.")


@contextmanager
def _history(path: Path) -> Iterator[None]:
    """What was typed, kept from one prompt to the next where this Python can edit lines."""
    try:
        import readline
    except ImportError:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    readline.set_history_length(HISTORY_MAX)
    if path.exists():
        readline.read_history_file(path)
    try:
        yield
    finally:
        readline.write_history_file(path)


class Screen:
    """Answers as text: tables and lines, or a JSON document a row."""

    def __init__(self, *, is_json: bool) -> None:
        self._is_json = is_json

    def show(self, answer: Answer) -> None:
        """Prints an answer, its rows as they come."""
        try:
            self._json(answer) if self._is_json else self._text(answer)
        finally:  # a SELECT that goes on ends with who reads it
            if isinstance(answer.rows, Generator):
                answer.rows.close()

    def _text(self, answer: Answer) -> None:
        if answer.text is not None:
            self._say(answer.text)
        if answer.columns:
            self._table(answer.columns, answer.rows, is_endless=answer.is_endless)

    def _json(self, answer: Answer) -> None:
        if answer.text is not None:
            self._say(json.dumps({"message": answer.text}, ensure_ascii=False))
        for row in answer.rows:
            named = dict(zip(answer.columns, map(_plain, row), strict=True))
            self._say(json.dumps(named, ensure_ascii=False))

    def _table(self, columns: tuple[str, ...], rows: Iterable[list[Any]], *, is_endless: bool) -> None:
        coming = iter(rows)
        first = [] if is_endless else [_texts(row) for row in islice(coming, PEEKED)]
        least = WIDTH if is_endless else 0
        widths = [max([len(name), least, *(len(row[index]) for row in first)]) for index, name in enumerate(columns)]
        self._line(list(columns), widths)
        self._say("-+-".join("-" * width for width in widths))
        count = 0
        for row in chain(first, map(_texts, coming)):
            self._line(row, widths)
            count += 1
        self._say(f"{count} {'row' if count == 1 else 'rows'}")

    def _line(self, cells: list[str], widths: list[int]) -> None:
        self._say(" | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())

    def _say(self, text: str) -> None:
        click.echo(text)
        sys.stdout.flush()


def _texts(row: list[Any]) -> list[str]:
    return [_text(cell) for cell in row]


def _text(cell: Any) -> str:
    plain = _plain(cell)
    if isinstance(plain, str):
        return plain
    return json.dumps(plain, ensure_ascii=False)


def _plain(cell: Any) -> Any:
    """A value as JSON has one."""
    if cell is None or isinstance(cell, bool | int | float | str):
        return cell
    if hasattr(cell, "asDict"):
        return {name: _plain(value) for name, value in cell.asDict().items()}
    if isinstance(cell, dict):
        return {str(name): _plain(value) for name, value in cell.items()}
    if isinstance(cell, list | tuple):
        return [_plain(value) for value in cell]
    if isinstance(cell, bytes | bytearray):
        return f"0x{bytes(cell).hex()}"
    return str(cell)
