"""Shell completion: `completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of SHELL, for commands, options and states.

    \b
    bash:  eval "$(stepwell completion bash)"      in ~/.bashrc
    zsh:   eval "$(stepwell completion zsh)"       in ~/.zshrc
    fish:  stepwell completion fish | source       in ~/.config/fish/config.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "stepwell", "_STEPWELL_COMPLETE").source())
