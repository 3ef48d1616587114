"""`ottla server start`: run a node from a server.properties, as Kafka's start script does.

SIGTERM, SIGINT and SIGHUP are a controlled shutdown, also of a node that is still starting: it may wait for a quorum
for ever. What keeps a node from starting, or from going on, is one line on standard error and exit code 1; as in Kafka
a node that has lost its disks or its metadata log does not wait for anything then.
"""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, NoReturn

import click

from ottla.cli.logs import LEVELS, set_up_logging

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ottla.node import Node


@click.group(name="server")
def command() -> None:
    """Run a broker, a controller, or both."""


@command.command()
@click.argument("properties", type=click.Path())
@click.option("--override", metavar="NAME=VALUE", multiple=True, help="A setting that replaces the file's.")
@click.option("--format-new", metavar="CLUSTER_ID", help="Format directories that are new, for this cluster.")
@click.option("--metrics", metavar="[HOST:]PORT", help="Answer GET /metrics in Prometheus form there.")
@click.option("--log-level", type=click.Choice(list(LEVELS), case_sensitive=False), default="INFO", show_default=True)
@click.option("--log-json", is_flag=True, help="Log one JSON object a line.")
def start(
    properties: str,
    override: tuple[str, ...],
    format_new: str | None,
    metrics: str | None,
    log_level: str,
    log_json: bool,
) -> None:
    """Start the node that PROPERTIES describes; its directories must be formatted (`ottla storage format`)."""
    from ottla.config import MalformedEscape, read_properties

    try:
        with open(properties, encoding="latin-1") as file:
            values = dict(read_properties(file.read()))
    except OSError as error:
        fail(f"Cannot read {properties}: {error.strerror}")
    except MalformedEscape as error:
        fail(f"Cannot read {properties}: {error}")
    for item in override:
        name, equals, value = item.partition("=")
        if not equals:
            fail(f"--override takes NAME=VALUE, and {item!r} has no '='")
        values[name.strip()] = value.strip()
    set_up_logging(log_level, as_json=log_json)
    run(values, format_first=format_new is not None, cluster_id=format_new, metrics=metrics)


def run(
    values: Mapping[str, str],
    on_ready: Callable[[Node], None] = lambda _: None,
    *,
    format_first: bool = False,
    cluster_id: str | None = None,
    topics: Sequence[tuple[str, int]] = (),
    metrics: str | None = None,
) -> None:
    """Run a node with these settings until it is asked to stop; `format_first` prepares directories that are new,
    for the cluster of that id or one of their own."""
    host, _, port = (metrics or "").rpartition(":")
    if metrics and not port.isdigit():
        fail(f"--metrics takes a port, or a host and a port, and not {metrics!r}")
    # What is imported here stays: looking for garbage in it would be 20 ms of the start. `run_node` looks again.
    gc.disable()
    import asyncio

    from ottla.config import BrokerConfig
    from ottla.errors import KafkaError
    from ottla.node import CannotStart, build
    from ottla.raft import DamagedQuorumState, DamagedSnapshot
    from ottla.storage import DamagedFile
    from ottla.world import Address, NodeWorld, Promise
    from ottla.world.system_loop import run_node

    metrics_address = Address(host or "127.0.0.1", int(port)) if metrics else None

    async def main(world: NodeWorld, stop: Promise[str]) -> None:
        node = build(BrokerConfig(values), world, metrics_address=metrics_address)
        if format_first:
            node.format_if_new(cluster_id)
        running = asyncio.create_task(serve(node))
        stop.add_done_callback(lambda _: running.cancel())
        try:
            raise CannotStart(await running)
        except asyncio.CancelledError:
            if not stop.done():
                raise
            await node.stop()

    async def serve(node: Node) -> str:
        """Serve until the node cannot go on; why."""
        await node.start()
        await node.create_topics(topics)
        on_ready(node)
        return await node.until_failed()

    try:
        run_node(main)
    except (DamagedFile, DamagedQuorumState, DamagedSnapshot) as error:
        fail(f"{error}. Restore the file; without it what the node knew is lost.")
    except (CannotStart, KafkaError, OSError) as error:
        fail(str(error))


def fail(message: str) -> NoReturn:
    """One line, and exit code 1."""
    click.echo(f"ottla: {message}", err=True)
    sys.exit(1)
