"""The differences for a server that speaks plain v1, as FATE Flow 1.x does, or that may speak it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fate_flow.core.model.job import Answer, Command, CommandKind
from fate_flow.core.wire.v1.envelope import body_of

NO_SUCH_ROUTE = 404
_UNCAUGHT = 100              # FATE's retcode for any error, also for an unknown path


def body_for_unknown(command: Command) -> dict[str, Any]:
    """Return the body with the fields that a FATE server needs; our servers derive them."""
    body = body_of(command)
    conf = body.get("runtime_conf")
    if command.kind is CommandKind.CREATE and isinstance(conf, Mapping):
        return {**body, "runtime_conf_on_party": _on_party(conf)}
    return body


def _on_party(conf: Mapping[str, Any]) -> dict[str, Any]:
    """Return the conf with flat job parameters, which the receiver replaces by its own."""
    parameters = conf.get("job_parameters")
    common = parameters.get("common") if isinstance(parameters, Mapping) else None
    return {**conf, "job_parameters": common or {}}


def is_of_plain_v1(answer: Answer) -> bool:
    """Return whether the answer to one of our queries can only be that of a server that does not know it."""
    return answer.retcode in (NO_SUCH_ROUTE, _UNCAUGHT) and not answer.is_named


def has_no_such_route(answer: Answer) -> bool:
    """Return whether a plain v1 server answers that it does not know the path.

    FATE answers with HTTP status 200 and retcode 100; a proxy in front of it may answer with status 404."""
    return answer.retcode == NO_SUCH_ROUTE or (answer.retcode == _UNCAUGHT and "404" in answer.retmsg)
