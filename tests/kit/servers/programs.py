"""Jobs of programs at servers of parties: their documents, and what is seen of them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from tests.kit.servers.party_servers import Cluster, PartyServer, Row, job_of

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
