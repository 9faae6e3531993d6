"""What a worker prints: once, or as it comes (`flow task log -f`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from fate_flow.cli.connection.client import CallFailed, Client, data_of
from fate_flow.cli.console.display import printable, tell
from fate_flow.cli.console.wording import reason_of
from fate_flow.core.model.status import WorkerStatus

LOOK_SECONDS = 0.5
_MOST_LOOKS_WITHOUT_ANSWER = 120         # for the next process, which a newer version may have to wait for
INTERRUPTED = 130

Printed = Mapping[str, Any]


def print_once(said: Printed) -> None:
    """The text on stdout; on stderr what else there is to be seen."""
    click.echo(printable(said["text"]), nl=False)
    if len(said.get("attempts") or ()) > 1:
        tell(_other_attempts(said))
    if earlier := _earlier_versions(said):
        tell(earlier)


def follow_log(client: Client, body: Mapping[str, Any]) -> None:
    """Prints what the worker prints until it has exited, and goes on with the process that takes its place, where no
    other one is named. Raises CallFailed when the server refuses."""
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
    """What a process has printed at its very end, before another one took its place."""
    answer = client.post("task/log", {**body, "offset": offset})
    if answer.is_success:
        click.echo(printable(data_of(answer)["text"]), nl=False)


def _ask(client: Client, body: Mapping[str, Any], offset: int | None, *, is_first: bool) -> Printed:
    """Raises CallFailed when the server refuses, and cannot be waited for."""
    pending = {**body, "offset": offset} if offset is not None else dict(body)
    for _ in range(1 if is_first else _MOST_LOOKS_WITHOUT_ANSWER):
        answer = client.post("task/log", pending)
        if answer.is_success:
            break
        client.pause(LOOK_SECONDS)
    said = data_of(answer)
    if "next_offset" not in said:
        raise CallFailed("-f: the server of this party is too old to be followed; without -f it shows what there is")
    return said


def _other_attempts(said: Printed) -> str:
    """Which process this was of its slot, and how the others ended whose output is still there."""
    others = [one for one in said["attempts"] if one["is_kept"] and one["attempt"] != said["attempt"]]
    text = (f"{one['attempt']} ({one['reason'] or one['status']})" for one in others)
    return f"worker {said['worker']}, attempt {said['attempt']}; --attempt shows {', '.join(text) or 'no other'}"


def _earlier_versions(said: Printed) -> str:
    """Which versions of the task have printed something before this one, and how they ended; empty: none has."""
    earlier = [one for one in said.get("versions") or () if one["task_version"] < said["task_version"]]
    text = (f"-v {one['task_version']}" + (f" ({one['reason']})" if one["reason"] else "") for one in earlier)
    return f"version {said['task_version']} of the task; earlier: {', '.join(text)}" if earlier else ""
