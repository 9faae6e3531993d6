"""The schedule stage of an upload can be followed line by line, as the walk-through of FATE 1.6 does
(reference: logs-v1, section 3.3)."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from tests.kit.servers.party_servers import Cluster, PartyServer, csv_text
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

LINE = re.compile(
    r"\[(?P<level>[A-Z]+)\] \[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\] \[(?P<origin>\d+:\d+)\]"
    r" - (?P<source>\w+\.py)\[line:\d+\]: (?P<message>.*)"
)
SERVER, JOB, AUDIT, SQL, DATABASE = "server schedule", "job schedule", "audit", "sql", "database"


@dataclass(frozen=True)
class Found:
    log: str
    number: int
    time: str
    origin: str
    message: str


def files_of(party: PartyServer, job_id: str) -> dict[str, list[str]]:
    return {
        SERVER: party.log("fate_flow", "fate_flow_schedule.log"),
        JOB: party.log(job_id, "fate_flow_schedule.log"),
        AUDIT: party.log(job_id, "fate_flow_audit.log"),
        SQL: party.log(job_id, "fate_flow_sql.log"),
        DATABASE: party.log("fate_flow", "peewee.log"),
    }


def walk(logs: dict[str, list[str]], steps: list[tuple[str, str]]) -> list[Found]:
    """The first line of each step after the one before it in the same file."""
    reached = dict.fromkeys(logs, 0)
    found = []
    for log, pattern in steps:
        for number in range(reached[log], len(logs[log])):
            line = LINE.fullmatch(logs[log][number])
            if line and re.search(pattern, line["message"]):
                found.append(Found(log, number, line["time"], line["origin"], line["message"]))
                reached[log] = number + 1
                break
        else:
            pytest.fail(f"in {log} no line after {reached[log]} is {pattern!r}; before it: {found[-1:]}")
    return found


@pytest.fixture
def upload(on_sqlite: Cluster) -> tuple[PartyServer, str]:
    """A server, and the id of a job that has put a table into it, with the 4 cores of an upload."""
    answer = on_sqlite.guest.upload("walked", csv_text(["id", "x"], {"a": [1], "b": [2]}), drop=1, task_cores=None)
    assert answer["retcode"] == 0, answer
    on_sqlite.guest.wait(answer["jobId"], "success")
    eventually(lambda: has_its_end(on_sqlite.guest, answer["jobId"]), "the last lines, written after the commit")
    return on_sqlite.guest, answer["jobId"]


def has_its_end(party: PartyServer, job_id: str) -> bool:
    """Whether the logs say that the job has ended."""
    logs = files_of(party, job_id)
    lasts = {JOB: f"Job {job_id} finished with success, done", SQL: "UPDATE `t_job` SET .*`f_status` = 'success'"}
    return all(any(re.search(last, line) for line in logs[log]) for log, last in lasts.items())


def test_an_upload_can_be_followed_from_the_queue_to_its_start(upload: tuple[PartyServer, str]) -> None:
    server, job = upload
    own = f"{server.url}/v1/party/{job}/local/0"
    local = r" \(own party: carried out in this process, nothing was sent\)"
    steps = [
        (SERVER, f"^schedule waiting job {job}$"),
        (DATABASE, rf'UPDATE "t_job" SET .*"f_ready_signal" = \?, "f_ready_time" = \?.*{job}'),
        (JOB, f"^try to apply job {job} resource$"),
        (AUDIT, f"^remote http api request: {own}/resource/apply{local}$"),
        (DATABASE, rf'UPDATE "t_job" SET .*"f_resource_in_use" = \?.*{job}'),
        (DATABASE, 'UPDATE "t_engine_registry" SET "f_remaining_cores" = '),
        (JOB, rf"^apply job {job} resource\(cores 4 memory 0\) on local 0 successfully, "
              "remaining cores: 16 remaining memory: 0$"),
        (AUDIT, '^{"retcode":0,"retmsg":"success"'),
        (AUDIT, f"^remote http api response: /v1/party/{job}/local/0/resource/apply "
                "{'retcode': 0, 'retmsg': 'success'"),
        (JOB, f"^apply job {job} resource successfully$"),
        (JOB, f"^try to start job {job} on initiator local 0$"),
        (AUDIT, f"^remote http api request: {own}/start{local}$"),
        (JOB, f"^try to start job {job} on local 0$"),
        (JOB, f"^try to update job {job} status to running$"),
        (SQL, rf"^UPDATE `t_job` SET `f_status` = 'running'.*`f_job_id` = '{job}'.*`f_role` = 'local'.*"
              r"`f_party_id` = '0'.*`f_status` = 'waiting'"),
        (DATABASE, rf"UPDATE \"t_job\" SET .*\"f_status\" = \?.*'running'.*{job}"),
        (JOB, f"^update job {job} status successfully$"),
        (JOB, f"^start job {job} on local 0 successfully$"),
        (AUDIT, f"^remote http api response: /v1/party/{job}/local/0/start "),
        (JOB, f"^start job {job} on initiator local 0$"),
        (DATABASE, rf'UPDATE "t_job" SET .*"f_ready_signal" = \?.*False.*{job}'),
        (JOB, f"^reset job {job} ready signal True$"),
    ]
    found = walk(files_of(server, job), steps)
    times = [one.time for one in found]
    assert times == sorted(times), "\n".join(f"{one.time} {one.log}: {one.message[:120]}" for one in found)
    assert len({one.origin for one in found}) == 1, "the scheduler does it all by itself"


def test_the_waiting_round_has_its_end_from_its_start_to_its_end(upload: tuple[PartyServer, str]) -> None:
    server, job = upload
    described = [found for line in server.log("fate_flow", "fate_flow_schedule.log") if (found := LINE.fullmatch(line))]
    [scheduler] = {one["origin"] for one in described if one["message"] == f"schedule waiting job {job}"}
    lines = [one["message"] for one in described if one["origin"] == scheduler]  # others write between them
    place = lines.index(f"schedule waiting job {job}")
    assert lines[place - 2:place + 2] == [
        "start schedule waiting jobs", "have 1 waiting jobs", f"schedule waiting job {job}",
        "schedule waiting jobs finished",
    ]


def test_the_end_of_an_upload_has_its_end_too(upload: tuple[PartyServer, str]) -> None:
    server, job = upload
    task = f"{job}_upload_0"
    found = walk(files_of(server, job), [
        (JOB, f"^try to start job {job} task {task} 0 on local 0 executor subprocess$"),
        (JOB, f"^job {job} task {task} 0 on local 0 executor subprocess start success$"),
        (JOB, f"^update job {job} task {task} 0 status successfully: {{'party_status': 'running'}}$"),
        (JOB, f"^update job {job} task {task} 0 status successfully: {{'party_status': 'success'}}$"),
        (JOB, f"^job {job} task {task} 0 is success, sync to all party$"),
        (JOB, f"^Job {job} finished with success, do something...$"),
        (JOB, rf"^return job {job} resource\(cores 4 memory 0\) on local 0 successfully, "
              "remaining cores: 20 remaining memory: 0$"),
        (SQL, r"^UPDATE `t_job` SET .*`f_status` = 'success'.*`f_status` = 'running'"),
        (JOB, f"^Job {job} finished with success, done$"),
    ])
    assert [one.time for one in found] == sorted(one.time for one in found)


def test_every_line_of_the_operators_logs_has_the_form_of_1_6(upload: tuple[PartyServer, str]) -> None:
    server, job = upload
    for log, lines in files_of(server, job).items():
        assert [line for line in lines if not LINE.fullmatch(line)] == [], log
