"""Jobs of programs at servers of parties: their documents, and what is seen of them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from tests.kit.servers.party_servers import Cluster, PartyServer, Row, job_of

PYTHON = sys.executable


def command(roles: Mapping[str, Any], by_role: Mapping[str, Any] | None = None, **parameters: Any) -> dict[str, Any]:
    """One task `train`; `by_role` as `component_parameters.role` has it, `job` what its job parameters are."""
    job = parameters.pop("job", {})
    return job_of(
        {"train": {"module": "Command"}}, roles, common={"train": parameters},
        by_role={
            role: {one: {"train": said} for one, said in seats.items()} for role, seats in (by_role or {}).items()
        },
        parameters=job,
    )


def python(code: str) -> list[str]:
    return [PYTHON, "-c", code]


def printed(party: PartyServer, job_id: str, stream: str = "stdout", **pending: Any) -> str:
    found = party.ask("task/log", {"job_id": job_id, "component_name": "train", "stream": stream, **pending})
    return str(found["text"])


def refusal(cluster: Cluster, document: Mapping[str, Any]) -> str:
    with cluster.unchanged():
        answer = cluster.guest.submit(document)
        assert answer["retcode"] != 0
    return str(answer["retmsg"])


def workers(party: PartyServer, job_id: str) -> list[Row]:
    return party.rows(
        "SELECT * FROM t_worker WHERE f_job_id = ? ORDER BY f_task_version, f_slot, f_attempt", job_id
    )
