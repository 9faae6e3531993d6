"""The edge of a command line program: every error becomes one line on stderr and an exit code.

0: success. 1: the server refused the request, or the job failed. 2: wrong usage or an invalid file.
3: no server answers. 130: interrupted.
"""

from __future__ import annotations

import errno
import traceback
from typing import Any

import click

from fate_flow.cli.connection.client import CallFailed
from fate_flow.cli.console.display import print_json, tell
from fate_flow.core.model.errors import FlowError
from fate_flow.core.text.os_errors import os_error_text

HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

verbose_option = click.option("-v", "--verbose", is_flag=True, help="Show the traceback of an error.")


class EdgeGroup(click.Group):
    """A group that reports every error of its commands; it shows a traceback only with --verbose."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise               # `flow ... | head`; click handles it
            if ctx.params.get("verbose"):
                traceback.print_exception(error)
            raise SystemExit(_report(error)) from error


def _report(error: Exception) -> int:
    """Print the error; return the exit code for it."""
    if isinstance(error, CallFailed):
        print_json(error.envelope)
    if isinstance(error, FlowError):
        tell(f"Error: {error.message}")
        return error.exit_code if isinstance(error, CallFailed) else 1
    if isinstance(error, OSError):
        tell(f"Error: {os_error_text(error)}")
        return 1
    tell(f"Error: {type(error).__name__}: {error} (a bug in this program; -v as the first option shows the traceback)")
    return 1
