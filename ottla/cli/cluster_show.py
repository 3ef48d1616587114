"""How `ottla cluster up` shows what it sees: a live table, lines for people, or JSON for machines.

Promises: lines and JSON tell each change once, and memory and lag are no change by themselves. The table is drawn over
itself and the last of it stays; it is never wider or higher than the terminal, however that is resized.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ottla.cli.cluster_watch import Display, NodeStatus

HEADS = ("NODE", "ROLES", "STATE", "RESTARTS", "LEADERS", "IN SYNC", "LAG", "MEMORY", "")
MIB = 1024 * 1024
_CLEAR_SCREEN = "\x1b[2J\x1b[H"
_CLEAR_REST_OF_LINE, _CLEAR_REST = "\x1b[K", "\x1b[J"


def shown_by(output: str) -> Display:
    """The way to show it: as asked for, and a table only where there is a terminal that can draw one."""
    if output == "json":
        return JsonLines()
    return Table() if sys.stdout.isatty() and os.environ.get("TERM") != "dumb" else Lines()


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

    def stopping(self) -> None:
        pass  # each node tells that it is

    def close(self) -> None:
        pass  # what was told is told


class JsonLines(_Changes):
    def ready(self, bootstrap_servers: str, directory: str) -> None:
        click.echo(json.dumps({"ready": bootstrap_servers, "data": directory}))

    def tell(self, node: NodeStatus) -> None:
        click.echo(json.dumps(asdict(node)))


class Lines(_Changes):
    def ready(self, bootstrap_servers: str, directory: str) -> None:
        click.echo(_ready_line(bootstrap_servers, directory))

    def tell(self, node: NodeStatus) -> None:
        words = [f"node {node.node_id} ({node.roles}) {node.state}"]
        if node.why is not None:
            words.append(node.why)
        if node.leaders is not None:
            words.append(f"leads {node.leaders}, {node.in_sync} of {node.replicas} replicas in sync")
        if node.restarts:
            words.append(f"restarted {node.restarts} times" if node.restarts > 1 else "restarted once")
        click.echo(": ".join(words))


class Table:
    """Drawn over itself, below a title that is written once: that may be longer than a line."""

    def __init__(self) -> None:
        self._title = "ottla is starting"
        self._nodes: list[NodeStatus] = []
        self._lines: list[str] = []
        """What was drawn last."""
        self._size: os.terminal_size | None = None

    def ready(self, bootstrap_servers: str, directory: str) -> None:
        self._retitle(_ready_line(bootstrap_servers, directory))

    def stopping(self) -> None:
        self._retitle("ottla is stopping (Ctrl-C once more kills the nodes)")

    def show(self, nodes: list[NodeStatus]) -> None:
        self._nodes = nodes
        size = _terminal_size()
        if self._size is None:
            self._draw(f"{self._title}\n", size)
        elif size != self._size:
            # The terminal has wrapped or cut what was drawn, and nobody knows where that begins.
            self._draw(f"{_CLEAR_SCREEN}{self._title}\n", size)
        else:
            self._draw(self._to_the_top(), size)

    def close(self) -> None:
        """The last table stays. What a node said at its end may be more than a line has room for."""
        for node in self._nodes:
            if node.why is not None and ": " in node.why:
                click.echo(f"node {node.node_id}: {node.why}")

    def _retitle(self, title: str) -> None:
        self._title = title
        if self._size is not None:
            self._draw(f"{self._to_the_top()}{_CLEAR_REST}{title}\n", self._size)

    def _draw(self, before: str, size: os.terminal_size) -> None:
        # Two lines less: where the cursor waits, and the title.
        lines = [line[: size.columns] for line in _table_lines(self._nodes, height_max=max(2, size.lines - 2))]
        if lines == self._lines and before == self._to_the_top():
            return
        drawn = "".join(f"{line}{_CLEAR_REST_OF_LINE}\n" for line in lines)
        click.echo(f"{before}{drawn}{_CLEAR_REST}", nl=False, color=True)
        self._lines, self._size = lines, size

    def _to_the_top(self) -> str:
        return f"\x1b[{len(self._lines)}F" if self._lines else ""


def _table_lines(nodes: list[NodeStatus], *, height_max: int) -> list[str]:
    rows = [HEADS, *map(_row, nodes)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    if len(lines) > height_max:
        hidden = len(lines) - height_max + 1
        lines[height_max - 1 :] = [f"... and {hidden} more"]
    return lines


def _terminal_size() -> os.terminal_size:
    """Asked each time: it may be resized, and what `COLUMNS` says is from when the shell was started."""
    size = os.get_terminal_size(sys.stdout.fileno())
    return os.terminal_size((size.columns or 80, size.lines or 24))


def _ready_line(bootstrap_servers: str, directory: str) -> str:
    return f"ottla is ready at {bootstrap_servers} (data in {directory})"


def _row(node: NodeStatus) -> tuple[str, ...]:
    return (
        str(node.node_id),
        node.roles,
        node.state,
        str(node.restarts),
        _text(node.leaders),
        "-" if node.in_sync is None else f"{node.in_sync}/{node.replicas}",
        _text(node.lag),
        "-" if node.resident_bytes is None else f"{node.resident_bytes / MIB:.0f} MiB",
        node.why or "",
    )


def _text(number: int | None) -> str:
    return "-" if number is None else str(number)
