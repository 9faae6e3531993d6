"""The task whose outputs a request asks for."""

from __future__ import annotations

from dataclasses import dataclass

from fate_flow.api.http.arguments import read_job_id, read_party
from fate_flow.api.http.declared import TEXT, Arguments
from fate_flow.api.v2.arguments import arguments
from fate_flow.api.v2.errors import TaskNotFound, not_found
from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import check_component_name
from fate_flow.core.model.spec import Party
from fate_flow.store.views.views import Views

TASK: Arguments = dict.fromkeys(("job_id", "role", "party_id", "task_name"), TEXT)


@dataclass(frozen=True)
class AskedTask:
    """A task of a party that is known here."""

    job_id: str
    party: Party
    name: str


def task_asked(views: Views) -> AskedTask:
    """Return the task that the request names. Raise TaskNotFound if it is not known here; nothing has a malformed
    name."""
    sent = arguments()
    missing = not_found(TaskNotFound, **{key: sent[key] for key in TASK})
    try:
        found = AskedTask(read_job_id(sent), read_party(sent), check_component_name(sent["task_name"]))
    except BadRequest as error:
        raise missing from error
    where = {
        "job_id": found.job_id, "role": found.party.role, "party_id": found.party.party_id,
        "component_name": found.name,
    }  # fmt: skip
    if not views.tasks(("task_id",), where):
        raise missing
    return found
