"""Show the output of a worker: once, or continuously (`flow task log -f`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from fate_flow.cli.connection.client import CallFailed, Client, data_of
from fate_flow.cli.console.display import printable, tell
from fate_flow.cli.console.wording import reason_of
from fate_flow.core.model.status import WorkerStatus

LOOK_SECONDS = 0.5
_MOST_LOOKS_WITHOUT_ANSWER = 120         # a new version of the task may wait before its process starts
INTERRUPTED = 130

Printed = Mapping[str, Any]


def print_once(said: Printed) -> None:
    """Print the text on stdout; on stderr the other attempts and versions that can be shown."""
    click.echo(printable(said["text"]), nl=False)
    if len(said.get("attempts") or ()) > 1:
        tell(_other_attempts(said))
    if earlier := _earlier_versions(said):
        tell(earlier)


def follow_log(client: Client, body: Mapping[str, Any]) -> None:
    """Print what the worker prints until it exits; unless an attempt or version is named, go on with the process that
    replaces it. Raise CallFailed if the server refuses."""
    try:
        _follow(client, body)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


def _follow(client: Client, body: Mapping[str, Any]) -> None:
    which: tuple[int, int] | None = None
    offset: int | None = None
    while True:
        said = _ask(client, body, offset, is_first=which is None)
        now = (said["task_version"], said["attempt"])
        if which is None and (earlier := _earlier_versions(said)):
            tell(earlier)
        if which is not None and which != now:
            _print_rest(client, {**body, "task_version": which[0], "attempt": which[1]}, offset)
            tell(f"version {now[0]}, attempt {now[1]} begins")
            which, offset = now, 0
            continue
        click.echo(printable(said["text"]), nl=False)
        is_whole = said["next_offset"] >= said["bytes"] or not said["text"]
        which, offset = now, said["next_offset"]
        if said["status"] == WorkerStatus.EXITED.value and is_whole:
            tell(": ".join(filter(None, ("the worker has exited", said.get("exit_status"), reason_of(said)))))
            return
        if is_whole:
            client.pause(LOOK_SECONDS)


def _print_rest(client: Client, body: Mapping[str, Any], offset: int | None) -> None:
    """Print the last output of a process that was replaced."""
    answer = client.post("task/log", {**body, "offset": offset})
    if answer.is_success:
        click.echo(printable(data_of(answer)["text"]), nl=False)


def _ask(client: Client, body: Mapping[str, Any], offset: int | None, *, is_first: bool) -> Printed:
    """Return the output from `offset` on. Retry unless it is the first request; raise CallFailed if all are refused."""
    pending = {**body, "offset": offset} if offset is not None else dict(body)
    for _ in range(1 if is_first else _MOST_LOOKS_WITHOUT_ANSWER):
        answer = client.post("task/log", pending)
        if answer.is_success:
            break
        client.pause(LOOK_SECONDS)
    said = data_of(answer)
    if "next_offset" not in said:
        raise CallFailed("-f: the server of this party is too old to follow output; run the command without -f")
    return said


def _other_attempts(said: Printed) -> str:
    """Return which attempt this was, and how the other attempts ended whose output is still kept."""
    others = [one for one in said["attempts"] if one["is_kept"] and one["attempt"] != said["attempt"]]
    text = (f"{one['attempt']} ({one['reason'] or one['status']})" for one in others)
    return f"worker {said['worker']}, attempt {said['attempt']}; --attempt shows {', '.join(text) or 'no other'}"


def _earlier_versions(said: Printed) -> str:
    """Return the earlier versions of the task that printed something, and how they ended; "" if there are none."""
    earlier = [one for one in said.get("versions") or () if one["task_version"] < said["task_version"]]
    text = (f"-v {one['task_version']}" + (f" ({one['reason']})" if one["reason"] else "") for one in earlier)
    return f"version {said['task_version']} of the task; earlier: {', '.join(text)}" if earlier else ""
