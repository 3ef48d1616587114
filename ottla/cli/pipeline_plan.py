"""`ottla pipeline plan`: what a topology would make of a checkpoint, before it is started.

Promises: neither Spark nor a broker is asked, and nothing is changed. Exit code 0 says that a start goes on with the
state there is, 1 that it would be refused, with the command that resets what needs it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ottla.cli.tool import bootstrap_option, output_option, print_json

if TYPE_CHECKING:
    from ottla.pipelines.streams.evolution import Evolution, Step

MARKS = {"kept": "=", "added": "+", "removed": "-", "changed": "~"}


@click.argument("topology", metavar="FILE|MODULE:NAME")
@click.option("--checkpoint", required=True, metavar="DIR", type=click.Path(), help="The checkpoint of the topology.")
@click.option("--accept", metavar="STEP,...", default="", help="Changed steps that go on with the state they have.")
@bootstrap_option
@output_option
def plan(topology: str, checkpoint: str, accept: str, bootstrap_server: str, output: str) -> None:
    """Show what a changed topology keeps of a checkpoint's state, and what needs a reset.

    \b
    ottla pipeline plan shop.py --checkpoint /data/shop
    ottla pipeline plan company.shop:topology --checkpoint /data/shop --output json
    """
    from ottla.pipelines.streams import evolution, notes, planning
    from ottla.pipelines.streams.locator import find_topology

    made = find_topology(topology)
    planning.plan(made)
    home = notes.local(checkpoint)
    if not home.exists() or not any(home.iterdir()):  # new, or reset as a whole
        known = {"application": made.application, "steps": {}}
    else:
        known = notes.read_local(home)
    evolution.check_application(known, made.application)
    evolution.check_no_reset(known, checkpoint)
    placed = made.at(evolution.trace(known, made))
    found = evolution.compare(known, placed, planning.plan(placed), accept=[one for one in accept.split(",") if one])
    is_accepted = not found.reset
    command = "" if is_accepted else found.command(checkpoint, bootstrap_server)
    if output == "json":
        print_json({
            "application": found.application,
            "accepted": is_accepted,
            "steps": [_as_json(step, found) for step in found.steps],
            "reset": {"steps": list(found.reset), "command": command},
            "unjudged": found.unjudged,
        })  # fmt: skip
    else:
        _show(found, checkpoint, command)
    sys.exit(0 if is_accepted else 1)


def _show(found: Evolution, checkpoint: str, command: str) -> None:
    click.echo(f"{found.application} on {checkpoint}: {_summary(found)}")
    rows = [
        (MARKS[step.fate.value], step.name, step.fate.value, _state(step, found), *_reasons(step))
        for step in found.steps
    ]
    widths = [max((len(row[index]) for row in rows), default=0) for index in range(4)]
    for mark, name, fate, state, *reasons in rows:
        cells = [text.ljust(width) for text, width in zip((mark, name, fate, state), widths, strict=True)]
        click.echo("  ".join([*cells, reasons[0] if reasons else ""]).rstrip())
        for reason in reasons[1:]:
            click.echo(" " * (sum(widths) + 2 * len(widths)) + reason)
    if found.unjudged:
        click.echo(f"Note: {found.unjudged}.")
    if command:
        click.echo(
            f"A start would be refused. To reset {', '.join(found.reset)}, stop the topology and run:\n{command}"
        )
    else:
        click.echo("A start goes on with the state there is.")


def _summary(found: Evolution) -> str:
    counts = {fate: sum(step.fate.value == fate for step in found.steps) for fate in MARKS}
    return ", ".join(f"{count} {fate}" for fate, count in counts.items() if count) or "no steps"


def _state(step: Step, found: Evolution) -> str:
    if step.place in found.reset:
        return "needs a reset" if step.needs_reset else "is reset with it"
    if step.fate.value == "added":
        return "begins anew"
    if step.fate.value == "removed":
        return "stays behind"
    return "keeps its state" if step.has_state else "keeps its offsets"


def _reasons(step: Step) -> list[str]:
    changes = [f"{one.what}: {one.was or '(none)'} -> {one.now or '(none)'}" for one in step.changes]
    return [*changes, *([step.note] if step.note else [])]


def _as_json(step: Step, found: Evolution) -> dict[str, object]:
    return {
        "name": step.name,
        "place": step.place,
        "change": step.fate.value,
        "hasState": step.has_state,
        "needsReset": step.needs_reset,
        "isReset": step.place in found.reset,
        "differences": [{"what": one.what, "was": one.was, "now": one.now} for one in step.changes],
        "note": step.note or None,
    }
