"""Other parameters for a job, as its initiator describes them to the other parties."""

from __future__ import annotations

from typing import Any

from fate_flow.core.model.job import Command
from fate_flow.core.model.job import CommandKind as K
from tests.kit.services.party_commands import command

MORE_CORES = {"common": {"task_cores": 3, "timeout": 50}}
PARTS = {"job_parameters": MORE_CORES, "component_parameters": {"common": {"a": {"x": 1}}}}


def described(revision: int | None = 1, run: int = 0, **parts: Any) -> Command:
    body = {**PARTS, "components": ["a", "zzz"], **parts}
    return command(K.PARAMETERS, run=run, **body, **({} if revision is None else {"revision": revision}))
