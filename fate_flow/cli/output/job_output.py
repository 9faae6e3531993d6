"""Follow what all workers of a job print, at this party and at those that share it (`flow job log -f`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import click

from fate_flow.cli.connection.client import Client, data_of
from fate_flow.cli.console.display import one_line, printable, tell
from fate_flow.cli.console.wording import job_title, party_name, reason_of
from fate_flow.cli.output.task_log import INTERRUPTED, LOOK_SECONDS, Printing, is_whole
from fate_flow.core.model.status import JOB_END, TASK_END, TaskStatus
from fate_flow.core.wire.v1.retcodes import OF_PERMISSIONS

_STREAMS = ("stdout", "stderr")
_LOOKS_BETWEEN = 10            # until a worker that was not there is asked for again: a task may get more
_NOT_BEGUN = frozenset({TaskStatus.WAITING.value, "pass", ""})
_JOB_ENDED = frozenset(status.value for status in JOB_END)
_TASK_ENDED = frozenset(status.value for status in TASK_END)

Row = Mapping[str, Any]


@dataclass
class _Output:
    """What one worker of a task prints on one stream."""

    name: str                  # in front of each line
    printing: Printing
    line: str = ""             # that has no end yet
    is_done: bool = False
    skips: int = 0             # so many looks


@dataclass
class _Share:
    """The workers of a task at one party."""

    component: str
    role: str
    party_id: str
    outputs: dict[tuple[int, str], _Output] = field(default_factory=dict)      # by worker and stream
    refusal: str = ""


class _Follower:
    def __init__(self, client: Client, job_id: str) -> None:
        self._client = client
        self._job_id = job_id
        self._shares: dict[tuple[str, str], _Share] = {}

    def look(self) -> Row:
        """Print what is new; return the state of the job."""
        state = data_of(self._client.post("job/explain", {"job_id": self._job_id}))
        for component, share in _begun(state):
            found = self._shares.setdefault(
                (component, party_name(share)), _Share(component, share["role"], str(share["party_id"]))
            )
            self._print(found, is_over=share.get("status") in _TASK_ENDED)
        return state

    def _print(self, share: _Share, *, is_over: bool) -> None:
        worker = 0
        while worker == 0 or any(one.printing.has_begun for (at, _), one in share.outputs.items() if at == worker - 1):
            for stream in _STREAMS:
                output = share.outputs.setdefault((worker, stream), self._output(share, worker, stream))
                self._print_stream(share, output, is_over=is_over, is_first=worker == 0)
            worker += 1

    def _output(self, share: _Share, worker: int, stream: str) -> _Output:
        name = f"{share.component} {share.role}-{share.party_id}" + (f" worker {worker}" if worker else "")
        body = {
            "job_id": self._job_id, "component_name": share.component, "role": share.role, "party_id": share.party_id,
            "worker": worker, "stream": stream,
        }
        return _Output(name, Printing(self._client, body, 0))

    def _print_stream(self, share: _Share, output: _Output, *, is_over: bool, is_first: bool) -> None:
        if output.is_done if is_over else output.skips:
            output.skips -= not is_over
            return
        while True:
            answer = output.printing.ask()
            if not answer.is_success or "next_offset" not in (answer.data or {}):
                is_refused = answer.envelope.get("retcode") in OF_PERMISSIONS
                if is_first and (is_refused or is_over) and answer.message != share.refusal:
                    share.refusal = answer.message
                    tell(f"{output.name}: {one_line(answer.message)}")
                output.is_done, output.skips = is_over, 0 if is_first and not is_refused else _LOOKS_BETWEEN
                return
            text, is_replaced = output.printing.read(answer.data)
            _show(output, text)
            if is_replaced:
                _end_line(output)
                tell(f"{output.name}: version {answer.data['task_version']}, attempt {answer.data['attempt']} begins")
            elif is_whole(answer.data):
                break
        output.is_done = is_over
        if is_over:
            _end_line(output)


def follow_job_output(client: Client, job_id: str) -> None:
    """Print the lines of all workers until the job has ended. Raise CallFailed if the server refuses."""
    follower = _Follower(client, job_id)
    try:
        while (state := follower.look())["status"] not in _JOB_ENDED:
            client.pause(LOOK_SECONDS)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    why = f": {reason_of(state)}" if reason_of(state) else ""
    tell(f"{job_title(job_id, one_line(state.get('name') or ''))}: {state['status']}{why}")


def _begun(state: Row) -> Iterator[tuple[str, Row]]:
    """Yield the shares of tasks whose workers may have printed something."""
    for task in state.get("tasks") or ():
        for share in task.get("parties") or ():
            if task.get("task_version") or share.get("status") not in _NOT_BEGUN:
                yield str(task.get("component_name")), share


def _show(output: _Output, text: str) -> None:
    *lines, output.line = (output.line + text).split("\n")
    for line in lines:
        click.echo(f"{output.name} | {printable(line)}")


def _end_line(output: _Output) -> None:
    if output.line:
        _show(output, "\n")
