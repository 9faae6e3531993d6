"""What may be said of a command, what its workers are told, and what follows when one of them ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.components.providers.table import CATALOGUE
from fate_flow.core.model.job import TaskKey, Worker
from fate_flow.core.model.program import ProgramSpec, problems, read_program
from fate_flow.core.model.program_scope import Place, environment, peers
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import JobParameters, Party, TaskSpec
from fate_flow.core.model.status import WorkerStatus
from fate_flow.core.planning.replicas import COLLECTOR, Collect, Dismiss, Done, Replace, ShareFailed, next_step, ranks
from tests.kit.jobspec.parsing import problems as document_problems
from tests.kit.values import GUEST, HOST, JOB_ID, OTHER

ARBITER = Party("arbiter", "10000")
ONE_ELASTIC = {"command": ["x"], "replicas": 2, "min_replicas": 1, "max_failed_workers": 1}
A_FILE = {"name": "x", "content": "not base64"}
OF_0_1 = "b413f47d13ee2fe6c845b2ee141af81de858df4ec549a58b7970bb96645bc8d2"     # of the bytes 0 and 1
KEY = TaskKey(JOB_ID, "train_0", 2, HOST)


# ---------------------------------------------------------------------- parameters


@pytest.mark.parametrize(
    "parameters",
    [
        {"command": "sort < x | uniq"},
        {"command": ["/usr/bin/env"], "env": {"A_1": "", "_b": "ü"}},
        {"command": ["python3", "", "a b"], "replicas": 4, "size": 3},
        {"command": ["x"], "max_failed_workers": 2},
        {"command": ["x"], "restart_completed_workers": True, "max_failed_workers": 3},
        {"command": ["x"], "fail_on_worker_restart": True, "replicas": 2},
        {"command": ["./go.sh", "1"], "files": [{"name": "go.sh", "path": "a/b.sh"}, {"name": "x", "content": ""}]},
        {"command": ["x"], "files": [{"name": "x", "content": "AAE=", "encoding": "base64", "sha256": OF_0_1}]},
        {"command": ["x"], "volumes": ["scratch", "big-one"], "core_dumps": True},
        {"command": ["x"], "replicas": 3, "size": 2, "outputs": [{"name": "m", "path": "out/m", "rank": 1}]},
        {"command": ["x"], "outputs": [{"name": "t", "path": "t.csv", "kind": "table"}]},
        {"command": ["x"], "secrets": ["KEY", "other_1"]},
        {"command": ["x"], "replicas": 4, "min_replicas": 4},
        {"command": ["x"], "replicas": 4, "min_replicas": 3, "size": 2},
        {"command": ["x"], "replicas": 4, "min_replicas": 1, "max_failed_workers": 1},
        {"command": ["x"], "replicas": 4, "min_replicas": 2, "restart_completed_workers": True},
    ],
)
def test_these_are_right(parameters: dict[str, Any]) -> None:
    assert problems(parameters) == []


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({}, "command: null is neither a line for /bin/sh nor a list of arguments"),
        ({"command": " "}, "command: ' ' is not a line for /bin/sh"),
        ({"command": []}, "command: a list is neither"),
        ({"command": ["x", 1]}, "command: 1 is not an argument of a command"),
        ({"command": ["a\0b"]}, "is not an argument of a command"),
        ({"command": ["bin/x"]}, "command: 'bin/x' is not a program: an absolute path, a name"),
        ({"command": ["x"], "env": ["A"]}, "env: a list is not an object"),
        ({"command": ["x"], "env": {"1A": "x"}}, "env: '1A' is not a name"),
        ({"command": ["x"], "env": {"A": 1}}, "env: A: 1 is not text"),
        ({"command": ["x"], "env": {"FATE_FLOW_RANK": "1"}}, "env: FATE_FLOW_RANK: names that begin with FATE_FLOW_"),
        ({"command": ["x"], "env": {"YT_JOB": "1"}}, "are set by the server"),
        ({"command": ["x"], "env": {"LD_PRELOAD": "x.so"}}, "env: LD_PRELOAD: could make an allowed program load"),
        *(({"command": ["x"], "env": {name: "."}}, f"env: {name}: could make an allowed program load") for name in (
            "PERLLIB", "PERL5LIB", "OPENSSL_CONF", "OPENSSL_MODULES", "PYTHONWARNINGS", "PYTHONPYCACHEPREFIX",
            "BROWSER", "R_PROFILE_USER", "LUA_INIT", "JULIA_LOAD_PATH", "GIT_SSH_COMMAND", "MPLBACKEND", "ZDOTDIR",
        )),
        ({"command": ["x"], "env": {"PATH": "."}}, "env: PATH: could make"),
        ({"command": ["x"], "replicas": 0}, "replicas: 0 is not a whole number from 1 to 256"),
        ({"command": ["x"], "replicas": True}, "replicas: true is not a whole number"),
        ({"command": ["x"], "fail_on_worker_restart": 1}, "fail_on_worker_restart: 1 is neither true nor false"),
        ({"command": ["x"], "replicas": 2, "size": 3}, "size: 3 ranks are more than the 2 workers of replicas"),
        ({"command": ["x"], "size": 1, "fail_on_worker_restart": True}, "fail_on_worker_restart: excludes size"),
        ({"command": ["x"], "size": 1, "restart_completed_workers": True}, "size: excludes restart_completed_workers"),
        ({"command": ["x"], "size": 1, "max_failed_workers": 1}, "size: excludes max_failed_workers"),
        (
            {"command": ["x"], "fail_on_worker_restart": True, "max_failed_workers": 1},
            "fail_on_worker_restart: excludes max_failed_workers",
        ),
        ({"command": ["x"], "min_replicas": 0}, "min_replicas: 0 is not a whole number from 1 to 256"),
        ({"command": ["x"], "min_replicas": 2}, "min_replicas: 2 are more than the 1 workers of replicas"),
        (
            {"command": ["x"], "replicas": 3, "min_replicas": 2},
            "min_replicas: 2 are fewer than the 3 ranks of a gang, which needs them all; say size: 2 as well, so that",
        ),
        ({"command": ["x"], "replicas": 4, "min_replicas": 1, "size": 2}, "1 are fewer than the 2 ranks of a gang"),
        (
            {"command": ["x"], "replicas": 2, "min_replicas": 2, "fail_on_worker_restart": True},
            "fail_on_worker_restart: excludes min_replicas; no worker is to begin again",
        ),
        (
            {**ONE_ELASTIC, "outputs": [{"name": "m", "path": "m", "rank": 1}]},
            "outputs: m: there is no rank 1; it has 0 to 0",
        ),
        ({"command": ["./x"]}, "command: './x' is not one of files"),
        ({"command": ["./../x"]}, "command: './../x' is not a program"),
        ({"command": ["x"], "files": [{"name": "x"}]}, "files: x: needs either content or path"),
        ({"command": ["x"], "files": [{"name": "x", "content": "", "path": "y"}]}, "needs either content or path"),
        ({"command": ["x"], "files": [{"name": "../x", "content": ""}]}, "files: name: '../x' is not a name"),
        ({"command": ["x"], "files": [{"name": "x", "path": "/etc/passwd"}]}, "files: x: path: '/etc/passwd' is not"),
        ({"command": ["x"], "files": [{"name": "x", "path": "a/../../b"}]}, "files: x: path: 'a/../../b' is not"),
        ({"command": ["x"], "files": [A_FILE, A_FILE]}, "files: name: x is there twice"),
        ({"command": ["x"], "files": [{**A_FILE, "mode": 7}]}, "files: x: 'mode' is not one of name, content"),
        ({"command": ["x"], "files": [{**A_FILE, "encoding": "gzip"}]}, "encoding: 'gzip' is neither text nor base64"),
        ({"command": ["x"], "files": [{**A_FILE, "encoding": "base64"}]}, "files: x: content: is not base64"),
        ({"command": ["x"], "files": [{**A_FILE, "sha256": "ab"}]}, "files: x: sha256: 'ab' is not 64 hex digits"),
        ({"command": ["x"], "files": [{**A_FILE, "sha256": OF_0_1}]}, f"sha256: {OF_0_1} is not that of content"),
        ({"command": ["x"], "files": [{"name": "x", "content": "a" * 1_048_577}]}, "files: 1048577 characters"),
        ({"command": ["x"], "volumes": ["../x"]}, "volumes: '../x' is not a name"),
        ({"command": ["x"], "volumes": ["a-b", "A_B"]}, "volumes: two names mean the same variable"),
        ({"command": ["x"], "secrets": "KEY"}, "secrets: 'KEY' is not a list of at most 200 names"),
        ({"command": ["x"], "secrets": ["a-b"]}, "secrets: 'a-b' is not a name of 1 to 50 letters, digits and _"),
        (
            {"command": ["x"], "secrets": ["KEY"], "core_dumps": True},
            "secrets: excludes core_dumps; a core file would hold them",
        ),
        ({"command": ["x"], "outputs": [{"name": "m", "path": "../m"}]}, "outputs: m: path: '../m' is not the path"),
        ({"command": ["x"], "outputs": [{"name": "m", "path": "m", "kind": "model"}]}, "kind: 'model' is neither file"),
        ({"command": ["x"], "outputs": [{"name": "m", "path": "m", "rank": 1}]}, "outputs: m: there is no rank 1"),
    ],
)  # fmt: skip
def test_these_are_wrong_and_it_says_how(parameters: dict[str, Any], text: str) -> None:
    [problem] = problems(parameters)
    assert text in problem


# ---------------------------------------------------------------------- environment


def a_task(parties: dict[Party, dict[str, Any]], passed: frozenset[Party] = frozenset()) -> TaskSpec:
    programs = {party: read_program({"command": ["x"], **said}) for party, said in parties.items()}
    return TaskSpec(
        "train_0", "Command", tuple(parties), passed_at=passed,
        programs={party: program for party, program in programs.items() if party not in passed},
    )  # fmt: skip


def described(task: TaskSpec, party: Party, slot: int = 0, rank: int | None = 0) -> dict[str, str]:
    return environment(task, Place(replace(KEY, party=party), "ab" * 16, slot, rank, 0, 4))


TASK = a_task({GUEST: {}, HOST: {"replicas": 3, "size": 2}, OTHER: {"replicas": 2}, ARBITER: {}})


@pytest.mark.parametrize(
    ("party", "slot", "rank", "expected"),
    [
        (GUEST, 0, 0, {"GANG_RANK": "0", "PARTY_RANK": "0", "ROLE_RANK": "0", "ROLE_SIZE": "1", "PARTY_SIZE": "1"}),
        (HOST, 1, 1, {"GANG_RANK": "2", "PARTY_RANK": "1", "ROLE_RANK": "0", "ROLE_SIZE": "2", "PARTY_SIZE": "2"}),
        (OTHER, 1, 1, {"GANG_RANK": "4", "PARTY_RANK": "1", "ROLE_RANK": "1", "ROLE_SIZE": "2", "PARTY_SIZE": "2"}),
        (ARBITER, 0, 0, {"GANG_RANK": "5", "ROLE_RANK": "0", "ROLE": "arbiter", "PARTY_ID": "10000"}),
    ],
)
def test_a_worker_knows_its_place_among_all(
    party: Party, slot: int, rank: int, expected: dict[str, str]
) -> None:
    found = described(TASK, party, slot, rank)
    assert expected.items() <= {name.removeprefix("FATE_FLOW_"): value for name, value in found.items()}.items()
    assert (found["FATE_FLOW_GANG_SIZE"], found["FATE_FLOW_TASK_VERSION"], found["FATE_FLOW_TASK_NAME"]) == (
        "6", "2", "train_0",
    )  # fmt: skip


def test_the_names_of_yt_and_volcano_mean_what_they_mean_there() -> None:
    found = described(TASK, HOST, 1, 1)
    assert {name: value for name, value in found.items() if name.startswith(("YT_", "VC_", "VK_"))} == {
        "YT_OPERATION_ID": JOB_ID, "YT_OPERATION_INCARNATION": "ab" * 16, "YT_JOB_COOKIE": "1", "YT_GANG_RANK": "1",
        "YT_TASK_JOB_COUNT": "3", "YT_TASK_GANG_SIZE": "2", "YT_JOB_COUNT": "7", "YT_GANG_SIZE": "6",
        "VC_TASK_INDEX": "1", "VK_TASK_INDEX": "1", "VC_GUEST_NUM": "1", "VC_HOST_NUM": "5", "VC_ARBITER_NUM": "1",
    }  # fmt: skip
    assert described(TASK, OTHER, 1, 1)["VC_TASK_INDEX"] == "4"


def test_a_spare_worker_has_no_rank_at_all() -> None:
    found = described(TASK, HOST, 2, None)
    assert not {"FATE_FLOW_PARTY_RANK", "FATE_FLOW_GANG_RANK", "YT_GANG_RANK"} & found.keys()
    assert found["FATE_FLOW_WORKER_SLOT"] == "2"


def test_the_peers_are_named_without_their_addresses() -> None:
    assert peers(TASK)[1] == {"role": "host", "party_id": "10000", "role_rank": 0, "size": 2, "gang_ranks": [1, 2]}
    assert [one["gang_ranks"] for one in peers(TASK)] == [[0], [1, 2], [3, 4], [5]]


def test_an_elastic_worker_has_no_rank_and_nobody_counts_on_it() -> None:
    task = a_task({GUEST: {}, HOST: ONE_ELASTIC})
    place = Place(replace(KEY, party=HOST), "ab" * 16, 1, None, 0, 4, elastic_cores=2)
    found = environment(task, place)
    assert not {"FATE_FLOW_PARTY_RANK", "FATE_FLOW_GANG_RANK", "YT_GANG_RANK"} & found.keys()
    expected = {
        "ELASTIC_CORES": "2", "TASK_CORES": "4", "GANG_SIZE": "2", "PARTY_SIZE": "1", "PARTY_REPLICAS": "2"
    }  # fmt: skip
    assert expected.items() <= {name.removeprefix("FATE_FLOW_"): value for name, value in found.items()}.items()
    assert peers(task)[1] == {"role": "host", "party_id": "10000", "role_rank": 0, "size": 1, "gang_ranks": [1]}
    assert "FATE_FLOW_ELASTIC_CORES" not in described(task, HOST)


def test_a_party_that_passes_the_task_over_has_no_place_in_it() -> None:
    task = a_task({GUEST: {}, HOST: {"replicas": 3}, OTHER: {}}, frozenset({HOST}))
    assert [one["party_id"] for one in peers(task)] == ["9999", "10001"]
    assert described(task, OTHER)["FATE_FLOW_GANG_RANK"] == "1"


# ---------------------------------------------------------------------- what follows


def command(**parameters: Any) -> ProgramSpec:
    return read_program({"command": ["x"]} | parameters)


def worker(slot: int = 0, reason: Reason | None = None, rank: int | None = -1, **fields: Any) -> Worker:
    """One that runs, or has ended for this reason; its rank is its slot."""
    status = WorkerStatus.RUNNING if reason is None else WorkerStatus.EXITED
    name = f"w{slot}.{fields.get('attempt', 0)}"
    return Worker(
        name, KEY, status, "local", "/x", slot=slot, rank=slot if rank == -1 else rank, reason=reason, **fields
    )  # fmt: skip


def spare(slot: int, reason: Reason | None = None, **fields: Any) -> Worker:
    return worker(slot, reason, None, **fields)


def elastic(slot: int, reason: Reason | None = None, **fields: Any) -> Worker:
    return worker(slot, reason, None, is_elastic=True, cores=1, **fields)


DONE, ERROR, KILLED = Reason.DONE, Reason.WORKER_ERROR, Reason.WORKER_KILLED
KEEPS = {"outputs": [{"name": "m", "path": "m"}]}
SERVICE = {"restart_completed_workers": True}


@pytest.mark.parametrize(
    ("parameters", "workers", "step"),
    [
        ({"replicas": 2}, [worker(0), worker(1)], None),
        ({"replicas": 2}, [worker(0, DONE), worker(1)], None),
        ({"replicas": 2}, [worker(0, DONE), worker(1, DONE)], Done()),
        ({"replicas": 2}, [worker(0), worker(1, ERROR)], ShareFailed(worker(1, ERROR))),
        ({"replicas": 2}, [worker(0, DONE), worker(1, KILLED)], ShareFailed(worker(1, KILLED))),
        # spare ones: their end means nothing, and nobody waits for them
        ({"replicas": 2, "size": 1}, [worker(0), spare(1, ERROR)], None),
        ({"replicas": 2, "size": 1}, [worker(0, DONE), spare(1)], Dismiss((spare(1),))),
        ({"replicas": 2, "size": 1}, [worker(0, DONE), spare(1, is_stopping=True)], None),
        ({"replicas": 2, "size": 1}, [worker(0, DONE), spare(1, Reason.STOPPED)], Done()),
        ({"replicas": 2, "size": 1}, [worker(0, ERROR), spare(1)], ShareFailed(worker(0, ERROR))),
        # some may fail
        ({"max_failed_workers": 1}, [worker(0, ERROR)], Replace((worker(0, ERROR),))),
        ({"max_failed_workers": 1}, [worker(0, ERROR), worker(0, attempt=1)], None),
        ({"max_failed_workers": 1}, [worker(0, ERROR), worker(0, DONE, attempt=1)], Done()),
        (
            {"max_failed_workers": 1}, [worker(0, ERROR), worker(0, ERROR, attempt=1)],
            ShareFailed(worker(0, ERROR, attempt=1), "2 workers failed, max_failed_workers is 1"),
        ),
        (
            {"max_failed_workers": 1, "replicas": 2}, [worker(0, ERROR), worker(0, attempt=1), worker(1, ERROR)],
            ShareFailed(worker(1, ERROR), "2 workers failed, max_failed_workers is 1"),
        ),
        # interruptions are no failures
        (
            {"max_failed_workers": 1}, [worker(0, KILLED), worker(0, ERROR, attempt=1), worker(0, KILLED, attempt=2)],
            Replace((worker(0, KILLED, attempt=2),)),
        ),
        # a service goes on
        (SERVICE, [worker(0, DONE)], Replace((worker(0, DONE),))),
        (SERVICE, [worker(0, DONE), worker(0, attempt=1)], None),
        (SERVICE, [worker(0, ERROR)], ShareFailed(worker(0, ERROR), "1 worker failed, max_failed_workers is 0")),
        ({**SERVICE, "max_failed_workers": 1}, [worker(0, ERROR)], Replace((worker(0, ERROR),))),
        ({"fail_on_worker_restart": True}, [worker(0, KILLED)], ShareFailed(worker(0, KILLED))),
        # who freed capacity has not failed; else an elastic worker counts as the others do, and nobody waits for it
        (ONE_ELASTIC, [worker(0), elastic(1, Reason.CORES_LENT)], None),
        (ONE_ELASTIC, [worker(0), *(elastic(1, Reason.CORES_LENT, attempt=one) for one in range(5))], None),
        (ONE_ELASTIC, [worker(0), elastic(1, ERROR)], None),
        (
            ONE_ELASTIC, [worker(0), elastic(1, ERROR), elastic(1, ERROR, attempt=1)],
            ShareFailed(elastic(1, ERROR, attempt=1), "2 workers failed, max_failed_workers is 1"),
        ),
        (
            ONE_ELASTIC, [worker(0, ERROR, end_time=2), elastic(1, ERROR, end_time=1)],
            ShareFailed(worker(0, ERROR, end_time=2), "2 workers failed, max_failed_workers is 1"),
        ),
        (ONE_ELASTIC, [worker(0, DONE)], Done()),
        (ONE_ELASTIC, [worker(0, DONE), elastic(1)], Dismiss((elastic(1),))),
        (ONE_ELASTIC, [worker(0, DONE), elastic(1, Reason.CORES_LENT)], Done()),
        ({"replicas": 2, "size": 1, "min_replicas": 1}, [worker(0), elastic(1, ERROR)], None),
        # what they leave is collected once all is still
        (KEEPS, [worker(0)], None),
        (KEEPS, [worker(0, DONE)], Collect()),
        (KEEPS, [worker(0, DONE), spare(COLLECTOR)], None),
        (KEEPS, [worker(0, DONE), spare(COLLECTOR, DONE)], Done()),
        (KEEPS, [worker(0, DONE), spare(COLLECTOR, ERROR)], ShareFailed(spare(COLLECTOR, ERROR))),
    ],
)  # fmt: skip
def test_what_follows_from_how_the_workers_stand(parameters: Any, workers: list[Worker], step: Any) -> None:
    assert next_step(command(**parameters), workers) == step


def test_interruptions_are_free_but_not_without_end() -> None:
    killed = [worker(0, KILLED, attempt=attempt) for attempt in range(11)]
    assert isinstance(next_step(command(max_failed_workers=1), killed[:10]), Replace)
    found = next_step(command(max_failed_workers=1), killed)
    assert isinstance(found, ShareFailed)
    assert found.why_not_replaced == "11 workers were interrupted, 10 are replaced"


# ---------------------------------------------------------------------- ranks over versions


GANG = command(replicas=4, size=2, min_replicas=3)
STOPPED = Reason.STOPPED


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([], (0, 1, None, None)),
        ([worker(0, STOPPED), worker(1, STOPPED), spare(2, STOPPED), spare(3, STOPPED)], (0, 1, None, None)),
        ([worker(0, ERROR), worker(1, STOPPED), spare(2, STOPPED), spare(3, STOPPED)], (None, 1, 0, None)),
        ([worker(0, ERROR), worker(1, KILLED), spare(2, STOPPED), spare(3, STOPPED)], (None, None, 0, 1)),
        ([worker(0, STOPPED), worker(1, KILLED), spare(2, ERROR), spare(3, STOPPED)], (0, None, None, 1)),
        ([worker(0, STOPPED), worker(1, KILLED), spare(2, ERROR), spare(3, ERROR)], (0, 1, None, None)),
        ([worker(0, ERROR, None), worker(1, STOPPED), worker(2, KILLED, 0), spare(3, STOPPED)], (None, 1, None, 0)),
        ([worker(0, ERROR)], (0, 1, None, None)),
        ([worker(0, STOPPED), worker(1, KILLED)], (0, None, 1, None)),       # no spare one has begun
    ],
)  # fmt: skip
def test_a_spare_takes_the_rank_of_one_that_fell_and_the_others_keep_theirs(
    before: list[Worker], after: tuple[int | None, ...]
) -> None:
    assert ranks(GANG, before) == after


# ---------------------------------------------------------------------- with the rest of the document


def read(command: dict[str, Any], outputs: tuple[str, ...] = (), **job: Any) -> list[str]:
    conf = {
        "dsl_version": 2, "initiator": {"role": "guest", "party_id": 9999}, "role": {"guest": [9999]},
        "job_parameters": {"common": job}, "component_parameters": {"common": {"a": {"command": ["x"], **command}}},
    }  # fmt: skip
    dsl = {"components": {"a": {"module": "Command", "output": {"data": list(outputs)}}}}
    if "b" in job.get("task_conf", {}):
        dsl["components"]["b"] = {"module": "Command", "output": {}}
        conf["component_parameters"]["common"]["b"] = {"command": ["x"]}
    return document_problems(dsl, conf, modules=CATALOGUE, defaults=JobParameters())


TASK_CONF = "job_runtime_conf.job_parameters.common.task_conf"


def test_a_parameter_that_a_command_has_not_is_refused() -> None:
    place = "job_runtime_conf.component_parameters: a at guest 9999"
    assert read({"replica": 2, "need_run": True}) == [f"{place}: replica: is not known; did you mean replicas"]
    [problem] = read({"xyz": 2})
    assert problem.startswith(f"{place}: xyz: is not known; known here: command, env, ")


def test_what_is_not_to_begin_again_has_no_retry() -> None:
    never = {"fail_on_worker_restart": True}
    assert read(never) == []
    [problem] = read(never, retry={"max_attempts": 2})
    assert f"a at guest 9999: fail_on_worker_restart excludes retry; set {TASK_CONF}.a.retry" in problem
    none = {"retry": {"max_attempts": 1, "max_interruptions": 0}}
    assert read(never, retry={"max_attempts": 2}, task_conf={"a": none}) == []


RESTART_TASK, RESTART_JOB = [{"event": "any", "action": "restart_task"}], [{"event": "any", "action": "restart_job"}]


@pytest.mark.parametrize(("job", "text"), [
    ({"policies": RESTART_TASK}, "restart_task in policies of the job; set {TASK_CONF}.a.policies ["),
    ({"policies": [{"exit_code": 3, "action": "restart_task"}]}, "restart_task in policies of the job; set"),
    ({"task_conf": {"a": {"policies": RESTART_TASK}}}, "restart_task in {TASK_CONF}.a.policies"),
    ({"policies": RESTART_TASK, "task_conf": {"a": {"policies": [{"event": "worker_failed", "action": "ignore"}]}}},
     "restart_task in policies of the job; set"),
    ({"policies": RESTART_JOB}, "restart_job in policies of the job: it restarts every task"),
    ({"task_conf": {"a": {"policies": RESTART_JOB}}}, "restart_job in {TASK_CONF}.a.policies: it restarts every task"),
    ({"task_conf": {"b": {"policies": RESTART_JOB}}}, "restart_job in {TASK_CONF}.b.policies: it restarts every task"),
])  # fmt: skip
def test_what_is_not_to_begin_again_has_no_policy_that_begins_it_again(job: dict[str, Any], text: str) -> None:
    [problem] = read({"fail_on_worker_restart": True}, **job)
    assert f"a at guest 9999: fail_on_worker_restart excludes {text.format(TASK_CONF=TASK_CONF)}" in problem
    assert read({}, **job) == []


def test_a_job_may_begin_its_other_tasks_again() -> None:
    own = {"a": {"policies": [{"event": "any", "action": "ignore"}]}}
    assert read({"fail_on_worker_restart": True}, policies=RESTART_TASK, task_conf=own) == []
    own = {"b": {"policies": RESTART_TASK}}
    assert read({"fail_on_worker_restart": True}, task_conf=own) == []


def test_the_tables_of_a_command_are_those_that_the_dsl_names() -> None:
    made = {"outputs": [{"name": "t", "path": "t.csv", "kind": "table"}, {"name": "m", "path": "m"}]}
    assert read(made, ("t",)) == read(made) == []
    [problem] = read(made, ("m",))
    assert "outputs: the DSL has m as output, the outputs of kind table are: t" in problem
