"""Programs of the user's own at real parties: what may run, how it ends, what it prints, and how workers talk."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.kit.servers.groups import needs_groups
from tests.kit.servers.home_files import contents_below
from tests.kit.servers.lending import PARTIES, Servers, a_root
from tests.kit.servers.party_servers import (
    BASE_PORT,
    EVERYBODY,
    GUEST,
    HOST,
    OTHER,
    Cluster,
    running_cluster,
)
from tests.kit.servers.programs import (
    BOMB,
    PYTHON,
    command,
    holds,
    is_deaf,
    losses_of,
    printed,
    process_of,
    python,
    refusal,
    running,
    with_argument,
    workers,
)
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
SCRIPT = "#!/bin/sh\nls\n"          # a Python in a path with blanks cannot be named in a first line
SENT = f"sha256:{hashlib.sha256(SCRIPT.encode()).hexdigest()}"
SECRET = "wk3qz7-what-nobody-else-knows"
MOST = 100_000       # bytes of each stream that are kept
MOST_PROCESSES = 100
SOON = {"backoff": {"first": 0.05, "factor": 1, "longest": 0.05, "jitter": 0}}


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The volume `kept` of all parties, which are on one machine."""
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture(scope="module")
def command_servers(tmp_path_factory: pytest.TempPathFactory, scratch: Path) -> Iterator[Servers]:
    rules = {
        "enabled": True, "allow": [PYTHON, "/bin/sh", str(scratch / "gone")], "files_root": str(EXAMPLES),
        "volumes": {"kept": str(scratch)}, "output_max_bytes": MOST,
    }
    key = tmp_path_factory.mktemp("secrets") / "key"
    key.write_text(SECRET)
    key.chmod(0o600)
    size = {"standalone": {"memory_per_node": 1024}}
    overlays: dict[str, Any] = {one: {"commands": rules, "fate_on_standalone": size} for one in (GUEST, HOST)}
    overlays[HOST]["worker_limits"] = {"processes": MOST_PROCESSES}
    overlays[HOST]["commands"] = {**rules, "secrets": {"KEY": {"file": str(key), "initiators": [GUEST]}}}
    overlays[OTHER] = {"commands": {**rules, "allow": [PYTHON, SENT], "share_logs": True}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{Path(PYTHON).parent}:{os.environ['PATH']}")      # whose python3 the examples find

        def start() -> AbstractContextManager[Cluster]:
            return running_cluster(a_root(tmp_path_factory), PARTIES, base_port=BASE_PORT + 70, overlays=overlays)

        with Servers(start) as servers:
            yield servers


@pytest.fixture
def servers(command_servers: Servers, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with command_servers.lent(request.node.nodeid) as cluster:
        yield cluster


# ---------------------------------------------------------------------- what may run


def test_a_party_that_runs_no_commands_refuses_the_submit(on_sqlite: Cluster) -> None:
    said = refusal(on_sqlite, command({"guest": [GUEST]}, command=["true"]))
    assert "guest 9999" in said
    assert "commands.enabled is false" in said


def test_each_party_decides_for_itself_and_says_what_it_does_not_allow(servers: Cluster) -> None:
    """To others no more than that."""
    said = refusal(servers, command(EVERYBODY, command="exit 0"))
    assert f"host {OTHER}" in said
    assert "commands.allow names neither /bin/sh nor its sha256" in said
    assert str(PYTHON) not in said


# ---------------------------------------------------------------------- how it ends


def test_exit_0_is_success_and_what_is_printed_is_read_at_its_own_party_alone(servers: Cluster) -> None:
    code = "import os, sys; e = os.environ; print('I am', e['FATE_FLOW_ROLE']); sys.stderr.write(e['TRACEPARENT'][:35])"
    wants, trace = command(EVERYBODY, command=python(code), env={"X": "1"}), f"00-{'4b' * 16}"
    servers.wait(job_id := servers.submit(wants, traceparent=f"{trace}-00f067aa0ba902b7-01"), "success")
    assert printed(servers.guest, job_id) == "I am guest\n"
    assert printed(servers.host, job_id, "stderr") == trace
    assert servers.host.flow("task", "log", "-j", job_id, "-cpn", "train").out == "I am host\n"
    of_host = {"job_id": job_id, "component_name": "train", "role": "host", "party_id": HOST}
    denied = servers.guest.post("task/log", of_host)
    assert (denied["retcode"], "commands.share_logs is false" in denied["retmsg"]) == (108, True)
    assert printed(servers.guest, job_id, role="host", party_id=OTHER) == "I am host\n"
    for pending, text in (
        ({"stream": "log"}, "stream: 'log' is neither stdout nor stderr"),
        ({"worker": 1}, "worker: train on guest 9999 has no worker 1; it has 0 to 0"),
        ({"task_version": 1}, "task_version: train of job"),
        ({"component_name": "other"}, f"other of job {job_id} has no worker on guest 9999"),
    ):
        said = servers.guest.post("task/log", {"job_id": job_id, "component_name": "train", **pending})
        assert (said["retcode"] != 0, text in said["retmsg"]) == (True, True), said
    asked = servers.parties[OTHER].from_party(HOST, "party/task/log", {**of_host, "party_id": OTHER})
    assert "is not the initiator" in asked["retmsg"]


FAILS_TWICE = """
import os, sys
attempt = os.environ["FATE_FLOW_WORKER_ATTEMPT"]
print(f"attempt {attempt}", flush=True)
sys.exit(3 if os.environ["FATE_FLOW_WORKER_SLOT"] == "1" and attempt < "2" else 0)
"""


def test_what_a_replaced_worker_printed_is_read_by_its_attempt(servers: Cluster) -> None:
    job_id = servers.run(
        command({"guest": [GUEST]}, command=python(FAILS_TWICE), replicas=3, max_failed_workers=2)
    )
    assert [printed(servers.guest, job_id, worker=1, attempt=number) for number in range(3)] == [
        "attempt 0\n", "attempt 1\n", "attempt 2\n"
    ]  # fmt: skip
    place = ("task", "log", "-j", job_id, "-cpn", "train", "--worker", "1")
    newest = servers.guest.flow(*place)
    assert newest.out == "attempt 2\n"
    assert newest.err == "worker 1, attempt 2; --attempt shows 0 (worker_error), 1 (worker_error)\n"
    assert "worker 1 (rank 1), attempt 2" in servers.guest.flow("job", "explain", "--table", "-j", job_id).out
    assert servers.guest.flow(*place, "--attempt", "0").out == "attempt 0\n"
    said = servers.guest.flow(*place, "--json").document["data"]
    assert [(one["attempt"], one["exit_status"], one["is_kept"]) for one in said["attempts"]] == [
        (0, "exit code 3", True), (1, "exit code 3", True), (2, "exit code 0", True)
    ]  # fmt: skip
    refused = servers.guest.flow(*place, "--attempt", "3", code=1)
    assert f"attempt: worker 1 of train on guest {GUEST} has no attempt 3; it has 0 to 2" in refused.out


@pytest.mark.parametrize(
    ("argv", "reason", "text", "exit_status"),
    [
        (python("raise SystemExit(3)"), "worker_error", "the program ended with exit code 3", "exit code 3"),
        (python("import os; os.kill(os.getpid(), 9)"), "worker_killed", "signal 9", "signal 9"),
        (python("import os; os.abort()"), "worker_crashed", "crashed with signal 6 (SIGABRT)", "signal 6"),
    ],
)
def test_another_end_has_its_reason(
    servers: Cluster, argv: list[str], reason: str, text: str, exit_status: str
) -> None:
    job_id = servers.submit(command({"guest": [GUEST]}, command=argv))
    servers.wait(job_id, "failed")
    [task], [worker] = servers.guest.tasks(job_id), workers(servers.guest, job_id)
    assert (worker["f_reason"], worker["f_exit_status"]) == (reason, exit_status)
    for said in (
        (task["f_reason"], task["f_message"], task["f_caused_by"]),
        (task["f_federated_reason"], task["f_federated_message"], task["f_federated_caused_by"]),
        (worker["f_reason"], worker["f_message"], worker["f_caused_by"]),
    ):
        assert (said[0], text in said[1], said[2]) == (reason, True, f"guest {GUEST}")
    code = 3 if reason == "worker_error" else None
    assert [task["f_exit_code"], task["f_federated_exit_code"], servers.guest.job(job_id)["f_exit_code"]] == [code] * 3


@needs_groups
def test_a_fork_bomb_and_a_memory_hog_of_a_partner_leave_the_server_and_other_jobs_unharmed(
    servers: Cluster, scratch: Path
) -> None:
    both = {"guest": [GUEST], "host": [HOST]}
    at_host = {"host": {"0": {"command": python(f"{BOMB}# of {scratch}"), "volumes": ["kept"]}}}
    bomb = servers.submit(command(both, at_host, command="exec sleep 600"))
    eventually(lambda: (scratch / bomb).exists(), "the bomb has as many processes as it may")

    at_host = {"host": {"0": {"command": python("bytearray(b'x') * (300 << 20)")}}}
    hog = servers.submit(command(both, at_host, command="exec sleep 600", job={"task_memory": 64}))
    beside = servers.run(command(both, command=python("import subprocess; subprocess.run(['true'], check=True)")))
    servers.wait(hog, "failed")
    [here], [there] = servers.guest.tasks(hog), servers.host.tasks(hog)
    said = there["f_reason"], there["f_message"], here["f_federated_reason"], here["f_federated_message"]
    assert said == ("out_of_memory", "used more than its 64 MB (task_memory)") * 2

    assert servers.host.job(beside)["f_status"] == "success"
    assert [row["f_status"] for row in workers(servers.host, bomb)] == ["running"]
    number = len(with_argument(f"# of {scratch}"))
    assert MOST_PROCESSES / 2 < number <= MOST_PROCESSES, "they live while the other job runs"
    servers.guest.flow("job", "stop", "-j", bomb)
    servers.wait(bomb, "canceled")
    eventually(lambda: not with_argument(f"# of {scratch}"), "all of them end with their worker")


def test_a_program_that_crashes_uses_up_its_attempts(servers: Cluster) -> None:
    retry = {"max_attempts": 2, "max_interruptions": 4, **SOON}
    crash = python("import os; os.kill(os.getpid(), 11)")
    job_id = servers.submit(command({"guest": [GUEST]}, command=crash, job={"retry": retry}))
    servers.wait(job_id, "failed")
    assert [row["f_task_version"] for row in servers.guest.tasks(job_id)] == [0, 1]
    assert "crashed with signal 11 (SIGSEGV)" in servers.guest.job(job_id)["f_message"]


def test_no_party_gives_a_program_its_own_environment_or_folder(servers: Cluster) -> None:
    code = "import os; print(sorted(n for n in os.environ if not n.startswith(('FATE_FLOW', 'YT', 'VC', 'VK'))))"
    job_id = servers.run(command({"guest": [GUEST]}, command=python(f"{code}; print(os.listdir())"), env={"A": "b"}))
    names, files = printed(servers.guest, job_id).splitlines()
    known = "A PATH LANG LC_ALL LC_CTYPE TZ HOME USER TMPDIR CUDA_VISIBLE_DEVICES TRACEPARENT"
    assert set(json.loads(names.replace("'", '"'))) <= set(known.split())
    assert files == "[]"


def test_one_that_ignores_the_request_to_stop_is_killed_at_its_deadline_at_every_party(servers: Cluster) -> None:
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
    job_id = servers.submit(command(EVERYBODY, command=python(code), job={"stop_duration": 0.3}))
    for party in servers.parties.values():
        eventually(lambda party=party: is_deaf(party, job_id), "a deaf worker")
    servers.guest.ask("job/stop", {"job_id": job_id})
    servers.wait(job_id, "canceled")
    found = [row for party in servers.parties.values() for row in workers(party, job_id)]
    assert [(row["f_status"], row["f_exit_status"]) for row in found] == [("exited", "signal 9")] * 3


def test_of_a_program_that_prints_without_end_the_beginning_is_kept(servers: Cluster) -> None:
    code = f"import sys; print('begun'); sys.stdout.write('x' * {3 * MOST}); print('done', file=sys.stderr)"
    job_id = servers.run(command({"guest": [GUEST]}, command=python(code)))
    text = printed(servers.guest, job_id, bytes=2 * MOST)
    dropped = 3 * MOST + len("begun\n") - MOST
    assert text.startswith("begun\nxxx")
    assert text.endswith(
        f"x\n[fate_flow] what follows is dropped: commands.output_max_bytes is {MOST}\n"
        f"[fate_flow] {dropped} bytes were dropped\n"
    )
    assert printed(servers.guest, job_id, "stderr") == "done\n"


# ---------------------------------------------------------------------- ranks and messages


def example(servers: Cluster, name: str) -> str:
    """The id of a job that was submitted as the file of an example says, and has succeeded at every party."""
    job_id = servers.guest.flow("job", "submit", "-f", EXAMPLES / name / "job.yaml").job_id
    servers.wait(job_id, "success")
    return job_id


def test_an_example_trains_over_three_parties(servers: Cluster) -> None:
    job_id = example(servers, "distributed_training")
    ends = [printed(servers.parties[OTHER], job_id, worker=one).splitlines()[-1] for one in (0, 1)]
    assert ends == [f"rank {rank} of 4 has learned 3.00 -2.00" for rank in (2, 3)]
    ranks = [(row["f_slot"], row["f_rank"], row["f_exit_status"]) for row in workers(servers.parties[OTHER], job_id)]
    assert ranks == [(0, 0, "exit code 0"), (1, 1, "exit code 0")]
    losses = {party_id: losses_of(servers.parties[party_id], job_id) for party_id in (GUEST, OTHER)}
    assert {party_id: list(each) for party_id, each in losses.items()} == {
        GUEST: ["default"], OTHER: ["default/rank-0", "default/rank-1"],
    }, "of each rank by itself, and at its own party alone"
    for each in losses.values():
        for points in each.values():
            assert [step for step, _ in points] == list(range(12))
            assert points[0][1] > 100 * points[-1][1] > 0
    watched = servers.guest.flow("job", "watch", "-j", job_id).err
    assert f"task train guest-{GUEST}: loss {losses[GUEST]['default'][-1][1]:.6g} (rounds 11)\n" in watched
    assert f"host-{OTHER}: rank-0/loss" not in watched


def test_an_example_runs_one_task_after_the_other(servers: Cluster) -> None:
    job_id = servers.guest.flow("job", "submit", "-f", EXAMPLES / "one_after_the_other.yaml").job_id
    ended = servers.wait(job_id, "success")
    assert {row["f_ttl"] for row in ended.values()} == {86_400}
    parties = (servers.guest, servers.host)
    shares = {
        name: [row for party in parties for row in party.tasks(job_id, name) if row["f_party_status"] == "success"]
        for name in ("prepare", "train", "report")
    }
    assert [len(rows) for rows in shares.values()] == [2, 2, 1], "the host passes the last one over"
    for before, after in (("prepare", "train"), ("train", "report")):
        assert max(row["f_end_time"] for row in shares[before]) <= min(row["f_start_time"] for row in shares[after])


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


@pytest.mark.heavy
def test_a_job_whose_workers_are_killed_ten_times_begins_again_ten_times_and_is_right(servers: Cluster) -> None:
    retry = {"on_events": ["interruption"], "max_interruptions": 10, **SOON}
    job_id = servers.submit(command(EVERYBODY, command=python(KILLED_EACH_TIME), job={"retry": retry}))
    parties, chance = list(servers.parties.values()), Random(10)
    for version in range(10):
        victim = chance.choice(parties)
        started = eventually(lambda v=victim, n=version: process_of(v, job_id, n), f"version {version}")
        started.worker.send(signal.SIGKILL)
    servers.wait(job_id, "success")
    for party in parties:
        assert [row["f_task_version"] for row in party.tasks(job_id)] == list(range(11))
    assert printed(servers.guest, job_id) == f"{3 * 111}\n"


# ---------------------------------------------------------------------- secrets


def test_a_program_has_the_secret_of_its_party_and_nothing_else_holds_it(servers: Cluster) -> None:
    code = "import hashlib, os; print(hashlib.sha256(os.environ['FATE_FLOW_SECRET_KEY'].encode()).hexdigest())"
    wants = {"host": {"0": {"command": python(code), "secrets": ["KEY"]}}}
    job_id = servers.run(command({"guest": [GUEST], "host": [HOST]}, wants, command=python("pass")))
    assert printed(servers.host, job_id) == f"{hashlib.sha256(SECRET.encode()).hexdigest()}\n"
    for party in (servers.guest, servers.host):
        assert SECRET not in "".join(party.flow("job", "history", "--table", "-j", job_id).out)
        holding = [path for path, content in contents_below(party.home).items() if SECRET.encode() in content]
        assert holding == []


@pytest.mark.parametrize(("host", "name"), [(HOST, "OTHER"), (OTHER, "KEY")])
def test_a_party_that_does_not_offer_the_secret_refuses_the_submit(servers: Cluster, host: str, name: str) -> None:
    wants = {"host": {"0": {"secrets": [name]}}}
    said = refusal(servers, command({"guest": [GUEST], "host": [host]}, wants, command=python("pass")))
    assert f"host {host}" in said
    assert f"secrets: commands.secrets.{name} is not there for jobs of party {GUEST}" in said


# ---------------------------------------------------------------------- workers that come and go

WAITS = """
import os, pathlib, time
while not pathlib.Path(os.environ["FATE_FLOW_VOLUME_KEPT"], os.environ["FATE_FLOW_JOB_ID"]).exists():
    time.sleep(0.01)
"""


@pytest.mark.heavy
def test_a_job_grows_where_there_is_capacity_and_shrinks_when_another_one_comes(
    servers: Cluster, scratch: Path
) -> None:
    """Of 20 cores at each party it has 4 for sure, and up to 16 more in parts of 4."""
    both = {"guest": [GUEST], "host": [HOST]}
    parties = (servers.guest, servers.host)

    def submit(cores: int, **more: Any) -> str:
        waits = command(both, command=python(WAITS), volumes=["kept"], job={"task_cores": cores}, **more)
        return servers.submit(waits)

    def await_slots(slots: list[int]) -> None:
        for party in parties:
            found = f"slots {slots} of {elastic} at {party.party_id}"
            eventually(lambda p=party: running(p, elastic) == slots, found)

    first = submit(16)
    servers.wait(first, "running")
    elastic = submit(4, replicas=5, min_replicas=1, max_failed_workers=1)
    await_slots([0])
    (scratch / first).touch()
    await_slots([0, 1, 2, 3, 4])
    assert [holds(party) for party in parties] == [(20, 20)] * 2

    other = submit(9)
    servers.wait(other, "running")
    await_slots([0, 1])
    assert [holds(party) for party in parties] == [(17, 17)] * 2
    for party in parties:
        gone = [row for row in workers(party, elastic) if row["f_status"] == "exited"]
        assert {(row["f_reason"], row["f_exit_status"]) for row in gone} == {("cores_lent", "signal 15")}
        assert "1 of 4 run, 3 lent" in party.flow("job", "explain", "--table", "-j", elastic).out
    (scratch / other).touch()
    await_slots([0, 1, 2, 3, 4])
    (scratch / elastic).touch()
    for job_id in (first, other, elastic):
        servers.wait(job_id, "success")
    assert [holds(party) for party in parties] == [(0, 0)] * 2
    said = servers.host.flow("job", "history", "--table", "-j", elastic).out
    assert "cores_lent" in said
    assert "worker 4 (elastic), process 1" in said


# ---------------------------------------------------------------------- files, volumes, outputs


def test_an_example_has_a_driver_and_its_executors(servers: Cluster, tmp_path: Path) -> None:
    job_id = example(servers, "driver_and_executors")
    flow = servers.guest.flow
    place = ("-j", job_id, "-cpn", "squares")
    flow("task", "output", *place, "-n", "total", "-o", tmp_path / "total.txt")
    assert (tmp_path / "total.txt").read_text() == f"{sum(n * n for n in range(100))}\n"
    said = flow("task", "output", *place, "-n", "other", "-o", tmp_path / "x", code=1).out
    assert "squares has published no file other on guest 9999; its files are: total" in said
    assert [path.name for path in tmp_path.iterdir()] == ["total.txt"]
    [made] = servers.guest.rows("SELECT * FROM t_storage_table_meta WHERE f_job_id = ?", job_id)
    assert (made["f_count"], json.loads(made["f_schema"])["header"]) == (4, ["party_id", "sum_of_squares"])
    assert [path for path in servers.host.files() if "/volumes/" in path] == []


def test_what_comes_with_a_job_lies_in_its_working_folder_and_may_be_the_program(servers: Cluster) -> None:
    files = [
        {"name": "go.sh", "content": SCRIPT, "sha256": SENT.removeprefix("sha256:")},
        {"name": "raw", "content": "AAE=", "encoding": "base64"},
    ]
    document = command({"guest": [GUEST], "host": [OTHER]}, files=files, volumes=["kept"], command=["./go.sh"])
    document["job_runtime_conf"]["component_parameters"]["role"] = {"guest": {"0": {"train": {"need_run": False}}}}
    job_id = servers.run(document)
    assert printed(servers.parties[OTHER], job_id) == "go.sh\nraw\n"
    [kept] = (servers.parties[OTHER].home / "jobs" / job_id).rglob("files.json")
    found = json.loads(kept.read_text())
    assert found["raw"] == {"bytes": 2, "sha256": hashlib.sha256(b"\0\1").hexdigest(), "path": ""}


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"command": ["./x"], "files": [{"name": "x", "content": "#!/bin/sh"}]}, "commands.allow does not name"),
        ({"command": ["python3"], "files": [{"name": "x", "path": "../README.md"}]}, "files: x: path: '../README.md'"),
        (
            {"command": ["python3"], "files": [{"name": "x", "path": "no/such/file"}]},
            "files: x: no/such/file below commands.files_root: No such file or directory",
        ),
    ],
)
def test_what_no_party_gives_or_runs_is_refused(servers: Cluster, parameters: dict[str, Any], text: str) -> None:
    assert text in refusal(servers, command({"guest": [GUEST]}, **parameters))


