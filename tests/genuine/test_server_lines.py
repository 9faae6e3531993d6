"""The lines of the checklist that begin with `server:`, which no command of the client asks: as FATE's board and other
programs do, over HTTP, each with its success, with what is refused, and without a signature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.genuine.checklist import LINES
from tests.genuine.world import UNKNOWN, World
from tests.kit.api.shapes import Each, Some, misfits
from tests.kit.servers.party_servers import GUEST, HOST, PartyServer, toy

pytestmark = pytest.mark.timeout(900)

PATHS = {line["command"]: line["path"].removeprefix("/v1/") for line in LINES if line["command"].startswith("server:")}
SEAT = {"job_id": "{job}", "role": "guest", "party_id": GUEST}
SUM = {**SEAT, "component_name": "sum_0"}
NO_JOB = {**SEAT, "job_id": UNKNOWN}
NO_SEAT = {**SEAT, "role": "arbiter"}
NO_ID = {**SEAT, "job_id": "../../etc"}
SCHEDULE = {"log_type": "jobSchedule", "job_id": "{job}"}


@dataclass(frozen=True)
class Asked:
    """`retcode` is FATE's for what is refused; `data` the shape of what is not."""

    line: str
    body: dict[str, Any]
    retcode: int = 0
    data: Any = None
    says: str = ""
    party_id: str = HOST

    @property
    def path(self) -> str:
        return PATHS[self.line].replace("<party_id>", self.party_id)


ASKED = (
    Asked("server: job clean", NO_JOB, 102, says="can not found job"),
    Asked("server: job clean", {"job_id": "../../etc"}, 101, says="job_id"),
    Asked("server: job clean", {**SEAT, "component_name": "a/b"}, 101, says="component_name"),
    Asked("server: job notes", {**SEAT, "notes": "mine"}),
    Asked("server: job notes", {**NO_JOB, "notes": "mine"}, 102, says="can not found job"),
    Asked("server: job notes", {**SEAT, "notes": 7}, 101, says="notes"),
    Asked("server: job notes", SEAT, 101, says="missing: notes"),
    Asked("server: job log path", {"job_id": "{job}"}, data={"logs_directory": str}),
    Asked("server: job log path", {}, 101, says="missing: job_id"),
    Asked("server: job log path", {"job_id": "../../etc"}, 101, says="job_id"),
    Asked("server: job board url", SEAT, data={"board_url": [str]}),
    Asked("server: job board url", {**SEAT, "role": "boss"}, 101, says="role"),
    Asked("server: job board url", {"job_id": "{job}"}, 101, says="missing: role,party_id"),
    Asked("server: job report", SEAT, data=[{
        "component_name": str, "start_time": int, "end_time": int, "elapsed": int, "status": "success", "index": int}]),
    Asked("server: job report", NO_JOB, 101, says="find task failed"),
    Asked("server: job report", NO_ID, 101, says="job_id"),
    Asked("server: job data view (board)", SEAT, data={
        "partner": dict, "roles": {"guest": [int], "host": [int]}, "model_summary": {},
        "dataset": {"guest": {GUEST: {"reader_0": "it.numbers"}}, "host": {HOST: {"reader_0": "it.numbers"}}}}),
    Asked("server: job data view (board)", NO_JOB, 101, says="find job failed"),
    Asked("server: job data view (board)", NO_SEAT, 101, says="find job failed"),
    Asked("server: dag dependency (board)", SEAT, data={
        "component_list": [str], "component_module": {"sum_0": "SecureSum"},
        "component_need_run": {"reader_0": True}, "dependencies": {"sum_0": [{"component_name": "reader_0"}]}}),
    Asked("server: dag dependency (board)", NO_JOB, 101, says="find job failed"),
    Asked("server: dag dependency (board)", NO_SEAT, 101, says="find job failed"),
    Asked("server: metric data (board)", {**SUM, "metric_namespace": "train", "metric_name": "secure_sum"}),
    Asked("server: metric data (board)", SUM, 101, says="missing: metric_namespace,metric_name"),
    Asked("server: metric data (board)", {**SUM, "component_name": "a/b", "metric_namespace": "a", "metric_name": "b"},
          101, says="component_name"),
    Asked("server: component output data (board)", {**SEAT, "component_name": "reader_0"}, data=[[[str]]]),
    Asked("server: component output data (board)", {**SUM, "job_id": UNKNOWN}, data=Some(list), says="no data"),
    Asked("server: component output data (board)", SEAT, 101, says="missing: component_name"),
    Asked("server: component output data (board)", {**SUM, "role": "boss"}, 101, says="role"),
    Asked("server: table list of job", SEAT, data={"reader_0": {
        "input": {}, "output": {"raw": {"name": "numbers", "namespace": "it"}}}}),
    Asked("server: table list of job", NO_JOB, 101, says="find job failed"),
    Asked("server: table list of job", NO_SEAT, 101, says="find job failed"),
    Asked("server: table preview", {"namespace": "it", "table_name": "numbers"}, data={
        "count": 20, "header": [str], "data": [[str]]}),
    Asked("server: table preview", {"namespace": "it", "table_name": "nothing"}, 101, says="no find table"),
    Asked("server: table preview", {"namespace": "it"}, 101, says="missing: table_name"),
    Asked("server: log size", SCHEDULE, data={"size": int}),
    Asked("server: log size", {**SCHEDULE, "job_id": "../../etc"}, 101, says="job_id"),
    Asked("server: log size", {**SCHEDULE, "log_type": "diary"}, 101, says="log_type"),
    Asked("server: log cat", {**SCHEDULE, "begin": 1, "end": 2}, data=[{"line_num": int, "content": str}]),
    Asked("server: log cat", {**SCHEDULE, "job_id": "../../etc"}, 101, says="job_id"),
    Asked("server: log cat", {**SCHEDULE, "begin": "first"}, 101, says="begin"),
    Asked("server: common info", {}, data={"version": str, "host": str, "http_port": int, "party_id": GUEST}),
    Asked("server: party info via proxy", {}, data={"party_id": HOST}),
    Asked("server: party info via proxy", {}, 101, says="party_id", party_id="nobody"),
    Asked("server: party info via proxy", {}, 101, says="4711 has no route", party_id="4711"),
    Asked("server: job defaults", {}, data={"task_cores": int, "task_parallelism": int}),
    Asked("server: instances", {}, data=Each({"host": str, "http_port": int})),
)


