"""How `ottla cluster up` shows what it sees: a live table, lines for people, or JSON for machines.

Promises: lines and JSON tell each change once, and memory and lag are no change by themselves; the table is drawn over
itself and the last of it stays.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ottla.cli.cluster_watch import Display, NodeStatus

HEADS = ("NODE", "ROLES", "STATE", "LEADERS", "IN SYNC", "LAG", "MEMORY", "")
MIB = 1024 * 1024


def shown_by(output: str) -> Display:
    """The way to show it: as asked for, and a table only where there is a terminal."""
    if output == "json":
        return JsonLines()
    return Table() if sys.stdout.isatty() else Lines()


class _Changes:
    """Tells a node's status when it has changed."""

    def __init__(self) -> None:
        self._told: dict[int, NodeStatus] = {}

    def show(self, nodes: list[NodeStatus]) -> None:
        for node in nodes:
            told = replace(node, lag=None, resident_bytes=None)
            if self._told.get(node.node_id) != told:
                self._told[node.node_id] = told
                self.tell(node)

    def tell(self, node: NodeStatus) -> None:
        raise NotImplementedError

    def close(self) -> None:
        pass  # what was told is told


class JsonLines(_Changes):
    def ready(self, bootstrap_servers: str, directory: str) -> None:
        click.echo(json.dumps({"ready": bootstrap_servers, "data": directory}))

    def tell(self, node: NodeStatus) -> None:
        click.echo(json.dumps(asdict(node)))


class Lines(_Changes):
    def ready(self, bootstrap_servers: str, directory: str) -> None:
        click.echo(f"ottla is ready at {bootstrap_servers} (data in {directory})")

    def tell(self, node: NodeStatus) -> None:
        words = [f"node {node.node_id} ({node.roles}) {node.state}"]
        if node.why is not None:
            words.append(node.why)
        if node.leaders is not None:
            words.append(f"leads {node.leaders}, {node.in_sync} of {node.replicas} replicas in sync")
        click.echo(": ".join(words))


class Table:
    """Drawn over itself."""

    def __init__(self) -> None:
        self._line_count = 0
        self._title = "ottla is starting"

    def ready(self, bootstrap_servers: str, directory: str) -> None:
        self._title = f"ottla is ready at {bootstrap_servers} (data in {directory})"

    def show(self, nodes: list[NodeStatus]) -> None:
        rows = [HEADS, *map(_row, nodes)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(HEADS))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        up = f"\x1b[{self._line_count}F" if self._line_count else ""
        click.echo(up + "".join(f"{line}\x1b[K\n" for line in [self._title, *lines]) + "\x1b[J", nl=False, color=True)
        self._line_count = len(lines) + 1

    def close(self) -> None:
        pass  # the last table stays


def _row(node: NodeStatus) -> tuple[str, ...]:
    return (
        str(node.node_id),
        node.roles,
        node.state,
        _text(node.leaders),
        "-" if node.in_sync is None else f"{node.in_sync}/{node.replicas}",
        _text(node.lag),
        "-" if node.resident_bytes is None else f"{node.resident_bytes / MIB:.0f} MiB",
        node.why or "",
    )


def _text(number: int | None) -> str:
    return "-" if number is None else str(number)
