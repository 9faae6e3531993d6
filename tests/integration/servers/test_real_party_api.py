"""The routes between parties (reference: party-api-v1), asked by hand of a real server, as another party would.

The host 10000 is commanded by us in the name of 9999. What a plain v1 peer sends is enough: no extensions, no run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

import psutil
import pytest

from fate_flow.cli.server import service
from tests.kit.servers.party_servers import CORES, GUEST, HOST, OTHER, Answer, Cluster, PartyServer, toy
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

NUMBERS = count(time.time_ns() // 1000)
INCARNATION = "ab" * 16


class HandMade:
    """A job at the host that we command; ended when the test is over."""

    def __init__(self, host: PartyServer, caller: str = GUEST) -> None:
        self.host = host
        self.caller = caller
        self.job_id = f"20260101{next(NUMBERS)}"
        self.task_id = f"{self.job_id}_toy_0"

    def body(self) -> dict[str, Any]:
        document = toy()
        conf = document["job_runtime_conf"]
        return {
            "job_id": self.job_id, "dsl": document["job_dsl"], "runtime_conf": conf, "train_runtime_conf": {},
            "roles": conf["role"], "initiator_role": "guest", "initiator_party_id": GUEST,
            "extensions": {"batch": 1}, "incarnations": {"toy_0": INCARNATION},
        }

    def endpoint(self, verb: str) -> str:
        return f"party/{self.job_id}/host/{HOST}/{verb}"

    def task_endpoint(self, verb: str, version: int = 0) -> str:
        return f"party/{self.job_id}/toy_0/{self.task_id}/{version}/host/{HOST}/{verb}"

    def ask(self, verb: str, body: object = None, caller: str = "") -> Answer:
        return self.host.from_party(caller or self.caller, self.endpoint(verb), body)

    def ask_task(self, verb: str, body: object = None, version: int = 0) -> Answer:
        return self.host.from_party(self.caller, self.task_endpoint(verb, version), body)

    def begun(self, until: str) -> HandMade:
        """The job, after the usual commands up to this one."""
        for verb in ("create", "status/waiting", "resource/apply", "start"):
            answer = self.ask(verb, self.body() if verb == "create" else None)
            assert answer["retcode"] == 0, (verb, answer)
            if verb == until:
                return self
        raise AssertionError(until)

    @property
    def status(self) -> str:
        return str(self.host.job(self.job_id)["f_status"])


@pytest.fixture
def job(on_sqlite: Cluster) -> Iterator[HandMade]:
    on_sqlite.check_idle()       # the workers of the job before end after its last command
    made = HandMade(on_sqlite.host)
    # The server of 9999 knows nothing of the job. It would say so when the host asks from time to time.
    with suspended(on_sqlite.guest):
        yield made
        made.ask("stop/canceled")
        made.ask("status/canceled")


@contextmanager
def suspended(server: PartyServer) -> Iterator[None]:
    """The server, and what it has started, neither asks nor answers meanwhile."""
    running = service.find(server.home)
    assert running is not None
    first = psutil.Process(running.pid)
    processes = [first, *first.children(recursive=True)]
    for process in processes:
        with suppress(psutil.NoSuchProcess):        # the last runner ends a moment after its end is known
            process.suspend()
    try:
        yield
    finally:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.resume()


def codes(*answers: Answer) -> list[int]:
    return [answer["retcode"] for answer in answers]


# ---------------------------------------------------------------------- job commands


def test_create_says_what_runs_here_and_may_come_twice(job: HandMade) -> None:
    first, second = job.ask("create", job.body()), job.ask("create", job.body())
    assert codes(first, second) == [0, 0]
    assert first["data"]["components"] == {"toy_0": {"need_run": True}}
    assert first["data"] == second["data"]
    assert {"batch", "lease", "incarnation", "exchange", "stopping"} <= set(first["data"]["extensions"])
    row = job.host.job(job.job_id)
    assert (row["f_status"], row["f_is_initiator"], row["f_asked_cores"]) == ("ready", 0, 2)
    [task] = job.host.tasks(job.job_id)
    assert (task["f_status"], task["f_party_status"], task["f_task_version"]) == ("waiting", "waiting", 0)


@pytest.mark.parametrize(("change", "retcode", "fragment"), [
    ({"dsl": None}, 101, "dsl: is missing"),
    ({"runtime_conf": []}, 101, "runtime_conf: is missing or is not an object"),
    ({"dsl": {"components": {"toy_0": {"module": "Nothing"}}}}, 101, "'Nothing' is not known here"),
])
def test_a_create_that_is_wrong_is_refused_and_leaves_nothing(
    on_sqlite: Cluster, change: dict[str, object], retcode: int, fragment: str
) -> None:
    made = HandMade(on_sqlite.host)
    with on_sqlite.unchanged():
        answer = made.ask("create", {**made.body(), **change})
        assert answer["retcode"] == retcode
        assert fragment in answer["retmsg"]


def test_a_create_beyond_the_cores_is_refused_with_103(on_sqlite: Cluster) -> None:
    made = HandMade(on_sqlite.host)
    body = made.body()
    body["runtime_conf"]["job_parameters"]["common"]["task_cores"] = CORES + 1
    with on_sqlite.unchanged():
        answer = made.ask("create", body)
        assert answer["retcode"] == 103
        assert "21 cores" in answer["retmsg"]


def test_a_submit_that_failed_elsewhere_is_forgotten(on_sqlite: Cluster) -> None:
    made = HandMade(on_sqlite.host)
    with on_sqlite.unchanged():
        assert codes(made.ask("create", made.body())) == [0]
        assert codes(made.ask("status/failed", {"tag": "submit_failed"})) == [0]


def test_another_party_neither_changes_nor_reads_a_running_job(job: HandMade) -> None:
    """With a document of its own for another seat, a revision that it chose, and every command there is."""
    job.begun("start")
    before = [job.host.job(job.job_id), job.host.tasks(job.job_id)]
    conf = {**job.body()["runtime_conf"], "initiator": {"role": "guest", "party_id": int(OTHER)}}
    conf["role"] = {"guest": [int(OTHER)], "host": [int(HOST)]}
    own = {**job.body(), "runtime_conf": conf, "revision": 9}
    parameters = {"job_parameters": {}, "component_parameters": {}, "revision": 9}
    at_a_free_seat = {**own, "runtime_conf": {**conf, "role": {"guest": [int(OTHER)], "arbiter": [int(HOST)]}}}
    said = [
        job.host.from_party(OTHER, f"party/{job.job_id}/arbiter/{HOST}/create", at_a_free_seat),
        job.ask("create", own, OTHER), job.ask("parameter/update", parameters, OTHER),
        *(job.ask(verb, {}, OTHER) for verb in ("status/failed", "stop/canceled", "resource/return", "align")),
        *(job.host.from_party(OTHER, job.task_endpoint(verb)) for verb in ("start", "status/failed", "stop/canceled")),
        job.host.from_party(OTHER, "party/history", {"job_id": job.job_id}),
        job.host.from_party(OTHER, f"tracker/{job.job_id}/toy_0/host/{HOST}/output/table"),
        job.host.from_party(HOST, job.endpoint("stop/canceled")),
    ]
    assert codes(*said) == [108] * len(said)
    assert [job.host.job(job.job_id), job.host.tasks(job.job_id)] == before


def test_apply_reserves_once_and_return_gives_back_once(job: HandMade) -> None:
    job.begun("create")
    early = job.ask("resource/apply")
    assert early["retcode"] == 103, "nobody has accepted it yet"
    assert codes(job.ask("status/waiting"), job.ask("status/waiting"), job.ask("dependence/check")) == [0, 0, 0]
    first, second = job.ask("resource/apply"), job.ask("resource/apply")
    assert codes(first, second) == [0, 0]
    assert first["data"]["remaining_cores"] == second["data"]["remaining_cores"] == CORES - 2 == job.host.free_cores
    assert codes(job.ask("resource/return"), job.ask("resource/return")) == [0, 0]
    assert job.host.free_cores == CORES
    assert codes(job.ask("resource/apply")) == [0]
    assert job.host.free_cores == CORES - 2


def test_a_return_of_an_earlier_reservation_round_gives_nothing_back(job: HandMade) -> None:
    job.begun("status/waiting")
    assert codes(job.ask("resource/apply", {"turn": 2}), job.ask("resource/return", {"turn": 1})) == [0, 0]
    assert job.host.free_cores == CORES - 2


def test_start_needs_a_reservation_and_may_come_twice(job: HandMade) -> None:
    job.begun("status/waiting")
    refused = job.ask("start")
    assert refused["retcode"] == 103
    assert "holds nothing" in refused["retmsg"]
    job.ask("resource/apply")
    assert codes(job.ask("start"), job.ask("start")) == [0, 0]
    assert job.status == "running"
    assert codes(job.ask("resource/return")) == [10]
    assert job.host.free_cores == CORES - 2
    assert codes(job.ask("dependence/check"), job.ask("model"), job.ask("clean")) == [0, 0, 0]


def test_update_and_align_write_the_progress_and_nothing_else(job: HandMade) -> None:
    job.begun("start")
    before = job.host.job(job.job_id)
    described = {
        "progress": 40, "status": "success", "is_initiator": True, "resource_in_use": False, "cores": 0,
        "runtime_conf": {}, "initiator_party_id": OTHER,
    }
    assert codes(job.ask("update", described), job.ask("align", {**described, "progress": 30})) == [0, 0]
    after = job.host.job(job.job_id)
    changed = {key for key in before if before[key] != after[key]}
    assert changed <= {"f_progress", "f_update_time", "f_update_date"}
    assert after["f_progress"] == 40


def test_a_status_that_ends_the_job_gives_its_cores_back_and_stays(job: HandMade) -> None:
    job.begun("start")
    assert codes(job.ask("status/running"), job.ask("status/nonsense")) == [10, 101]
    assert codes(job.ask("status/success"), job.ask("status/success")) == [0, 0]
    assert (job.status, job.host.free_cores) == ("success", CORES)
    assert codes(job.ask("status/failed")) == [0]
    assert job.status == "success"
    assert codes(job.ask("start")) == [103]


def test_stop_ends_what_runs_and_answers_with_the_tasks(job: HandMade) -> None:
    job.begun("start")
    job.ask_task("start")
    worker = job.host.worker_of(job.job_id, "toy_0").worker
    answer = job.ask("stop/canceled")
    assert answer["retcode"] == 0
    assert [task["task_id"] for task in answer["data"]["tasks"]] == [job.task_id]
    eventually(lambda: not worker.is_alive(), "the end of the worker")
    assert codes(job.ask("stop/canceled"), job.ask("status/canceled")) == [0, 0]
    eventually(lambda: job.status == "canceled", lambda: job.status)
    assert job.host.free_cores == CORES


def test_commands_for_a_job_that_is_not_here(on_sqlite: Cluster) -> None:
    job = HandMade(on_sqlite.host)
    with on_sqlite.unchanged():
        assert codes(job.ask("resource/apply"), job.ask("start"), job.ask("update")) == [103, 103, 103]
        assert codes(job.ask("resource/return"), job.ask("stop/canceled"), job.ask("status/canceled")) == [0, 0, 0]
        assert codes(job.ask_task("start"), job.ask_task("stop/canceled")) == [102, 102]
        assert "is not known" in job.ask("start")["retmsg"]
        assert codes(job.ask("no/such/verb")) == [101]


# ---------------------------------------------------------------------- who may command


def test_only_the_initiator_commands_a_job(job: HandMade) -> None:
    job.begun("status/waiting")
    for verb in ("resource/apply", "resource/return", "start", "status/failed", "stop/failed", "update", "clean"):
        answer = job.ask(verb, caller=OTHER)
        assert answer["retcode"] == 108, verb
        assert "party 10001 is not the initiator" in answer["retmsg"]
    for verb in ("start", "status/failed", "stop/failed", "collect", "create"):
        assert job.host.from_party(OTHER, job.task_endpoint(verb))["retcode"] == 108, verb
    assert job.status == "waiting"


def test_a_job_is_created_by_its_initiator_alone(on_sqlite: Cluster) -> None:
    made = HandMade(on_sqlite.host)
    with on_sqlite.unchanged():
        answer = made.ask("create", made.body(), caller=OTHER)
        assert answer["retcode"] == 108
        assert "guest 9999 is not party 10001" in answer["retmsg"]


def test_a_caller_says_who_it_is(job: HandMade) -> None:
    answer = job.host.post(job.endpoint("create"), job.body())
    assert answer["retcode"] == 108
    assert "SRC-PARTY-ID" in answer["retmsg"]
    assert codes(job.ask("create", job.body(), caller="nobody")) == [101]


def test_role_local_and_party_0_are_the_own_server_s(on_sqlite: Cluster) -> None:
    made = HandMade(on_sqlite.host)
    with on_sqlite.unchanged():
        for place in ("local/0", "local/10000", "host/0"):
            for caller in (GUEST, HOST, "0"):
                for verb in ("create", "start", "status/failed"):
                    answer = on_sqlite.host.from_party(caller, f"party/{made.job_id}/{place}/{verb}", made.body())
                    assert answer["retcode"] == 108, (place, caller, verb)


def test_a_command_for_another_party_is_not_taken(on_sqlite: Cluster) -> None:
    made = HandMade(on_sqlite.host)
    with on_sqlite.unchanged():
        answer = on_sqlite.host.from_party(GUEST, f"party/{made.job_id}/host/{OTHER}/create", made.body())
        assert answer["retcode"] == 101
        assert "this server is party 10000, not 10001" in answer["retmsg"]


@pytest.mark.parametrize(("version", "retcode"), [("1.6.0", 107), ("1.11.2", 0), ("", 0), ("one", 101)])
def test_a_peer_may_be_as_old_as_1_7(job: HandMade, version: str, retcode: int) -> None:
    headers = {"src-party-id": GUEST, "src-fate-ver": version} if version else {"src-party-id": GUEST}
    assert job.host.post(job.endpoint("create"), job.body(), headers=headers)["retcode"] == retcode


# ---------------------------------------------------------------------- task commands


def test_a_task_is_started_once_and_told_of(job: HandMade) -> None:
    job.begun("resource/apply")
    assert codes(job.ask_task("start")) == [103], "the job does not run yet"
    job.ask("start")
    first = job.ask_task("start", {"user_id": "", "incarnation": INCARNATION})
    assert first["retcode"] == 0
    assert first["data"]["party_status"] == "waiting"
    worker = job.host.worker_of(job.job_id, "toy_0").worker
    again = eventually(lambda: is_running(job.ask_task("start")), "its start")
    assert again["data"]["incarnation"] == INCARNATION
    assert codes(job.ask_task("status/running"), job.ask_task("update", {"status": "failed"})) == [0, 0]
    assert len(job.host.rows("SELECT * FROM t_worker WHERE f_job_id = ?", job.job_id)) == 1

    collected = job.ask_task("collect")["data"]
    assert {key: collected[key] for key in ("job_id", "task_id", "role", "party_id", "status", "party_status")} == {
        "job_id": job.job_id, "task_id": job.task_id, "role": "host", "party_id": HOST, "status": "running",
        "party_status": "running",
    }
    assert int(collected["task_version"]) == 0
    assert codes(job.ask_task("stop/canceled", {"is_asynchronous": True}), job.ask_task("stop/canceled")) == [0, 0]
    eventually(lambda: not worker.is_alive(), "the end of the worker")
    eventually(lambda: job.ask_task("collect")["data"]["party_status"] == "canceled", "its end")


def is_running(answer: Answer) -> Answer | None:
    return answer if answer["data"]["party_status"] == "running" else None


def test_a_stale_incarnation_changes_nothing(job: HandMade) -> None:
    job.begun("start")
    stale = {"incarnation": "cd" * 16}
    assert codes(*(job.ask_task(verb, stale) for verb in ("start", "status/running", "stop/canceled"))) == [10, 10, 10]
    [task] = job.host.tasks(job.job_id)
    assert (task["f_party_status"], task["f_status"], task["f_worker_id"]) == ("waiting", "waiting", None)


def test_a_new_version_is_a_new_row(job: HandMade) -> None:
    job.begun("start")
    body = {"incarnation": "ef" * 16, "auto_retries": 3}
    assert codes(job.ask_task("create", body, 1), job.ask_task("create", body, 1)) == [0, 0]
    assert codes(job.ask_task("clean/metrics")) == [0]
    first, second = job.host.tasks(job.job_id)
    assert (first["f_task_version"], second["f_task_version"]) == (0, 1)
    assert (second["f_party_status"], second["f_incarnation"], second["f_auto_retries"]) == ("waiting", "ef" * 16, 3)


def test_tasks_that_are_not_there(job: HandMade) -> None:
    job.begun("start")
    assert codes(job.ask_task("start", version=7), job.ask_task("stop/canceled", version=7)) == [102, 102]
    answer = job.ask_task("collect", version=7)
    assert (answer["retcode"], answer["retmsg"]) == (103, "query task failed")
    other = f"party/{job.job_id}/toy_0/{job.job_id}_other_0/0/host/{HOST}/start"
    assert job.host.from_party(GUEST, other)["retcode"] == 101


# ---------------------------------------------------------------------- several at once, and signs of life


def test_a_batch_is_carried_out_in_its_order_and_a_bad_one_spoils_no_other(job: HandMade) -> None:
    listed = [
        {"endpoint": f"/{job.endpoint('create')}", "body": job.body()},
        {"endpoint": f"/{job.endpoint('nonsense')}", "body": {}},
        {"endpoint": f"/{job.endpoint('status/waiting')}", "body": {}},
        {"endpoint": f"/party/{job.job_id}/guest/{HOST}/start", "body": {}},
        {"endpoint": f"/{job.endpoint('resource/apply')}", "body": {}},
        {"no": "endpoint"},
    ]
    answer = job.host.from_party(GUEST, "party/batch", {"commands": listed})
    assert answer["retcode"] == 0
    assert codes(*answer["data"]) == [0, 101, 0, 103, 0, 101]
    assert (job.status, job.host.free_cores) == ("waiting", CORES - 2)
    assert job.host.from_party(GUEST, "party/batch", {"commands": "all"})["retcode"] == 101
    assert {one["retcode"] for one in job.host.from_party(OTHER, "party/batch", {"commands": listed[2:3]})["data"]} == {
        108
    }


def test_a_heartbeat_is_answered_with_the_jobs_that_are_over(job: HandMade) -> None:
    job.begun("start")
    unknown = f"20260101{next(NUMBERS)}"
    beat = {"jobs": [[job.job_id, 0], [unknown, 0]]}
    assert job.host.from_party(GUEST, "party/heartbeat", beat)["data"]["ended"] == {unknown: "it is not known here"}
    # To a party that does not command it, a job is as good as unknown.
    assert set(job.host.from_party(OTHER, "party/heartbeat", beat)["data"]["ended"]) == {job.job_id, unknown}
    job.ask("status/failed")
    assert set(job.host.from_party(GUEST, "party/heartbeat", beat)["data"]["ended"]) == {job.job_id, unknown}
    assert job.host.from_party(GUEST, "party/heartbeat", {"jobs": 7})["retcode"] == 101


# ---------------------------------------------------------------------- what the initiator is told


HttpError = Callable[..., Answer]


@pytest.fixture
def running(on_sqlite: Cluster) -> Iterator[str]:
    """The id of a job whose host has not got its worker yet, so that we can speak for it."""
    with on_sqlite.held(HOST):
        job_id = on_sqlite.submit(toy())
        on_sqlite.guest.worker_of(job_id, "toy_0")
        yield job_id
    on_sqlite.wait(job_id)


def report(cluster: Cluster, job_id: str, caller: str, **body: object) -> Answer:
    endpoint = f"initiator/{job_id}/toy_0/{job_id}_toy_0/0/host/{HOST}/report"
    return cluster.guest.from_party(caller, endpoint, {"party_status": "failed", "error_report": "by hand", **body})


def status_at_initiator(cluster: Cluster, job_id: str) -> str:
    [row] = cluster.guest.rows("SELECT * FROM t_task WHERE f_job_id = ? AND f_party_id = ?", job_id, HOST)
    return str(row["f_party_status"])


def test_a_party_reports_for_itself_alone(on_sqlite: Cluster, running: str) -> None:
    assert codes(report(on_sqlite, running, OTHER)) == [108]
    assert codes(report(on_sqlite, running, HOST, party_status="splendid")) == [101]
    assert codes(report(on_sqlite, running, HOST, incarnation="cd" * 16)) == [0]
    assert status_at_initiator(on_sqlite, running) == "waiting"


def test_a_report_of_a_failure_ends_the_job_with_its_reason(on_sqlite: Cluster, running: str) -> None:
    assert codes(report(on_sqlite, running, HOST), report(on_sqlite, running, HOST)) == [0, 0]
    row = on_sqlite.guest.wait(running, "failed")
    assert "by hand" in row["f_message"]
    [task] = on_sqlite.guest.tasks(running)
    assert task["f_party_status"] == "canceled"


def test_the_initiator_stops_a_job_for_its_parties_alone(on_sqlite: Cluster, running: str) -> None:
    endpoint = f"initiator/{running}/guest/{GUEST}/stop"
    guest = on_sqlite.guest
    assert codes(guest.from_party(OTHER, f"{endpoint}/canceled")) == [108]
    assert codes(guest.from_party(HOST, f"{endpoint}/nonsense")) == [101]
    assert guest.job(running)["f_status"] == "running"
    assert codes(*(guest.from_party(HOST, f"{endpoint}/canceled") for _ in range(2))) == [0, 0]
    assert guest.wait(running, "canceled")["f_reason"] == "stopped_by_user"


def test_a_stop_of_a_job_that_the_initiator_does_not_know_is_no_error(on_sqlite: Cluster) -> None:
    job_id = f"20260101{next(NUMBERS)}"
    answer = on_sqlite.guest.from_party(HOST, f"initiator/{job_id}/guest/{GUEST}/stop/canceled")
    assert (answer["retcode"], answer["retmsg"]) == (0, f"can not found job {job_id}")


# ---------------------------------------------------------------------- the exchange


def test_a_server_delivers_for_its_own_party_alone_and_to_sessions_that_are_open(
    on_sqlite: Cluster, running: str
) -> None:
    [task] = on_sqlite.guest.tasks(running)

    def deliver(caller: str, incarnation: str) -> int:
        place = f"{running}/{running}_toy_0/0/{incarnation}/host/{HOST}/guest/{GUEST}"
        return on_sqlite.guest.raw(
            "POST", f"exchange/deliver/{place}?topic=by.hand&seq=0&last=1", data=b"x", headers={"SRC-PARTY-ID": caller}
        ).status_code

    assert deliver(OTHER, task["f_incarnation"]) == 403
    assert deliver(HOST, "cd" * 16) == 425
    assert deliver(HOST, task["f_incarnation"]) == 200
    assert on_sqlite.guest.post("job/stop", {"job_id": running})["retcode"] == 0
    on_sqlite.guest.wait(running, "canceled")
    eventually(lambda: deliver(HOST, task["f_incarnation"]) in (410, 425), "the end of the session")
