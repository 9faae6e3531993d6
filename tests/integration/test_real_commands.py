"""Programs of the user's own at real parties: what may run, how it ends, what it prints, and how workers talk."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import PARTIES, a_root, lent
from party_servers import BASE_PORT, GUEST, HOST, OTHER, Cluster, PartyServer, Row, eventually, job_of, running_cluster

from fate_flow.engine.worker import RUNNER, Started

pytestmark = pytest.mark.timeout(120)

PYTHON = sys.executable
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
EVERYBODY = {"guest": [GUEST], "host": [HOST, OTHER]}
SOON = {"backoff": {"first": 0.05, "factor": 1, "longest": 0.05, "jitter": 0}}


@pytest.fixture(scope="module")
def command_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    overlays = {party: {"commands": {"enabled": True, "allow": [PYTHON, "/bin/sh"]}} for party in (GUEST, HOST)}
    overlays[OTHER] = {"commands": {"enabled": True, "allow": [PYTHON], "share_logs": True}}
    with running_cluster(a_root(tmp_path_factory), PARTIES, base_port=BASE_PORT + 70, overlays=overlays) as cluster:
        yield cluster


@pytest.fixture
def servers(command_servers: Cluster, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with lent(command_servers, request.node.nodeid) as cluster:
        yield cluster


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


def printed(party: PartyServer, job_id: str, stream: str = "stdout", **wish: Any) -> str:
    found = party.ask("task/log", {"job_id": job_id, "component_name": "train", "stream": stream, **wish})
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


# ---------------------------------------------------------------------- what may run


def test_a_party_that_runs_no_commands_refuses_the_submit(on_sqlite: Cluster) -> None:
    said = refusal(on_sqlite, command({"guest": [GUEST]}, command=["true"]))
    assert "guest 9999" in said
    assert "commands.enabled is false" in said


def test_each_party_decides_for_itself_and_says_what_it_allows(servers: Cluster) -> None:
    said = refusal(servers, command(EVERYBODY, command="exit 0"))
    assert f"host {OTHER}" in said
    assert f"commands.allow names neither /bin/sh, which is {os.path.realpath('/bin/sh')}," in said
    assert f"allowed is {PYTHON}" in said


# ---------------------------------------------------------------------- how it ends


def test_exit_0_is_success_and_what_is_printed_is_read_at_its_own_party_alone(servers: Cluster) -> None:
    code = "import os, sys; print('I am', os.environ['FATE_FLOW_ROLE']); print('hm', file=sys.stderr)"
    job_id = servers.run(command(EVERYBODY, command=python(code), env={"X": "1"}))
    assert printed(servers.guest, job_id) == "I am guest\n"
    assert printed(servers.host, job_id, "stderr") == "hm\n"
    assert servers.host.flow("task", "log", "-j", job_id, "-cpn", "train").out == "I am host\n"
    of_host = {"job_id": job_id, "component_name": "train", "role": "host", "party_id": HOST}
    denied = servers.guest.post("task/log", of_host)
    assert (denied["retcode"], "commands.share_logs is false" in denied["retmsg"]) == (108, True)
    assert printed(servers.guest, job_id, role="host", party_id=OTHER) == "I am host\n"
    asked = servers.parties[OTHER].from_party(HOST, "party/task/log", {**of_host, "party_id": OTHER})
    assert "is not the initiator" in asked["retmsg"]


@pytest.mark.parametrize(
    ("argv", "reason", "words", "exit_status"),
    [
        (python("raise SystemExit(3)"), "worker_error", "the program ended with exit code 3", "exit code 3"),
        (python("import os; os.kill(os.getpid(), 9)"), "worker_killed", "signal 9", "signal 9"),
    ],
)
def test_another_end_has_its_reason(
    servers: Cluster, argv: list[str], reason: str, words: str, exit_status: str
) -> None:
    job_id = servers.submit(command({"guest": [GUEST]}, command=argv))
    servers.wait(job_id, "failed")
    [task], [worker] = servers.guest.tasks(job_id), workers(servers.guest, job_id)
    assert (task["f_reason"], words in task["f_message"]) == (reason, True)
    assert (worker["f_reason"], worker["f_exit_status"]) == (reason, exit_status)


def test_no_party_gives_a_program_its_own_environment_or_folder(servers: Cluster) -> None:
    code = "import os; print(sorted(n for n in os.environ if not n.startswith(('FATE_FLOW', 'YT', 'VC', 'VK'))))"
    job_id = servers.run(command({"guest": [GUEST]}, command=python(f"{code}; print(os.listdir())"), env={"A": "b"}))
    names, files = printed(servers.guest, job_id).splitlines()
    assert set(json.loads(names.replace("'", '"'))) <= {
        "A", "PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "HOME", "USER", "TMPDIR"
    }
    assert files == "[]"


def test_one_that_ignores_the_wish_to_stop_is_killed_at_its_deadline_at_every_party(servers: Cluster) -> None:
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
    job_id = servers.submit(command(EVERYBODY, command=python(code), job={"stop_duration": 0.3}))
    for party in servers.parties.values():
        eventually(lambda party=party: bool(workers(party, job_id)) and printed(party, job_id), "a deaf worker")
    servers.guest.ask("job/stop", {"job_id": job_id})
    servers.wait(job_id, "canceled")
    found = [row for party in servers.parties.values() for row in workers(party, job_id)]
    assert [(row["f_status"], row["f_exit_status"]) for row in found] == [("exited", "signal 9")] * 3


# ---------------------------------------------------------------------- ranks and messages


def test_an_example_trains_over_three_parties(servers: Cluster) -> None:
    argv = [PYTHON, str(EXAMPLES / "distributed_training" / "train.py")]
    document = command(EVERYBODY, {"host": {"1": {"replicas": 2}}}, command=argv)
    job_id = servers.run(document)
    ends = [printed(servers.parties[OTHER], job_id, worker=one).splitlines()[-1] for one in (0, 1)]
    assert ends == [f"rank {rank} of 4 has learned 3.00 -2.00" for rank in (2, 3)]
    ranks = [(row["f_slot"], row["f_rank"], row["f_exit_status"]) for row in workers(servers.parties[OTHER], job_id)]
    assert ranks == [(0, 0, "exit code 0"), (1, 1, "exit code 0")]


KILLED_EACH_TIME = """
import os, sys, time
sys.path.append(os.environ["FATE_FLOW_PYTHON_PATH"])
from fate_flow.components.gang import join
gang, total = join(), 0
for turn in range(3):
    if gang.rank:
        gang.send(0, str(gang.rank * 10 ** turn).encode())
    else:
        total += sum(int(gang.receive(rank)) for rank in range(1, gang.size))
if gang.rank == 0:
    print(total, flush=True)
while int(os.environ["FATE_FLOW_TASK_VERSION"]) < 10:
    time.sleep(60)
"""


def test_a_job_whose_workers_are_killed_ten_times_begins_again_ten_times_and_is_right(servers: Cluster) -> None:
    retry = {"on_events": ["interruption"], "max_interruptions": 10, **SOON}
    job_id = servers.submit(command(EVERYBODY, command=python(KILLED_EACH_TIME), job={"retry": retry}))
    parties = list(servers.parties.values())
    for version in range(10):
        victim = parties[version % 3]
        started = eventually(lambda v=victim, n=version: _process(v, job_id, n), f"version {version}")
        started.worker.send(signal.SIGKILL)
    servers.wait(job_id, "success", seconds=40)
    for party in parties:
        assert [row["f_task_version"] for row in party.tasks(job_id)] == list(range(11))
    assert printed(servers.guest, job_id) == f"{3 * 111}\n"


def _process(party: PartyServer, job_id: str, version: int) -> Started | None:
    found = list((party.home / "jobs" / job_id).glob(f"*/*/train/*/{version}/task_executor/*/{RUNNER}"))
    return Started.read(found[0].parent) if found else None
