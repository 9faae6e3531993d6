"""What a worker that runs a user's program learns about its place: environment variables, and the file with its peers.

The name of a variable contains its scope. A *gang* is all ranked workers of all parties, in the order of the job's
parties; a *role* is the parties of one role; a *party* is the workers of one party. The names that YTsaurus and
Volcano use are set as well: a task of YTsaurus corresponds to the share of one party here, a task of Volcano to the
shares of all parties of a role.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.program import ProgramSpec
from fate_flow.core.model.spec import Party, TaskSpec

RAY_ADDRESS = "RAY_ADDRESS"                         # Ray's own names
RAY_AUTH_MODE = "RAY_AUTH_MODE"
RAY_TOKEN_PATH = "RAY_AUTH_TOKEN_PATH"
RAY_JOB_CONFIG = "RAY_JOB_CONFIG_JSON_ENV_VAR"      # the environment and the metadata of the job
FATE_FLOW_RAY_ADDRESS = "FATE_FLOW_RAY_ADDRESS"     # also where a job sets RAY_ADDRESS itself


@dataclass(frozen=True)
class Place:
    """The place of one worker among all workers of the task."""

    key: TaskKey
    incarnation: str
    slot: int
    rank: int | None       # None: spare
    attempt: int           # the number of this process in its slot, from 0
    cores: int             # of all workers of the party task together, without the elastic ones
    elastic_cores: int | None = None       # of this worker alone; None: it is not elastic


@dataclass(frozen=True)
class Program:
    """The user's own program, and what its worker learns about its place."""

    command: ProgramSpec
    env: Mapping[str, str]
    peers: tuple[Mapping[str, Any], ...]
    initiator: str         # the party id of the job's initiator
    granted: frozenset[str] | None = None     # sha256:DIGEST of the programs that it was granted; None: any


def environment(task: TaskSpec, place: Place) -> dict[str, str]:
    """Return the environment variables of a worker.

    A spare or elastic worker has no variable with a rank; that is how the program recognises it."""
    programs = task.programs
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


def ray_environment(address: str, token_file: str = "") -> dict[str, str]:
    """Return the variables by which a program finds the Ray cluster of its party; none without an address.

    `token_file`: the file with the token of the cluster, for the program itself."""
    if not address:
        return {}
    token = {RAY_AUTH_MODE: "token", RAY_TOKEN_PATH: token_file} if token_file else {}
    return {FATE_FLOW_RAY_ADDRESS: address, RAY_ADDRESS: address, **token}


def peers(task: TaskSpec, without: Collection[str] = ()) -> list[dict[str, Any]]:
    """Return the parties of the task with the ranks of their workers, without the addresses of their machines.

    `without`: missing parties, which are left out; the ranks of the others stay the same."""
    programs = task.programs
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
