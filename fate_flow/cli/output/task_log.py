"""Show the output of a worker: once, or continuously (`flow task log -f`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from fate_flow.cli.connection.client import CallFailed, Client, data_of
from fate_flow.cli.console.display import printable, tell
from fate_flow.cli.console.reply import ServerReply
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


class Printing:
    """What a worker prints on one stream, read piece by piece."""

    def __init__(self, client: Client, body: Mapping[str, Any], offset: int | None = None) -> None:
        """`body`: of `task/log`, without an offset. `offset`: of the first byte; None: begin with the last bytes."""
        self._client = client
        self._body = body
        self._which: tuple[int, int] | None = None     # version and attempt
        self._offset = offset

    @property
    def has_begun(self) -> bool:
        """Return whether something was read."""
        return self._which is not None

    def ask(self) -> ServerReply:
        """Ask for the next piece."""
        offset = {} if self._offset is None else {"offset": self._offset}
        return self._client.post("task/log", {**self._body, **offset})

    def read(self, said: Printed) -> tuple[str, bool]:
        """Return what an answer adds, and whether another process has taken the place of the one that was read: then it
        is the rest of that one, and the next answer has what the new one prints."""
        now = (said["task_version"], said["attempt"])
        if self._which in (None, now):
            self._which, self._offset = now, said["next_offset"]
            return said["text"], False
        version, attempt = self._which
        self._which = now
        body = {**self._body, "task_version": version, "attempt": attempt, "offset": self._offset}
        self._offset = 0
        answer = self._client.post("task/log", body)
        return data_of(answer)["text"] if answer.is_success else "", True


def is_whole(said: Printed) -> bool:
    """Return whether nothing more was printed when this was answered."""
    return said["next_offset"] >= said["bytes"] or not said["text"]


def _follow(client: Client, body: Mapping[str, Any]) -> None:
    printing = Printing(client, body)
    while True:
        is_first = not printing.has_begun
        said = _ask(client, printing, is_first=is_first)
        if is_first and (earlier := _earlier_versions(said)):
            tell(earlier)
        text, is_replaced = printing.read(said)
        click.echo(printable(text), nl=False)
        if is_replaced:
            tell(f"version {said['task_version']}, attempt {said['attempt']} begins")
            continue
        if said["status"] == WorkerStatus.EXITED.value and is_whole(said):
            tell(": ".join(filter(None, ("the worker has exited", said.get("exit_status"), reason_of(said)))))
            return
        if is_whole(said):
            client.pause(LOOK_SECONDS)


def _ask(client: Client, printing: Printing, *, is_first: bool) -> Printed:
    """Return the next piece. Retry unless it is the first request; raise CallFailed if all are refused."""
    for _ in range(1 if is_first else _MOST_LOOKS_WITHOUT_ANSWER):
        answer = printing.ask()
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
