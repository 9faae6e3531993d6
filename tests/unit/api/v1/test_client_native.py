"""`/v1/job/submit` and `/v1/job/validate` with a job file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fate_flow.api.v1.jobs.job_file import read_yaml
from fate_flow.core.model.document import JobDocument
from fate_flow.jobspec.ceilings import Ceilings
from fate_flow.jobspec.formats import digest_of
from fate_flow.jobspec.native.schema import JOB
from tests.kit.api.client_world import World, make_world

LOCAL = """\
version: 1
name: fetch
description: brings a table
initiator: local 0
parties: {local: [0]}
resources: {cores: 1}
tasks:
  download_0:
    component: Download
    parameters: {namespace: a, name: b, output_path: "%s"}
"""
TOY = """\
version: 1
initiator: guest 9999
parties: {guest: [9999], host: [10000]}
resources: {cores: 2}
tasks:
  toy_0:
    component: SecureAddExample
    parameters: {data_num: 10}
"""


@pytest.fixture
def local(world: World) -> str:
    (world.home / "downloads").mkdir()
    world.add_table("a", "b", [])
    return LOCAL % (world.home / "downloads" / "b.csv")


def test_a_job_file_is_a_job(world: World, local: str) -> None:
    said = world.ask("job/submit", {"job_file": local})
    assert (said["retcode"], said["data"]["warnings"]) == (0, [])
    config = world.ask("job/config", {"job_id": said["jobId"], "role": "local", "party_id": "0"})["data"]
    assert config["dsl"] == {"components": {"download_0": {"module": "Download"}}}
    assert config["runtime_conf"]["job_parameters"]["common"]["task_cores"] == 1
    document = config["document"]
    assert (document["format"], document["body"]) == ("native", read_yaml(local).value)
    assert document["defaults"]["model_version"] == said["jobId"]
    assert config["digest"] == digest_of(JobDocument(**document))
    [row] = world.ask("job/query", {"job_id": said["jobId"]})["data"]
    assert (row["f_format"], "f_document" in row) == ("native", False)
    listed = world.ask("job/list/job", {})["data"]["jobs"][0]
    assert (listed["name"], listed["description"]) == ("fetch", "brings a table")


def test_the_same_file_under_one_request_id_is_the_same_job(world: World, local: str) -> None:
    first, second = (world.ask("job/submit", {"job_file": local, "request_id": "r"})["jobId"] for _ in range(2))
    assert first == second


@pytest.mark.parametrize("path", ["job/submit", "job/validate"])
@pytest.mark.parametrize(("change", "problems"), [
    (("cores: 2", "core: 2"), ["resources.core: is not known; did you mean cores (line 4)"]),
    (("data_num: 10", "data_num: 0, dota: 1"), [
        "tasks.toy_0.parameters: at guest 9999: data_num: 0 is not a whole number from 1 to 1000000 (line 8)",
        "tasks.toy_0.parameters: dota: SecureAddExample has no such parameter, it has no effect (line 8)",
        "tasks.toy_0.parameters: at host 10000: data_num: 0 is not a whole number from 1 to 1000000 (line 8)",
    ]),
    (("guest 9999", "guest 9998"), ["initiator: guest 9998 is not in parties.guest (line 2)"]),
])  # fmt: skip
def test_all_that_is_wrong_is_told_in_the_paths_of_the_file(
    world: World, path: str, change: tuple[str, str], problems: list[str]
) -> None:
    said = world.ask(path, {"job_file": TOY.replace(*change)})
    assert (said["retcode"], said["retmsg"], said["data"]["problems"]) == (101, problems[0], problems)
    assert (world.count("t_job"), world.count("t_submission")) == (0, 0)


@pytest.mark.parametrize("path", ["job/submit", "job/validate"])
@pytest.mark.parametrize(("change", "offender"), [
    (("cores: 2", "cores: 21"), "at guest 9999 (resources.cores, resources.parallelism) (line 4)"),
    (("10000", "555"), "parties: party 555 has no route here"),
    (("guest 9999", "host 10000"), "initiator: this server is party 9999; submit the job at party 10000"),
])  # fmt: skip
def test_what_only_the_server_knows_is_told_so_too(
    world: World, path: str, change: tuple[str, str], offender: str
) -> None:
    said = world.ask(path, {"job_file": TOY.replace(*change)})
    assert said["retcode"] == 103
    assert offender in said["retmsg"]
    assert "job_runtime_conf" not in json.dumps(said)


def test_a_path_on_the_server_is_told_so_too(world: World) -> None:
    said = world.ask("job/submit", {"job_file": LOCAL % "/etc/passwd"})
    assert said["retmsg"].startswith("tasks.download_0.parameters: at local 0: output_path: '/etc/passwd' is not below")
    assert said["retmsg"].endswith("(line 10)")


@pytest.mark.parametrize(("body", "problem"), [
    ({"job_file": 3}, "job_file: 3 is not the text of a file"),
    ({"job_file": "a: ]"}, "job_file: line 1, column 4: "),
    ({"job_file": ""}, "the job file: null is not an object"),
    ({"job_file": TOY, "job_dsl": {}}, "job_file: contains the whole job"),
])  # fmt: skip
def test_what_is_no_job_file_is_refused(world: World, body: dict[str, Any], problem: str) -> None:
    said = world.ask("job/submit", body)
    assert said["retcode"] == 101
    assert said["retmsg"].startswith(problem)


def test_a_file_is_validated_as_the_documents_are(world: World) -> None:
    said = world.ask("job/validate", {"job_file": TOY})
    assert said["retcode"] == 0
    assert [(one["role"], one["cores"]) for one in said["data"]["parties"]] == [("guest", 2), ("host", 2)]


def test_the_schema_is_served(world: World) -> None:
    response = world.client.get("/v1/schema/job.json")
    assert (response.status_code, response.mimetype, response.json) == (200, "application/json", JOB)


def test_a_submit_tells_what_parties_give_less_of(tmp_path: Path) -> None:
    world = make_world(tmp_path, ceilings=Ceilings(task_timeout=60))
    (world.home / "downloads").mkdir()
    world.add_table("a", "b", [])
    said = world.ask("job/submit", {"job_file": LOCAL % (world.home / "downloads" / "b.csv")})
    message = "download_0: timeout no limit is 60 s (ceilings.task_timeout)"
    assert said["data"]["effective"] == [{"role": "local", "party_id": "0", "message": message}]
    world.store.close()


@pytest.mark.parametrize("path", ["job/submit", "job/validate"])
def test_a_ceiling_is_told_in_the_paths_of_the_file(tmp_path: Path, path: str) -> None:
    world = make_world(tmp_path, ceilings=Ceilings(task_cores=1))
    said = world.ask(path, {"job_file": TOY})
    assert said["retcode"] == 103
    assert "resources.cores: 2 is more than 1, the most that guest 9999 allows (ceilings.task_cores)" in said["retmsg"]
    assert (world.count("t_job"), world.count("t_submission")) == (0, 0)
    world.store.close()


def test_of_very_many_problems_the_first_are_told(world: World) -> None:
    unknown = "".join(f"x{number}: 1\n" for number in range(300))
    said = world.ask("job/submit", {"job_file": TOY + unknown})
    problems = said["data"]["problems"]
    assert (len(problems), problems[-1]) == (101, "... and 200 more")
    assert problems[99].startswith("x99: is not known; known here: version, name, ")
    assert problems[99].endswith(" (line 108)")


def test_a_dag_of_fate_2_is_a_job_file_as_well(world: World) -> None:
    (world.home / "downloads").mkdir()
    world.add_table("a", "b", [])
    text = """\
schema_version: 2.2.0
dag:
  parties: [{role: local, party_id: ["0"]}]
  conf: {cores: 1, engine: {}}
  tasks:
    download_0:
      component_ref: download
      parameters: {namespace: a, name: b, output_path: "%s"}
""" % (world.home / "downloads" / "b.csv")
    said = world.ask("job/submit", {"job_file": text})
    assert (said["retcode"], said["data"]["warnings"]) == (0, ["dag.conf.engine: is not known; it is ignored (line 4)"])
    [row] = world.ask("job/query", {"job_id": said["jobId"]})["data"]
    assert row["f_format"] == "fate_v2"
    checked = world.ask("job/validate", {"job_file": text.replace("download\n", "dowload\n")})
    assert checked["data"]["problems"] == [checked["retmsg"]]
    assert checked["retmsg"].startswith("dag.tasks.download_0.component_ref: 'dowload' is not known; did you mean")
