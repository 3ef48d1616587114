"""`ottla pipeline reset` and `delete`: a pipeline back to its beginning, or gone.

Promises: what goes is listed first, and nothing goes before the pipeline's name was typed, or `--yes` given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ottla.cli.tool import Refused

if TYPE_CHECKING:
    from ottla.pipelines.connect.reset import Belongings
    from ottla.pipelines.connect.state import Home


def reset(home: Home, *, yes: bool) -> None:
    """Takes a pipeline back to its beginning."""
    found = _confirmed(home, "reset", yes=yes)
    found.reset()
    click.echo(f"{home.name} was reset: its next run begins anew.")


def delete(home: Home, *, yes: bool) -> None:
    """Removes a pipeline."""
    found = _confirmed(home, "delete", yes=yes)
    found.delete()
    click.echo(f"{home.name} was deleted.")


def _confirmed(home: Home, what: str, *, yes: bool) -> Belongings:
    from ottla.pipelines.connect.reset import belongings

    if home.is_running:
        raise Refused(f"the pipeline {home.name} runs: `ottla pipeline stop {home.name}` ends it")
    found = belongings(home)
    click.echo(f"To {what} {home.name} removes")
    for path in found.checkpoints:
        click.echo(f"  the checkpoint {path}")
    for memory in found.memories:
        click.echo(f"  the group {memory.group} on {memory.settings['bootstrap.servers']}: what the sink has written")
    if found.slot is not None:
        publication = f", and the publication {found.slot.publication}" if found.slot.publication else ""
        click.echo(f"  the replication slot {found.slot.name} of the database{publication}")
    for position in found.positions:
        click.echo(f"  {position}: how far it was read, and what no query has read of it")
    if what == "delete":
        click.echo(f"  {home.path}: all that is known of its runs")
    elif not (found.checkpoints or found.memories or found.positions):
        click.echo("  nothing: it has no checkpoint")
    for note in found.notes:
        click.echo(f"Note: {note}.")
    if not yes:
        typed = click.prompt(f"Type {home.name} to go on (or give --yes)", default="", show_default=False)
        if typed != home.name:
            raise Refused(f"{home.name} stays as it is: {typed or 'nothing'} is not its name")
    return found
