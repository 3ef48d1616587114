"""A picture of a topology: Mermaid text, or an SVG with one row for each step from the sources.

Both are written here, by hand: a picture needs no library and looks the same everywhere.
"""

from __future__ import annotations

from xml.sax.saxutils import escape

from ottla.pipelines.streams.graph import GlobalSource, Node, Sink, Source, Stateful, Topology

WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 250, 44, 30, 46, 20
COLOURS = {"topic": "#e8f1fb", "stateful": "#fdf0dc", "step": "#f4f4f4"}


def mermaid(topology: Topology) -> str:
    """A flowchart: topics are rounded, what has state is a cylinder, the rest are boxes."""
    numbers = {name: f"n{index}" for index, name in enumerate(topology.nodes)}
    lines = ["flowchart TD"]
    for node in topology.nodes.values():
        label = "<br/>".join(_label(node)).replace('"', "#quot;")
        opening, closing = {"topic": ("([", "])"), "stateful": ("[(", ")]"), "step": ("[", "]")}[_look(node)]
        lines.append(f'    {numbers[node.name]}{opening}"{label}"{closing}')
    lines += [
        f"    {numbers[parent]} --> {numbers[node.name]}" for node in topology.nodes.values() for parent in node.parents
    ]
    return "\n".join(lines) + "\n"


def svg(topology: Topology) -> str:
    """Boxes in rows, each below the last of its parents, with arrows down."""
    place = _places(topology)
    columns = 1 + max((column for column, _ in place.values()), default=0)
    rows = 1 + max((row for _, row in place.values()), default=0)
    width = 2 * MARGIN + columns * (WIDTH + GAP_X) - GAP_X
    height = 2 * MARGIN + rows * (HEIGHT + GAP_Y) - GAP_Y
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f"<title>{escape(topology.application)}</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z"/></marker></defs>',
    ]
    for node in topology.nodes.values():
        for parent in node.parents:
            (x1, y1), (x2, y2) = _corner(place[parent]), _corner(place[node.name])
            parts.append(
                f'<line x1="{x1 + WIDTH // 2}" y1="{y1 + HEIGHT}" x2="{x2 + WIDTH // 2}" y2="{y2}" '
                'stroke="black" marker-end="url(#tip)"/>'
            )
    for node in topology.nodes.values():
        x, y = _corner(place[node.name])
        round_by = HEIGHT // 2 if _look(node) == "topic" else 4
        parts.append(
            f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="{round_by}" '
            f'fill="{COLOURS[_look(node)]}" stroke="black"/>'
        )
        for line, text in enumerate(_label(node)):
            parts.append(
                f'<text x="{x + WIDTH // 2}" y="{y + 18 + 16 * line}" text-anchor="middle">{escape(text)}</text>'
            )
    return "\n".join([*parts, "</svg>", ""])


def _places(topology: Topology) -> dict[str, tuple[int, int]]:
    """Column and row of each node: a row below its lowest parent, the next free column of that row."""
    place: dict[str, tuple[int, int]] = {}
    taken: dict[int, int] = {}
    for node in topology.nodes.values():
        row = 1 + max((place[parent][1] for parent in node.parents), default=-1)
        column = max(taken.get(row, 0), min((place[parent][0] for parent in node.parents), default=0))
        taken[row] = column + 1
        place[node.name] = (column, row)
    return place


def _corner(place: tuple[int, int]) -> tuple[int, int]:
    column, row = place
    return MARGIN + column * (WIDTH + GAP_X), MARGIN + row * (HEIGHT + GAP_Y)


def _look(node: Node) -> str:
    if isinstance(node.work, Source | GlobalSource | Sink):
        return "topic"
    return "stateful" if isinstance(node.work, Stateful) else "step"


def _label(node: Node) -> list[str]:
    """What stands in the box: a topic's name, or the step's, with its stores below."""
    match node.work:
        case Source():
            return [", ".join(node.work.reads)]
        case GlobalSource(topic=topic) | Sink(topic=topic, extractor=None):
            return [topic]
    return [node.name, ", ".join(node.stores)] if node.stores else [node.name]
