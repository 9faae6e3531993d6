"""The requests, other than reports, that a party sends to the initiator of a job, and their answers.

- `stop/<status>` asks to stop the job. Plain v1 has it, too; our extensions are to give the workers no time to finish,
  and to say why.
- `rerun` asks to run the ended job again. A client's request has the same fields.
- `room` is a capacity notice: this party has capacity again for the waiting job.
- `standing` asks whether the job still runs, and if not, how it ended. The answer to `stop` states the same if the job
  is over, in a later run, or unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import check_component_name, shown
from fate_flow.core.model.job import Command, CommandKind
from fate_flow.core.model.reasons import Reason, job_status_for
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JOB_END, JobStatus
from fate_flow.core.wire.v1.endings import JobEnd, read_job_end
from fate_flow.core.wire.v1.fields import count_in, reason_in, text_in
from fate_flow.core.wire.v1.job_answers import ONE_PLACE, PlaceState, places_data


@dataclass(frozen=True)
class StopRequest:
    """A party's request to stop a job, without the status of the path."""

    now: bool = False                    # the workers get no time to finish
    reason: Reason | None = None         # None: the general one of the status, as in plain v1
    message: str = ""

    def as_body(self) -> dict[str, Any]:
        why = {} if self.reason is None else {"reason": self.reason.value, "message": self.message}
        return {**({"now": True} if self.now else {}), **why}


_MAY_BE_ASKED_FOR = frozenset({Reason.PARTY_REVOKED, Reason.OTHER_DOCUMENT})


def read_stop_request(body: Mapping[str, Any], status: str) -> StopRequest:
    """Read the body of `stop/<status>`. A reason that no party may ask for, or not with this status, counts as none."""
    now, reason = body.get("now") is True, reason_in(body)
    if reason not in _MAY_BE_ASKED_FOR or job_status_for(reason).value != status:
        return StopRequest(now)
    return StopRequest(now, reason, text_in(body, "message"))


@dataclass(frozen=True)
class RerunRequest:
    """A user's request: the component to start from (empty: none), and whether tasks that succeeded run again, too."""

    component: str = ""
    force: bool = False

    def as_body(self, job_id: str) -> dict[str, Any]:
        return {
            "job_id": job_id,
            **({"component_name": self.component} if self.component else {}),
            **({"force": True} if self.force else {}),
        }


WHOLE_PIPELINE = "pipeline"
"""FATE's name for no component: what failed runs again."""


def read_rerun(body: Mapping[str, Any]) -> RerunRequest:
    """Read the body of `rerun`, of another party or of a client. Raises BadRequest."""
    force, component = body.get("force"), body.get("component_name")
    if force is not None and not isinstance(force, bool):
        raise BadRequest(f"force: {shown(force)} is neither true nor false")
    if component in (None, "", WHOLE_PIPELINE):
        return RerunRequest(force=bool(force))
    return RerunRequest(check_component_name(component), bool(force))


def capacity_body(
    party: Party, free_cores: int, places: Mapping[str, PlaceState] = ONE_PLACE
) -> dict[str, Any]:  # fmt: skip
    """Return the body of a capacity notice from the seat of this party; `places`: by tag, if it has several engines."""
    return {"role": party.role, "party_id": party.party_id, "free_cores": free_cores, **places_data(places)}


def read_capacity(body: Mapping[str, Any]) -> int:
    """Read the number of free cores in a capacity notice. Raises BadRequest."""
    cores = count_in(body, "free_cores")
    if cores is None:
        raise BadRequest(f"free_cores: {shown(body.get('free_cores'))} is not a number of cores")
    return cores


def seat_in(command: Command) -> Party:
    """Return the seat that the command is about: the sender's seat in the body for a report or a capacity notice,
    otherwise the addressed seat."""
    is_of_sender = command.kind in (CommandKind.REPORT, CommandKind.CAPACITY)
    return Party(str(command.body.get("role")), str(command.body.get("party_id"))) if is_of_sender else command.to


@dataclass(frozen=True)
class Standing:
    """The initiator's statement about its job."""

    run: int
    status: JobStatus | None             # None: a status that this server does not know
    end: JobEnd | None = None            # of a job that is over

    def as_data(self) -> dict[str, Any]:
        assert self.status is not None, "the initiator has one of our statuses"
        data = {"run": self.run, "status": self.status.value}
        return data if self.end is None else {**data, **self.end.as_body()}


def unknown_data() -> dict[str, Any]:
    """Return the data of an answer about an unknown job."""
    return {"is_unknown": True}


def is_unknown(data: Mapping[str, Any]) -> bool:
    return data.get("is_unknown") is True


def read_standing(data: Mapping[str, Any]) -> Standing | None:
    """Read the initiator's statement about a job that it knows; None if there is none."""
    run = data.get("run")
    if not isinstance(run, int):
        return None
    try:
        status = JobStatus(data.get("status"))
    except ValueError:
        return Standing(run, None)
    return Standing(run, status, read_job_end(data, status) if status in JOB_END else None)
