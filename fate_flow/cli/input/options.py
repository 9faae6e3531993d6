"""The options that many commands share, spelled as in the genuine client."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from fate_flow.cli.connection.job_ids import complete_job_id

Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Command], Command]

ROLES = ("local", "guest", "arbiter", "host")
STATUSES = (
    "success", "failed", "running", "waiting", "timeout", "canceled", "partial", "deleted", "ready", "stopping", "pass",
)  # fmt: skip


def job_id(*, required: bool = False) -> Option[Any]:
    return click.option(
        "-j", "--job-id", required=required, help="Id of a job.", shell_complete=complete_job_id
    )


def role(*, required: bool = False) -> Option[Any]:
    return click.option(
        "-r", "--role", required=required, type=click.Choice(ROLES), metavar="TEXT", help=f"One of {', '.join(ROLES)}."
    )


def party_id(*, required: bool = False) -> Option[Any]:
    return click.option("-p", "--party-id", required=required, help="Id of a party.")


def component_name(*, required: bool = False) -> Option[Any]:
    return click.option("-cpn", "--component-name", required=required, help="Name of a component of the job.")


def status() -> Option[Any]:
    return click.option(
        "-s", "--status", type=click.Choice(STATUSES), metavar="TEXT", help=f"One of {', '.join(STATUSES)}."
    )


def limit(default: int | None = 10, text: str = "Maximum number of rows; 10 by default.") -> Option[Any]:
    return click.option("-l", "--limit", type=int, default=default, help=text)


def is_typed(name: str) -> bool:
    """Return whether an option of the present command was given, and is not the default."""
    return click.get_current_context().get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def page() -> Option[Any]:
    return click.option("--page", type=int, help="Page number, from 1; 1 by default; --limit is the size of a page.")


def conf_path(*, required: bool = True) -> Option[Any]:
    return click.option(
        "-c", "--conf-path", required=required, type=click.Path(exists=True, dir_okay=False),
        help="Configuration, a JSON file.",
    )


def job_file() -> Option[Any]:
    return click.option(
        "-f", "--file", "job_file", type=click.Path(exists=True, dir_okay=False),
        help="The whole job in one YAML file; instead of -c and -d.",
    )


def dsl_path() -> Option[Any]:
    return click.option(
        "-d", "--dsl-path", type=click.Path(exists=True, dir_okay=False), help="Components of the job, a JSON file."
    )


def output_path(*, required: bool = False) -> Option[Any]:
    return click.option(
        "-o", "--output-path", required=required, type=click.Path(file_okay=False), help="Folder to write into."
    )


def namespace(*, required: bool = False) -> Option[Any]:
    return click.option("-n", "--namespace", required=required, help="Namespace of a table.")


def table_name(*, required: bool = False) -> Option[Any]:
    return click.option("-t", "--table-name", required=required, help="Name of a table.")


def as_json() -> Option[Any]:
    return click.option("--json", "as_json", is_flag=True, help="Print the server's reply as JSON.")


def form() -> Option[Any]:
    """Choose between JSON for scripts and a table for people; `as_json` is None if neither was chosen."""
    return click.option(
        "--json/--table", "as_json", default=None,
        help="Print JSON or a table; by default a table on a terminal and JSON elsewhere.",
    )


def message(text: str) -> Option[Any]:
    return click.option("-m", "--message", required=True, help=text)


def author() -> Option[Any]:
    return click.option(
        "--by", "author", default=login_name, metavar="NAME",
        help="Your name for the record, unchecked, beside that of your key; the login name by default.",
    )


def login_name() -> str:
    """Return the name of the user of this shell."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):     # this user id has no name
        return f"user {os.getuid()}"


def watched() -> Option[Any]:
    return click.option(
        "--watch", "is_watched", is_flag=True, help="Show progress until the job ends; fail if it fails."
    )


def task_version() -> Option[Any]:
    return click.option("-v", "--task-version", type=int, help="Version of the task; the newest by default.")


def one_seat(command: Command) -> Command:
    """Add four required options that name a component of a job at one party."""
    for option in (component_name, party_id, role, job_id):
        command = option(required=True)(command)
    return command


def with_client(command: Callable[..., Any]) -> Callable[..., Any]:
    """Pass the client of the server to the command as its first argument."""
    return click.pass_obj(command)


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that the user gave: the genuine client sends only those."""
    return {name: value for name, value in options.items() if value is not None}