def with_facts(body: dict[str, Any], world: World) -> dict[str, Any]:
    return {key: value.format_map(world.facts) if isinstance(value, str) else value for key, value in body.items()}


@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: f"{asked.line}: {asked.body} {asked.party_id}")
def test_what_it_answers(world: World, asked: Asked) -> None:
    said = world.guest.post(asked.path, with_facts(asked.body, world))
    assert (said["retcode"], asked.says in said["retmsg"]) == (asked.retcode, True), said
    assert list(misfits(said.get("data"), asked.data)) == []
    assert not (world.guest.home / "logs" / UNKNOWN).exists(), "nobody keeps a log of what is no job"


def test_what_a_job_left_goes(world: World) -> None:
    job_id = world.parties.run(toy())
    place = {"job_id": job_id, "role": "guest", "party_id": GUEST}
    of_task = {**place, "component_name": "toy_0"}
    assert world.guest.ask("tracking/component/metrics", of_task) != {}
    cleaned = world.guest.ask(PATHS["server: job clean"], place)
    assert (cleaned["tables"], cleaned["metrics"] > 0) == ([], True)
    assert world.guest.ask("tracking/component/metrics", of_task) == {}
    assert world.guest.ask("job/query", place) != []


@pytest.mark.parametrize("line", PATHS)
def test_without_a_signature_and_with_an_old_one(locked: PartyServer, line: str) -> None:
    path = PATHS[line].replace("<party_id>", HOST)
    old = {"TIMESTAMP": "1000", "NONCE": "n", "APP-KEY": "our-clients", "SIGNATURE": "s"}
    for headers, text in ((None, "have to be signed"), (old, "TIMESTAMP: 1000 is not within 60 s")):
        said = locked.post(path, {}, headers=headers)
        assert (said["retcode"], text in said["retmsg"], "data" in said) == (109, True, False)


def test_each_of_them_is_asked_for_what_it_has() -> None:
    answered = {asked.line for asked in ASKED if asked.retcode == 0}
    assert answered == set(PATHS) - {"server: job clean"}      # that one alters a job: it has a test of its own
