"""Bodies for a server that is not known to be one of ours, and may speak plain v1 like those of FATE Flow 1.x."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fate_flow.core.model.job import Command, CommandKind
from fate_flow.peers.wire import body_of


def body_for_unknown(command: Command) -> dict[str, Any]:
    """Return the body with the fields that a server of FATE needs, and that ours makes by itself."""
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