def test_an_allowed_program_that_is_not_there_is_refused_and_one_that_goes_later_is_a_launch_that_failed(
    servers: Cluster, scratch: Path
) -> None:
    program, once_more = scratch / "gone", {"retry": {"max_attempts": 2, **SOON}}
    document = command({"guest": [GUEST]}, command=[str(program)], job=once_more)
    missing = f"{program} cannot be found (No such file or directory)"
    said = refusal(servers, document)
    assert f"guest {GUEST}: train (Command) is not run at guest {GUEST}: command: {missing}" in said
    assert f"WARNING: commands.allow: {missing}: a job that names it is refused" in servers.guest.log(
        "fate_flow", "console.log"
    )
    program.write_text('#!/bin/sh\nrm "$0"\nexit 3\n')
    assert f"command: {program} is not executable for this server's user" in refusal(servers, document)
    program.chmod(0o700)
    job_id = servers.submit(document)
    servers.wait(job_id, "failed")
    first, second = servers.guest.tasks(job_id)
    assert (first["f_reason"], first["f_exit_code"]) == ("worker_error", 3)
    assert (first["f_federated_reason"], first["f_federated_exit_code"]) == ("worker_error", 3)
    assert (second["f_reason"], "No such file or directory" in second["f_message"]) == ("launch_failed", True)


