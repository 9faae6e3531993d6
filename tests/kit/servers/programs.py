"""Jobs of programs at servers of parties: their documents, and what is seen of them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fate_flow.engines.local.worker import RUNNER, Started
from tests.kit.servers.party_servers import GUEST, Cluster, PartyServer, Row, job_of

PYTHON = sys.executable

ESCAPE = """
import os, signal, sys, time
kept, file, last = sys.argv[1:]
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    program = ["/bin/sh", "-c", 'echo $$ > "$0.new"; mv "$0.new" "$0"; exec sleep 600', file]
    os.execve(program[0], program, dict(os.environ) if kept == "kept" else {})
while not os.path.exists(file) or last == "told" and not os.path.exists(file + ".go"):
    time.sleep(0.005)
if last != "no runner killed":
    os.kill(os.getppid(), signal.SIGKILL)
if last == "sleep":
    time.sleep(600)
if last == "forge":
    open(os.path.join(os.environ["FATE_FLOW_WORKER"], "exit.json"), "w").write(
        '{"exit_code": 0, "signal": null, "cause": "exited"}')
"""
"""Leaves a process in a session of its own that says its number in a file, kills its runner, and does what it is told:
"told" waits for a file before that."""


BOMB = """
import os, pathlib, time
place = os.environ["FATE_FLOW_VOLUME_KEPT"]
for _ in range(500):                    # a bound of its own, should there be no other
    try:
        if os.fork() == 0:
            os._exit(time.sleep(600) or 0)
    except OSError:
        pathlib.Path(place, os.environ["FATE_FLOW_JOB_ID"]).touch()
        time.sleep(0.01)
time.sleep(600)
"""
"""In its volume `kept` a file says when it has as many processes as it may."""


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


def with_argument(text: str) -> list[str]:
    """The processes with this text on their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if text.encode() in path.read_bytes():
                found.append(path.parent.name)
    return found


def running(party: PartyServer, job_id: str) -> list[int]:
    """The slots whose processes have come up and have not ended."""
    return [row["f_slot"] for row in workers(party, job_id) if row["f_status"] == "running"]


def holds(party: PartyServer) -> tuple[int, int]:
    """The cores that are not free, and what is written down of who holds them."""
    [engine] = party.rows("SELECT f_cores - f_remaining_cores AS held FROM t_engine_registry")
    [jobs] = party.rows("SELECT COALESCE(SUM(f_cores), 0) AS held FROM t_job WHERE f_resource_in_use = 1")
    [single] = party.rows("SELECT COALESCE(SUM(f_cores), 0) AS held FROM t_worker WHERE f_status <> 'exited'")
    return int(engine["held"]), int(jobs["held"]) + int(single["held"])


def is_deaf(party: PartyServer, job_id: str) -> bool:
    """Whether its worker has come so far as to say so."""
    begun = [row for row in workers(party, job_id) if row["f_status"] == "running"]
    return bool(begun) and printed(party, job_id) == "deaf\n"


def losses_of(party: PartyServer, job_id: str) -> dict[str, list[Any]]:
    """The points of the loss that the workers of this party have reported, by group."""
    role = "guest" if party.party_id == GUEST else "host"
    seat = {"job_id": job_id, "role": role, "party_id": party.party_id, "component_name": "train"}
    said = party.ask("tracking/component/metric/all", seat)
    return {namespace: metrics["loss"]["data"] for namespace, metrics in sorted(said.items())}


def process_of(party: PartyServer, job_id: str, version: int) -> Started | None:
    found = list((party.home / "jobs" / job_id).glob(f"*/*/train/*/{version}/task_executor/*/{RUNNER}"))
    return Started.read(found[0].parent) if found else None
