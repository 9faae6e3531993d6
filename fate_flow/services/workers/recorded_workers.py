"""What the record says of a worker: what it was given when it was ordered, and what it has made when it ended.

What was ordered has the digests that the server knows: of parameters, of files that came with the job, and of programs
that the document names by their digest. The program, the tables and the files of this party are read by the runner,
on the machine where they are; their digests come with the end.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from fate_flow.core.model.artifact import Artifact, Content
from fate_flow.core.model.job import Worker
from fate_flow.core.model.program import InputFile
from fate_flow.core.model.reasons import Reason
from fate_flow.services.context.ports import LaunchOrder, Observation
from fate_flow.services.context.recording import record_worker
from fate_flow.services.context.unit_of_work import UnitOfWork


def record_order(unit: UnitOfWork, order: LaunchOrder) -> None:
    """Record what a worker is given. An order that is repeated, because no process began, is recorded again."""
    if unit.context.keeps_record:
        record_worker(unit, order.worker, "ordered", _given(order))


def record_end(unit: UnitOfWork, worker: Worker, reason: Reason, seen: Observation) -> None:
    """Record how the process of a worker has ended, and what it says that it has made."""
    if unit.context.keeps_record:
        made = _listed(seen.made.artifacts)
        ended = {"code": seen.exit_code, "signal": seen.signal, "reason": reason.value}
        contents = [_said_of(one) for one in seen.contents]
        record_worker(unit, worker, "ended", {**_said({**ended, "contents": contents or None}), "outputs": made})


def _said_of(one: Content) -> dict[str, Any]:
    return {"use": one.use.value, "uri": one.uri, "sha256": one.sha256, "size": one.size}


def _given(order: LaunchOrder) -> dict[str, Any]:
    program = order.program.command if order.program is not None else None
    files = {one.name: _digest_of(one) for one in program.files} if program is not None else {}
    return _said({
        "module": order.module,
        "engine": order.worker.engine,
        "document": order.document,
        "parameters": _sha256(order.parameters),
        "program": list(program.argv) if program is not None else None,
        "files": files or None,
        "inputs": _listed(order.inputs),
    })  # fmt: skip


def _listed(artifacts: Iterable[Artifact]) -> list[dict[str, Any]]:
    return [
        _said({"key": one.key, "kind": one.kind, "uri": one.uri, "sha256": one.sha256, "size": one.size or None})
        for one in artifacts
    ]  # fmt: skip


def _digest_of(file: InputFile) -> str:
    """Return the digest of the content that the worker gets; empty if the document does not fix it."""
    sent = file.sent
    return file.sha256 if sent is None else sha256(sent).hexdigest()


def _sha256(value: object) -> str:
    return sha256(json.dumps(value, sort_keys=True, separators=(",", ":"), default=str).encode()).hexdigest()


def _said(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value not in ("", None)}
