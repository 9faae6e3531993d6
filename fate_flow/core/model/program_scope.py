"""What a worker of a command is told about its place: names with their scope in the name, and the file with its peers.

A *gang* are the ranked workers of all parties, in the order of the job's parties; a *role* the parties of one role; a
*party* the workers of one party. YTsaurus's and Volcano's names stand beside ours where they have one: a task of
theirs is the share of one party in ours (YTsaurus), or that of all parties of a role (Volcano).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.program import ProgramSpec, program_at
from fate_flow.core.model.spec import Party, TaskSpec


@dataclass(frozen=True)
class Place:
    """One worker among all of the task."""

    key: TaskKey
    incarnation: str
    slot: int
    rank: int | None       # None: spare
    attempt: int           # which process this is in its slot, from 0
    cores: int             # of all workers of the party task but the elastic ones
    elastic_cores: int | None = None       # of this one alone; None: it is not elastic


def programs_of(task: TaskSpec) -> dict[Party, ProgramSpec]:
    """What each party runs, in the order of the job's parties; those that pass the task over have no part in it."""
    found = {party: program_at(task, party) for party in task.parties if party not in task.passed_at}
    return {party: command for party, command in found.items() if command is not None}


def environment(task: TaskSpec, place: Place) -> dict[str, str]:
    """The names and values; no rank at all for a spare or elastic worker, which is how a program knows what it is."""
    programs = programs_of(task)
    own, party = programs[place.key.party], place.key.party
    role = [one for one in programs if one.role == party.role]
    gang_size = sum(program.size for program in programs.values())
    of_role = {one.role: sum(programs[peer].replicas for peer in programs if peer.role == one.role) for one in programs}
    index = place.slot + sum(programs[one].replicas for one in role[: role.index(party)])
    found = {
        "FATE_FLOW_JOB_ID": place.key.job_id,
        "FATE_FLOW_TASK_NAME": place.key.name,
        "FATE_FLOW_TASK_VERSION": place.key.version,
        "FATE_FLOW_TASK_CORES": place.cores,
        "FATE_FLOW_INCARNATION": place.incarnation,
        "FATE_FLOW_ROLE": party.role,
        "FATE_FLOW_PARTY_ID": party.party_id,
        "FATE_FLOW_ROLE_RANK": role.index(party),
        "FATE_FLOW_ROLE_SIZE": len(role),
        "FATE_FLOW_PARTY_SIZE": own.size,
        "FATE_FLOW_PARTY_REPLICAS": own.replicas,
        "FATE_FLOW_GANG_SIZE": gang_size,
        "FATE_FLOW_WORKER_SLOT": place.slot,
        "FATE_FLOW_WORKER_ATTEMPT": place.attempt,
        "YT_OPERATION_ID": place.key.job_id,
        "YT_OPERATION_INCARNATION": place.incarnation,
        "YT_JOB_COOKIE": place.slot,
        "YT_TASK_JOB_COUNT": own.replicas,
        "YT_TASK_GANG_SIZE": own.size,
        "YT_JOB_COUNT": sum(program.replicas for program in programs.values()),
        "YT_GANG_SIZE": gang_size,
        "VC_TASK_INDEX": index,
        "VK_TASK_INDEX": index,
        **{f"VC_{name.upper()}_NUM": count for name, count in of_role.items()},
    }
    if place.rank is not None:
        found["FATE_FLOW_PARTY_RANK"] = found["YT_GANG_RANK"] = place.rank
        found["FATE_FLOW_GANG_RANK"] = _first_rank(programs, party) + place.rank
    if place.elastic_cores is not None:
        found["FATE_FLOW_ELASTIC_CORES"] = place.elastic_cores
    return {name: str(value) for name, value in found.items()}


def peers(task: TaskSpec, without: Collection[str] = ()) -> list[dict[str, Any]]:
    """The parties of the task with the ranks of their workers; nothing of where another organisation's machines are.

    `without`: those that the task goes on without; the ranks of the others stay what they are."""
    programs = programs_of(task)
    by_role: dict[str, int] = {}
    found = []
    for party, program in programs.items():
        first = _first_rank(programs, party)
        role_rank = by_role[party.role] = by_role.get(party.role, -1) + 1
        if str(party) in without:
            continue
        found.append(
            {
                "role": party.role, "party_id": party.party_id, "role_rank": role_rank, "size": program.size,
                "gang_ranks": list(range(first, first + program.size)),
            }
        )  # fmt: skip
    return found


def _first_rank(programs: Mapping[Party, ProgramSpec], party: Party) -> int:
    ordered = list(programs)
    return sum(programs[one].size for one in ordered[: ordered.index(party)])