def test_nothing_is_published_of_an_attempt_that_another_party_broke(servers: Cluster, scratch: Path) -> None:
    document = command(
        {"guest": [GUEST], "host": [HOST]}, command=python(BREAKS_AT_THE_HOST), outputs=[{"name": "x", "path": "x"}],
        job={"retry": {"max_attempts": 2, **SOON}}, volumes=["kept"],
    )  # fmt: skip
    job_id = servers.submit(document)
    guest, statement = servers.guest, "SELECT * FROM t_component_summary WHERE f_job_id = ?"
    eventually(lambda: "success" in [row["f_party_status"] for row in guest.tasks(job_id)], "the share of the guest")
    assert guest.rows(statement, job_id) == []
    (scratch / job_id).touch()
    servers.wait(job_id, "success")
    [summary] = guest.rows(statement, job_id)
    assert (summary["f_task_version"], json.loads(summary["f_summary"])["files"]["x"]["bytes"]) == (1, 1)
    assert [row["f_party_status"] for row in guest.tasks(job_id)] == ["success", "success"]


BREAKS_AT_THE_HOST = """
import os, pathlib, time
version = os.environ["FATE_FLOW_TASK_VERSION"]
pathlib.Path("x").write_text(version)
if (version, os.environ["FATE_FLOW_ROLE"]) == ("0", "host"):
    while not pathlib.Path(os.environ["FATE_FLOW_VOLUME_KEPT"], os.environ["FATE_FLOW_JOB_ID"]).exists():
        time.sleep(0.01)
    raise SystemExit(1)
"""
