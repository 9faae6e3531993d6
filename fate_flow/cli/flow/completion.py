"""flow completion"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that lets the tab key complete commands, options and job ids in a shell.

    For a job id, the server is asked for its newest jobs that begin with what is typed. Without an answer, nothing is
    completed.

    \b
    Example: flow completion bash > ~/.local/share/bash-completion/completions/flow
             eval "$(flow completion zsh)"
             flow completion fish > ~/.config/fish/completions/flow.fish
    """
    script = get_completion_class(shell)
    assert script is not None
    click.echo(script(ctx.find_root().command, {}, "flow", "_FLOW_COMPLETE").source())
