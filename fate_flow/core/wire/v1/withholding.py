"""Commands and answers of an initiator with less in them, for a party that does not get all of a document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from fate_flow.core.model.job import Answer, Command, CommandKind
from fate_flow.core.wire.v1.job_bodies import Parameters, parameters_in, read_parameters

Change = Callable[[Parameters], Parameters]
Redact = Callable[[str], str]

_SUCCESS = Answer().retmsg          # says nothing of a document
_MESSAGE, _LAST, _PARAMETERS = "message", "last", "parameters"


def restricted_command(command: Command, change: Change, redact: Redact) -> Command:
    """Return the command with changed parameters, if it has any, and with messages as `redact` returns them."""
    body = dict(command.body)
    if command.kind is CommandKind.PARAMETERS:
        body = change(read_parameters(body)).as_body()
    elif (given := parameters_in(body)) is not None:
        body[_PARAMETERS] = change(read_parameters(given)).as_body()
    return replace(command, body=_with_messages(body, redact))


def restricted_answer(answer: Answer, redact: Redact) -> Answer:
    """Return the answer with messages as `redact` returns them."""
    data = _with_messages(answer.data, redact) if isinstance(answer.data, Mapping) else answer.data
    retmsg = answer.retmsg if answer.retmsg in ("", _SUCCESS) else redact(answer.retmsg)
    return replace(answer, retmsg=retmsg, data=data)


def _with_messages(body: Mapping[str, Any], redact: Redact) -> dict[str, Any]:
    """Return the body with other messages, also in the part about the last run."""
    message, last = body.get(_MESSAGE), body.get(_LAST)
    return {
        **body,
        **({_MESSAGE: redact(message)} if isinstance(message, str) and message else {}),
        **({_LAST: _with_messages(last, redact)} if isinstance(last, Mapping) else {}),
    }
