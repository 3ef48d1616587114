"""`ottla completion`: the lines that let a shell complete commands, options, topics and groups."""

from __future__ import annotations

import click

from ottla.cli.tool import Refused, Tool

VARIABLE = "_OTTLA_COMPLETE"
PROGRAM = "ottla"


@click.command(cls=Tool)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, /, shell: str) -> None:
    """Print what lets SHELL complete commands, options, topics and groups.

    \b
    eval "$(ottla completion bash)"      # in ~/.bashrc
    eval "$(ottla completion zsh)"       # in ~/.zshrc
    ottla completion fish > ~/.config/fish/completions/ottla.fish
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    if found is None:
        raise Refused(f"{shell} cannot be completed for by this version of click")
    root = ctx.find_root().command
    click.echo(found(root, {}, PROGRAM, VARIABLE).source())
