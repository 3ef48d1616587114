"""`ottla cluster up`: a cluster on this machine in one command, each node a process of its own.

It formats directories that are new with one cluster id, starts `ottla server` for each node, and shows what the
cluster says of itself: a live table on a terminal, a line for each change otherwise. A node that dies is told of and
started again a while later, so that one sees what the others do without it. SIGINT, SIGTERM and SIGHUP are a controlled
shutdown of all nodes, and exit code 0; a second SIGINT kills them. When all nodes have ended by themselves, the command
says why, with exit code 1.
"""

from __future__ import annotations

import os
import shutil
import tempfile

import click

from ottla.cli.logs import set_up_logging
from ottla.cli.server import fail
from ottla.cli.up import default_data_dir

NODES_MAX = 64
RESTART_S = 15.0
"""Longer than `broker.session.timeout.ms`: the others take over first."""


@click.group(name="cluster")
def command() -> None:
    """Run a cluster on this machine."""


@command.command()
@click.option("--nodes", default=3, show_default=True, type=click.IntRange(1, NODES_MAX), help="How many brokers.")
@click.option(
    "--controllers",
    default=0,
    type=click.IntRange(0, NODES_MAX),
    help="How many nodes are controllers and nothing else [default: brokers are controllers too].",
)
@click.option("--port", default=9092, show_default=True, help="Port of the first broker; others follow. 0 chooses.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on for clients.")
@click.option(
    "--data", type=click.Path(file_okay=False), help="Directory for the data [default: the user's data home]."
)
@click.option("--ephemeral", is_flag=True, help="Keep the data in a temporary directory and remove it at the end.")
@click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help="Any setting of server.properties.")
@click.option(
    "--restart-after",
    "restart_s",
    metavar="SECONDS",
    default=RESTART_S,
    show_default=True,
    type=click.FloatRange(min=0),
    help="When a node that died is started again.",
)
@click.option("--no-restart", is_flag=True, help="Leave a node that died alone.")
@click.option(
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="A table or lines for people, or one JSON object for each change.",
)
def up(
    nodes: int,
    controllers: int,
    port: int,
    host: str,
    data: str | None,
    ephemeral: bool,
    settings: tuple[str, ...],
    restart_s: float,
    no_restart: bool,
    output: str,
) -> None:
    """Start a Kafka-compatible cluster on this machine, a process for each node."""
    if ephemeral and data is not None:
        fail("--ephemeral and --data contradict each other: leave one out")
    more = {}
    for item in settings:
        name, equals, value = item.partition("=")
        if not equals:
            fail(f"--set takes NAME=VALUE, and {item!r} has no '='")
        more[name.strip()] = value.strip()
    # What the client has to say of a node that is gone, the table says too.
    set_up_logging("ERROR")
    from ottla.cli.cluster_nodes import LocalCluster, NotPossible
    from ottla.cli.cluster_show import shown_by
    from ottla.cli.cluster_watch import AllEnded, watch

    directory = tempfile.mkdtemp(prefix="ottla-") if ephemeral else data or f"{default_data_dir()}-cluster"
    try:
        cluster = LocalCluster(
            os.path.abspath(directory),
            broker_count=nodes,
            controller_count=controllers,
            host=host,
            port=port,
            more=more,
            restart_s=None if no_restart else restart_s,
        )
        watch(cluster, shown_by(output))
    except (NotPossible, AllEnded) as error:
        fail(str(error))
    finally:
        if ephemeral:
            shutil.rmtree(directory, ignore_errors=True)
