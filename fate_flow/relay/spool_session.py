"""The identity of a session of the spool: one attempt of a task at one party."""

from __future__ import annotations

from dataclasses import dataclass

from fate_flow.core.model.grammar import (
    check_incarnation,
    check_job_id,
    check_party_id,
    check_role,
    check_task_id,
    check_version,
)

PartyKey = tuple[str, str]  # role, party id


@dataclass(frozen=True)
class Session:
    """One attempt of a task at one party. Raises BadRequest for a field that is not valid in a path."""

    job_id: str
    task_id: str
    version: int
    incarnation: str
    role: str
    party_id: str

    def __post_init__(self) -> None:
        check_job_id(self.job_id)
        check_task_id(self.task_id)
        check_version(self.version, "version")
        check_incarnation(self.incarnation)
        check_role(self.role)
        check_party_id(self.party_id)

    def __str__(self) -> str:
        return (f"{self.job_id}/{self.task_id}/{self.version}/{self.incarnation}"
                f"/{self.role}/{self.party_id}")
