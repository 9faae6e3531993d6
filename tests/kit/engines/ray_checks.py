"""What the engine `ray` relies on: checks of a Jobs API, which pass on a real head of Ray and on the one of tests."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fate_flow.core.model.program_scope import RAY_JOB_CONFIG
from fate_flow.engines.ray.client import RayAnswer, RayClient
from tests.kit.waiting import eventually

MOST = 10_000_000
ENDED = ("SUCCEEDED", "FAILED", "STOPPED")


@dataclass(frozen=True)
class JobsApi:
    """A Jobs API to check; `folder` is seen by its jobs."""

    client: RayClient
    folder: Path
    cores: int
    stop_seconds: float        # a job has so long to end if it does not say how long

    def submit(
        self, entrypoint: str, name: str = "", variables: Mapping[str, str] | None = None, **asked: Any
    ) -> tuple[str, RayAnswer]:
        """Submit what is executed in the folder."""
        name = name or f"check-{uuid.uuid4().hex}"
        document = {
            "entrypoint": f'cd "$FOLDER" && {entrypoint}', "submission_id": name, "entrypoint_num_cpus": 1,
            "runtime_env": {"env_vars": {"FOLDER": str(self.folder), **(variables or {})}}, **asked,
        }  # fmt: skip
        return name, self.client.post("/api/jobs/", document, MOST)

    def submitted(self, entrypoint: str, **asked: Any) -> str:
        name, answer = self.submit(entrypoint, **asked)
        assert answer.status == 200, answer.text
        assert answer.document()["submission_id"] == name
        return name

    def job(self, name: str) -> Mapping[str, Any]:
        answer = self.client.get(f"/api/jobs/{name}", MOST)
        assert answer.status == 200, answer.text
        found: Mapping[str, Any] = answer.document()
        return found

    def listed(self) -> dict[str, Mapping[str, Any]]:
        answer = self.client.get("/api/jobs/", MOST)
        assert answer.status == 200, answer.text
        return {str(one["submission_id"]): one for one in answer.document()}

    def becomes(self, name: str, *statuses: str) -> Mapping[str, Any]:
        """Wait until the listing shows the job in one of these."""
        eventually(lambda: self.listed()[name]["status"] in statuses, lambda: json.dumps(self.listed()[name]))
        return self.listed()[name]

    def stop(self, name: str) -> RayAnswer:
        return self.client.post(f"/api/jobs/{name}/stop", None, MOST)

    def written(self, name: str) -> str:
        """Wait until a job has written this file of the folder, and return its text."""
        path = self.folder / name
        return eventually(lambda: path.exists() and path.read_text(), name)


def a_token_is_asked_for(api: JobsApi) -> None:
    wrong = api.folder / "wrong"
    wrong.write_text("wrong")
    wrong.chmod(0o600)
    for file, status in ((None, 401), (wrong, 403)):
        client = RayClient(api.client.address, file)
        assert [client.get(path, MOST).status for path in ("/api/jobs/", "/api/version")] == [status, status]
        assert client.post("/api/jobs/", {"entrypoint": "true"}, MOST).status == status


def an_end_is_listed_with_its_exit_code_and_its_metadata(api: JobsApi) -> None:
    metadata = {"fate_flow_folder": "/some/where"}
    ended = {code: api.submitted(f"exit {code}", metadata=metadata) for code in (0, 7)}
    good, bad = (api.becomes(ended[code], *ENDED) for code in (0, 7))
    assert (good["status"], good["driver_exit_code"], good["error_type"]) == ("SUCCEEDED", 0, None)
    assert (bad["status"], bad["driver_exit_code"]) == ("FAILED", 7)
    assert bad["error_type"] == "JOB_ENTRYPOINT_COMMAND_ERROR"
    assert "exit code 7" in bad["message"]
    assert good["metadata"] == bad["metadata"] == metadata
    assert api.job(ended[7])["status"] == "FAILED"


def an_id_is_taken_once(api: JobsApi) -> None:
    name = api.submitted("echo run >> once")
    for _ in range(2):
        _, answer = api.submit("echo run >> once", name)
        assert answer.status == 500
        assert f"Job with submission_id {name} already exists" in answer.text
        api.becomes(name, "SUCCEEDED")
    assert api.written("once") == "run\n"


def what_it_does_not_know_is_refused(api: JobsApi) -> None:
    for asked in ({"no_such_key": 1}, {"entrypoint_num_cpus": "many"}, {"metadata": "text"}):
        name, answer = api.submit("true", **asked)
        assert answer.status == 400, asked
        assert "TypeError" in answer.text
        assert name not in api.listed()


def what_has_no_place_is_pending_and_stays_so_when_it_is_stopped(api: JobsApi) -> None:
    name = api.submitted("true", entrypoint_num_cpus=api.cores + 1)
    assert api.job(name)["status"] == "PENDING"
    assert "waiting for resources" in api.job(name)["message"]
    assert api.stop(name).document() == {"stopped": True}
    assert api.client.delete(f"/api/jobs/{name}", MOST).status == 500
    assert api.job(name)["status"] == "PENDING"


def a_stop_reaches_every_process_and_waits_as_long_as_the_job_says(api: JobsApi) -> None:
    """The inner process has a session of its own, as a runner has; the other one ignores the stop."""
    longer = api.stop_seconds * 1.3 + 0.1
    for_ever = "while true; do sleep 0.1; done"
    inner = f'trap "sleep {longer}; echo ended > draft; mv draft inner; exit" TERM; echo > in; {for_ever}'
    polite = api.submitted(f"setsid sh -c '{inner}' & wait; wait", variables={"RAY_JOB_STOP_WAIT_TIME_S": "60"})
    deaf = api.submitted(f'trap "" TERM; echo > deaf; {for_ever}', variables={"RAY_JOB_STOP_WAIT_TIME_S": "1"})
    for name, file in ((polite, "in"), (deaf, "deaf")):
        api.written(file)
        assert api.stop(name).document() == {"stopped": True}
    for name in (polite, deaf):
        found = api.becomes(name, *ENDED)
        assert (found["status"], found["driver_exit_code"]) == ("STOPPED", None)
        assert api.stop(name).document() == {"stopped": False}
    assert api.written("inner") == "ended\n", "it had longer than a job has by default"


def what_is_not_there_is_not_found(api: JobsApi) -> None:
    for answer in (api.client.get("/api/jobs/nobody", MOST), api.stop("nobody")):
        assert (answer.status, answer.text) == (404, "Job nobody does not exist")


def what_has_ended_can_be_removed(api: JobsApi) -> None:
    name = api.submitted("true")
    api.becomes(name, "SUCCEEDED")
    assert api.client.delete(f"/api/jobs/{name}", MOST).document() == {"deleted": True}


def a_job_has_its_variables_and_the_address_of_ray(api: JobsApi) -> None:
    api.submitted('echo "$MINE $RAY_ADDRESS" > draft && mv draft environment', variables={"MINE": "given"})
    mine, address = api.written("environment").split()
    assert mine == "given"
    host, _, port = address.rpartition(":")
    assert host
    assert port.isdecimal()


def a_job_is_told_its_metadata(api: JobsApi) -> None:
    api.submitted(f'echo "${RAY_JOB_CONFIG}" > draft && mv draft told', metadata={"mine": "given"})
    assert json.loads(api.written("told"))["metadata"]["mine"] == "given"


def what_a_job_prints_is_read_while_it_runs(api: JobsApi) -> None:
    name = api.submitted("echo mine; touch said; while true; do sleep 0.1; done")
    waits = api.submitted("true", entrypoint_num_cpus=api.cores + 1)
    eventually((api.folder / "said").exists)
    assert "mine" in api.client.printed(name).splitlines()
    assert api.client.printed(waits) == ""
    api.stop(name)
    api.stop(waits)


def a_job_sees_the_gpus_that_it_asked_for(api: JobsApi) -> None:
    """Nobody has to have one: what a head was told it has counts."""
    for count in (1, 0):
        name = f"gpus{count}"
        api.submitted(f'echo "<$CUDA_VISIBLE_DEVICES>" > draft && mv draft {name}', entrypoint_num_gpus=count)
        assert api.written(name) in (("<0>\n", "<1>\n") if count else ("<>\n",))


CHECKS: tuple[Callable[[JobsApi], None], ...] = (
    a_token_is_asked_for,
    an_end_is_listed_with_its_exit_code_and_its_metadata,
    an_id_is_taken_once,
    what_it_does_not_know_is_refused,
    what_has_no_place_is_pending_and_stays_so_when_it_is_stopped,
    a_stop_reaches_every_process_and_waits_as_long_as_the_job_says,
    what_is_not_there_is_not_found,
    what_has_ended_can_be_removed,
    a_job_has_its_variables_and_the_address_of_ray,
    a_job_is_told_its_metadata,
    what_a_job_prints_is_read_while_it_runs,
    a_job_sees_the_gpus_that_it_asked_for,
)
