"""The bodies of commands about a task, as the initiator writes them and a participant reads them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from fate_flow.core.model.grammar import check_incarnation
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import TaskStatus
from fate_flow.core.wire.v1.fields import cause_in, parties_in, reason_in, text_in, whole_in

_BEGINS_AGAIN = "begins_again"


def of_incarnation(incarnation: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a command about this incarnation of a task."""
    return {"incarnation": incarnation, **body}


def incarnation_in(body: Mapping[str, Any]) -> str:
    """Return the incarnation that a command of ours is about; empty if it names none."""
    return str(body.get("incarnation") or "")


def is_other_incarnation(body: Mapping[str, Any], incarnation: str) -> bool:
    """Return whether the command names another incarnation than this one; plain v1 names none."""
    return body.get("incarnation") not in (None, incarnation)


@dataclass(frozen=True)
class TaskRow:
    """The fields of a new version that a plain v1 server inserts as a row (party-api-v1, sections 3 and 7)."""

    key: TaskKey
    version: int
    initiator: Party
    federated_mode: str
    collect_type: str

    def as_body(self) -> dict[str, Any]:
        key, waiting = self.key, TaskStatus.WAITING.value
        return {
            "job_id": key.job_id,
            "component_name": key.name,
            "task_id": key.task_id,
            "task_version": self.version,
            "role": key.party.role,
            "party_id": key.party.party_id,
            "initiator_role": self.initiator.role,
            "initiator_party_id": self.initiator.party_id,
            "federated_mode": self.federated_mode,
            "federated_status_collect_type": self.collect_type,
            "status": waiting,
            "party_status": waiting,
            "run_on_this_party": True,
            "auto_retry_delay": 0,           # this side waits before it sends the start
        }


@dataclass(frozen=True)
class TaskCreate:
    """The body of `create`: a new version. The party's history shows why the version began."""

    incarnation: str                     # empty: plain v1 gives none
    auto_retries: int = 0                # retries that are left
    reason: Reason | None = None
    message: str = ""
    caused_by: str = ""

    def as_body(self) -> dict[str, Any]:
        reason = {"reason": self.reason.value} if self.reason else {}
        return {**self._version(), **reason, "message": self.message, "caused_by": self.caused_by}

    def as_plain_v1(self, row: TaskRow) -> dict[str, Any]:
        return {**self._version(), **row.as_body()}

    def _version(self) -> dict[str, Any]:
        return {"incarnation": self.incarnation, "auto_retries": self.auto_retries}


def read_task_create(body: Mapping[str, Any]) -> TaskCreate:
    """Raises BadRequest."""
    given = body.get("incarnation")
    incarnation, left = check_incarnation(given) if given else "", whole_in(body, "auto_retries") or 0
    return TaskCreate(incarnation, left, reason_in(body), text_in(body, "message"), cause_in(body))


def start_body(without: Collection[Party]) -> dict[str, Any]:
    """Return the body of `start`. `without`: missing parties; no worker waits for messages from them."""
    return {"without": [str(party) for party in sorted(without)]} if without else {}


GATHERED_BODY: Mapping[str, Any] = {"gathered": True}
"""The body of a second `start`: the whole gang is there, so the share begins whose workers have arrived."""


def is_gathered(body: Mapping[str, Any]) -> bool:
    """Return whether a `start` is that second one."""
    return body.get("gathered") is True


def without_in(body: Mapping[str, Any], parties: Collection[Party]) -> tuple[str, ...]:
    """Return the parties of the job that are missing at the start."""
    return parties_in(body.get("without"), parties)


@dataclass(frozen=True)
class TaskStop:
    """The body of `stop/<status>`."""

    caused_by: str = ""                  # the party that is the cause; empty: the initiator
    begins_again: bool = False           # the task is stopped to start again
    is_passed_over: bool = False         # the task goes on without this party, which was missing at its start

    def as_body(self) -> dict[str, Any]:
        return {
            **({"caused_by": self.caused_by} if self.caused_by else {}),
            **({_BEGINS_AGAIN: True} if self.begins_again else {}),
            **({"reason": Reason.PARTY_MISSING.value} if self.is_passed_over else {}),
        }


def read_task_stop(body: Mapping[str, Any]) -> TaskStop:
    return TaskStop(cause_in(body), body.get(_BEGINS_AGAIN) is True, reason_in(body) is Reason.PARTY_MISSING)
