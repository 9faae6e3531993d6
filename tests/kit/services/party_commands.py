"""Commands of a guest to its host, and a host that has carried some out."""

from __future__ import annotations

from typing import Any

from fate_flow.core.model.job import (
    Command,
    CommandKind,
)
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.spec import Party
from fate_flow.store.values import Document
from tests.kit.job_documents import job
from tests.kit.services.hand_server import HandServer
from tests.kit.values import HOST, JOB_ID

DOCUMENT = job({"guest": ["9999"], "host": ["10000"]}, {"a": [], "b": ["a"]}, cores=2)
INCARNATIONS = {"a": "a1" * 16, "b": "b1" * 16}


def command(kind: CommandKind, to: Party = HOST, argument: str = "", run: int = 0, **body: Any) -> Command:
    return Command(kind, JOB_ID, to, run, argument=argument, body=body)


def task_command(
    kind: CommandKind, name: str = "a", to: Party = HOST, argument: str = "", version: int = 0, **body: Any
) -> Command:
    return Command(kind, JOB_ID, to, 0, name, version, argument, body or {"incarnation": INCARNATIONS.get(name, "")})


def create(to: Party = HOST, document: Document = DOCUMENT, **more: Any) -> Command:
    """`create` as an initiator with our extensions sends it."""
    body = {
        "dsl": document.dsl, "runtime_conf": document.runtime_conf, "name": "n", "description": "d",
        "extensions": {"batch": 1}, "incarnations": INCARNATIONS, **more,
    }  # fmt: skip
    return command(CommandKind.CREATE, to, **body)


JOIN = (create(), command(CommandKind.STATUS, argument="waiting"))
HOLD = (*JOIN, command(CommandKind.CHECK, turn=1), command(CommandKind.APPLY, turn=1))
RUN = (*HOLD, command(CommandKind.START))
ENDED = (*RUN, command(CommandKind.STATUS, argument="failed", reason="task_failed"))
"""The commands that bring a host so far."""


def a_host(*commands: Command, **server: Any) -> HandServer:
    """The server of host 10000 after these commands of guest 9999, each of which it carried out."""
    host = HandServer("10000", **server)
    for one in commands:
        answer = host.handle(one)
        assert answer.is_ok, (one, answer)
    return host


START_A = task_command(K.TASK_START)
