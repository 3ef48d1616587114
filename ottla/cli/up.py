"""`ottla up`: a developer's node in one command.

It formats its directory by itself, keeps its data there (or nowhere, with `--ephemeral`), makes the topics asked for,
and prints the bootstrap address when clients can connect.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import TYPE_CHECKING

import click

from ottla.cli.logs import LEVELS, set_up_logging
from ottla.cli.server import fail, run
from ottla.testing.settings import alone

if TYPE_CHECKING:
    from ottla.node import Node


@click.command(name="up")
@click.option("--port", default=9092, show_default=True, help="Port for clients; 0 chooses a free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--data", type=click.Path(file_okay=False), help="Directory for the data [default: the user's data home]."
)
@click.option("--ephemeral", is_flag=True, help="Keep the data in a temporary directory and remove it at the end.")
@click.option("--topic", "topics", metavar="NAME[:PARTITIONS]", multiple=True, help="Make this topic unless it exists.")
@click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help="Any setting of server.properties.")
@click.option("--metrics", metavar="[HOST:]PORT", help="Answer GET /metrics in Prometheus form there.")
@click.option("--ready-file", type=click.Path(dir_okay=False), help="Write the bootstrap address here when ready.")
@click.option("--log-level", type=click.Choice(list(LEVELS), case_sensitive=False), default="WARN", show_default=True)
@click.option("--log-json", is_flag=True, help="Log one JSON object a line.")
def command(
    port: int,
    host: str,
    data: str | None,
    ephemeral: bool,
    topics: tuple[str, ...],
    settings: tuple[str, ...],
    metrics: str | None,
    ready_file: str | None,
    log_level: str,
    log_json: bool,
) -> None:
    """Start a Kafka-compatible broker on this machine, ready in a moment."""
    if ephemeral and data is not None:
        fail("--ephemeral and --data contradict each other: leave one out")
    wanted = [parse_topic(topic) for topic in topics]
    set_up_logging(log_level, as_json=log_json)
    directory = tempfile.mkdtemp(prefix="ottla-") if ephemeral else data or default_data_dir()
    values = alone(directory, host, port)
    for item in settings:
        name, equals, value = item.partition("=")
        if not equals:
            fail(f"--set takes NAME=VALUE, and {item!r} has no '='")
        values[name.strip()] = value.strip()

    def on_ready(node: Node) -> None:
        address = str(node.bootstrap_address)
        # Before the file: whoever waits for it may write to the same terminal.
        click.echo(f"ottla is ready at {address}" + ("" if ephemeral else f" (data in {directory})"))
        if ready_file is not None:
            with open(ready_file + ".tmp", "w", encoding="ascii") as file:
                file.write(address + "\n")
            os.replace(ready_file + ".tmp", ready_file)

    try:
        run(values, on_ready, format_first=True, topics=wanted, metrics=metrics)
    finally:
        if ephemeral:
            shutil.rmtree(directory, ignore_errors=True)


def parse_topic(text: str) -> tuple[str, int]:
    name, colon, count = text.partition(":")
    if not name or (colon and not (count.isdigit() and int(count) > 0)):
        fail(f"--topic takes NAME or NAME:PARTITIONS, such as orders:6, and not {text!r}")
    return name, int(count) if colon else 1


def default_data_dir() -> str:
    home = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(home, "ottla")
