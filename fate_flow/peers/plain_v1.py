"""What is sent to a server that is not known to be one of ours: it may speak plain v1, as those of FATE Flow 1.x do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fate_flow.core.model.job import Command, CommandKind
from fate_flow.peers.wire import body_of


def body_for_unknown(command: Command) -> dict[str, Any]:
    """The body with what a server of FATE cannot do without, and ours makes by itself."""
    body = body_of(command)
    conf = body.get("runtime_conf")
    if command.kind is CommandKind.CREATE and isinstance(conf, Mapping):
        return {**body, "runtime_conf_on_party": _on_party(conf)}
    return body


def _on_party(conf: Mapping[str, Any]) -> dict[str, Any]:
    """With the job parameters flat, which the receiver replaces by its own."""
    parameters = conf.get("job_parameters")
    common = parameters.get("common") if isinstance(parameters, Mapping) else None
    return {**conf, "job_parameters": common or {}}
