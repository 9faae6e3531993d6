"""Ray as a place for runners: what is submitted, what answers mean, and what a listing says."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fate_flow.core.model.resources import Need
from fate_flow.engines.local.worker import EXIT, Exit
from fate_flow.engines.placed.cluster import Placement, Stage, Taken, Unreadable
from fate_flow.engines.ray.client import RayAnswer, RayClient
from fate_flow.engines.ray.cluster import RayCluster, RayShare
from fate_flow.engines.ray.tables import CAUSES, answer_of, cause_of, waiting_of
from fate_flow.engines.staged.places import CLAIM
from tests.kit.engines.ray_jobs import FakeRay, Job, running_fake
from tests.kit.waiting import eventually

PREFIX = "fate-flow-home-"


class Site:
    """A cluster over a Jobs API of tests."""

    def __init__(self, ray: FakeRay, folder: Path) -> None:
        self.ray = ray
        self.now = 0.0
        self.folder = folder / "jobs" / "w"
        self.folder.mkdir(parents=True)
        client = RayClient(ray.address, ray.token_file, seconds=5)
        own = RayShare({}, {"env_vars": {"MINE": "1"}, "pip": []}, 2, {"big": {"bigmem": 0.25}})
        self.cluster = RayCluster(client, PREFIX, own, {"10000": RayShare({"guests": 0.5})}, lambda: self.now)

    def placement(self, name: str = "w", **fields: Any) -> Placement:
        values = {"argv": ["true"], "need": Need(1), "grace_seconds": 3.2, **fields}
        return Placement(PREFIX + name, self.folder, **values)

    def job(self, name: str = "w") -> Job:
        return self.ray.jobs[PREFIX + name]

    def lists(self, **fields: Any) -> Any:
        """The only job of a listing with these fields."""
        text = json.dumps([{"submission_id": PREFIX + "w", "metadata": {"fate_flow_folder": "/f"}, **fields}])
        self.ray.says = (200, text)
        [found] = self.cluster.listing()
        return found


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with running_fake(tmp_path, cores=4) as ray:
        yield Site(ray, tmp_path)


def test_a_job_asks_for_what_its_worker_needs(site: Site) -> None:
    need = Need(cores=4, memory_mb=100, gpus=1)
    argv = ["/opt/a b/python", "-m", "run", "it's"]
    assert site.cluster.submit(site.placement(argv=argv, need=need)).taken is Taken.ACCEPTED
    asked = site.job().asked
    assert shlex.split(asked["entrypoint"]) == ["exec", *argv]
    assert (asked["entrypoint_num_cpus"], asked["entrypoint_num_gpus"]) == (2, 1), "driver_cores limits the cores"
    assert asked["entrypoint_memory"] == 100 * 1024 * 1024
    assert asked["metadata"] == {"fate_flow_folder": str(site.folder)}
    assert asked["runtime_env"] == {"env_vars": {"MINE": "1", "RAY_JOB_STOP_WAIT_TIME_S": "14"}, "pip": []}
    assert "entrypoint_resources" not in asked


def test_a_claim_token_is_in_the_metadata_alone_and_its_agent_has_time_to_send(site: Site) -> None:
    site.cluster.submit(site.placement(secrets={CLAIM: "once"}))
    asked = site.job().asked
    assert asked["metadata"] == {"fate_flow_folder": str(site.folder), CLAIM: "once"}
    assert asked["runtime_env"]["env_vars"]["RAY_JOB_STOP_WAIT_TIME_S"] == "64"
    assert json.dumps(asked).count("once") == 1


@pytest.mark.parametrize(("status", "taken"), [
    (200, Taken.REFUSED), (302, Taken.ACCEPTED), (401, Taken.ACCEPTED), (403, Taken.ACCEPTED),
    (502, Taken.NOT_REACHED),
])  # fmt: skip
def test_a_claim_token_goes_to_a_ray_that_asks_for_its_own_token(
    site: Site, monkeypatch: pytest.MonkeyPatch, status: int, taken: Taken
) -> None:
    def get(client: RayClient, _path: str, _most: int) -> RayAnswer:
        assert client.token_file is None
        return RayAnswer(status, b"{}")

    monkeypatch.setattr(RayClient, "get", get)
    said = site.cluster.submit(site.placement(secrets={CLAIM: "once"}))
    assert said.taken is taken, said
    assert (PREFIX + "w" in site.ray.jobs) == (taken is Taken.ACCEPTED)
    assert site.cluster.submit(site.placement("v")).taken is Taken.ACCEPTED, "it has no secret"


def test_without_an_answer_to_that_no_claim_token_is_sent(site: Site) -> None:
    site.ray.loses_answers = True
    assert site.cluster.submit(site.placement(secrets={CLAIM: "once"})).taken is Taken.NOT_REACHED
    assert site.ray.jobs == {}


def test_a_job_of_a_partner_gets_what_the_party_says(site: Site) -> None:
    site.cluster.submit(site.placement(partner="10000", need=Need(cores=0)))
    asked = site.job().asked
    assert asked["entrypoint_resources"] == {"guests": 0.5}
    assert asked["entrypoint_num_cpus"] == 1, "without a resource Ray would run it on its head"


def test_labels_are_custom_resources_of_the_nodes(site: Site) -> None:
    site.cluster.submit(site.placement(need=Need(cores=1, labels=("big",))))
    assert site.job().asked["entrypoint_resources"] == {"bigmem": 0.25}


def test_a_name_that_ray_has_already_is_accepted_and_runs_once(site: Site) -> None:
    assert [site.cluster.submit(site.placement()).taken for _ in range(3)] == [Taken.ACCEPTED] * 3
    eventually(lambda: site.job().status == "SUCCEEDED")
    assert site.job().starts == 1


def test_a_lost_answer_leaves_it_in_doubt_until_a_listing_shows_it(site: Site) -> None:
    site.ray.loses_answers = True
    assert site.cluster.submit(site.placement()).taken is Taken.IN_DOUBT
    site.ray.loses_answers = False
    assert [one.name for one in site.cluster.listing()] == [PREFIX + "w"]


def test_where_its_token_lies_is_not_for_other_parties(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.ray.token_file.unlink()
    said = site.cluster.submit(site.placement())
    assert (said.taken, said.text) == (Taken.NOT_REACHED, "its token or certificate cannot be read")
    assert str(site.ray.token_file) in caplog.text


def test_a_head_that_is_away_decides_nothing(site: Site) -> None:
    site.ray.close()
    said = site.cluster.submit(site.placement())
    assert (said.taken, "Connection refused" in said.text) == (Taken.NOT_REACHED, True)
    with pytest.raises(Unreadable, match="Connection refused"):
        site.cluster.listing()
    site.cluster.cancel(PREFIX + "w")
    site.ray.open()
    assert site.cluster.listing() == []


@pytest.mark.parametrize(("status", "text", "taken"), [
    (400, "Traceback\nTypeError: JobSubmitRequest.__init__() got an unexpected keyword argument 'x'", Taken.REFUSED),
    (401, "Unauthorized: Missing authentication token", Taken.NOT_REACHED),
    (403, "Forbidden: Invalid authentication token", Taken.NOT_REACHED),
    (404, "404: Not Found", Taken.REFUSED),
    (429, "slow down", Taken.NOT_REACHED),
    (500, "No available agent to submit job, please try again later.", Taken.NOT_REACHED),
    (500, "Traceback\nValueError: Job with submission_id a already exists. Please use another.", Taken.ACCEPTED),
    (500, "Traceback\nConnectionResetError", Taken.IN_DOUBT),
    (502, "Bad Gateway", Taken.IN_DOUBT),
    (307, "", Taken.IN_DOUBT),
])  # fmt: skip
def test_what_an_answer_to_a_submission_means(status: int, text: str, taken: Taken) -> None:
    said = answer_of(status, text)
    assert said.taken is taken
    assert f"status {status}" in said.text
    assert "Traceback" not in said.text


@pytest.mark.parametrize("body", ["", "<html>", "[]", '{"submission_id": "another"}', "[" * 100_000])
def test_an_answer_of_something_else_leaves_it_in_doubt(site: Site, body: str) -> None:
    site.ray.says = (200, body)
    assert site.cluster.submit(site.placement()).taken is Taken.IN_DOUBT


@pytest.mark.parametrize(("status", "body"), [
    (200, ""), (200, "{}"), (200, "<html>"), (403, "Forbidden"), (500, "Traceback"), (200, "[" * 100_000),
])  # fmt: skip
def test_a_listing_that_is_none_cannot_be_read(site: Site, status: int, body: str) -> None:
    site.ray.says = (status, body)
    with pytest.raises(Unreadable):
        site.cluster.listing()


def test_a_listing_has_the_jobs_of_this_home_alone(site: Site) -> None:
    others = [
        {"submission_id": "raysubmit_x", "status": "RUNNING"}, {"submission_id": None, "type": "DRIVER"}, 7, None,
        {"submission_id": "fate-flow-other-w", "status": "RUNNING"}, {"submission_id": PREFIX + "w"},
    ]  # fmt: skip
    site.ray.says = (200, json.dumps(others))
    [found] = site.cluster.listing()
    assert (found.name, found.stage, found.folder) == (PREFIX + "w", Stage.UNKNOWN, "")


@pytest.mark.parametrize(("status", "stage"), [
    ("PENDING", Stage.PENDING), ("RUNNING", Stage.ALIVE), ("SUCCEEDED", Stage.ENDED), ("FAILED", Stage.ENDED),
    ("STOPPED", Stage.ENDED), ("PAUSED", Stage.UNKNOWN), (None, Stage.UNKNOWN), (7, Stage.UNKNOWN),
])  # fmt: skip
def test_a_status_is_a_stage_and_an_unknown_one_is_unknown(site: Site, status: object, stage: Stage) -> None:
    found = site.lists(status=status, message="why\nit is so", error_type="E")
    assert (found.stage, found.folder) == (stage, "/f")
    assert (found.waiting is not None) == (stage is Stage.PENDING)
    assert found.word == (f"{status} (E)" if stage is Stage.ENDED else str(status))


@pytest.mark.parametrize(("error_type", "cause"), [*CAUSES.items(), ("JOB_ENTRYPOINT_COMMAND_ERROR", ""), ("NEW", "")])
def test_an_error_of_ray_is_the_cause_of_an_end(
    site: Site, error_type: str, cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What Ray says of its machines stays in the log of the server."""
    for _ in range(2):
        found = site.lists(status="FAILED", error_type=error_type, message="died\nip: 10.0.0.7")
    assert found.cause == cause
    said = f"FAILED ({error_type})"
    assert site.cluster.cause_in(Path("/f")) == ((cause, f"Ray says {said}") if cause else ("", ""))
    logged = [f"Ray has ended {PREFIX}w: {said}: died ip: 10.0.0.7"] if cause else []
    assert [one.getMessage() for one in caplog.records if one.name.endswith("ray.cluster")] == logged
    assert site.lists(status="RUNNING", error_type=error_type).cause == ""
    assert site.cluster.cause_in(Path("/f")) == ("", "")


def test_a_job_that_was_killed_for_memory_says_so() -> None:
    said = "Task was killed due to the node running low on memory."
    assert cause_of("JOB_SUPERVISOR_ACTOR_DIED", said) == "out_of_memory"


@pytest.mark.parametrize(("message", "kind"), [
    ("Job has not started yet. It may be waiting for resources (CPUs, ...) to become available.", "resources"),
    ("Job has not started yet. It may be waiting for the runtime environment to be set up.", "other"),
    ("", "other"),
])  # fmt: skip
def test_why_a_job_is_pending(message: str, kind: str) -> None:
    found = waiting_of(message)
    assert found.kind == kind
    assert found.text.startswith("waits in Ray")
    assert found.advice == "see there: ray status"


def test_a_stop_gives_the_job_its_grace(site: Site) -> None:
    code = "trap 'sleep 0.7; echo > ended; exit 3' TERM; echo > begun; while true; do sleep 0.05; done"
    site.cluster.submit(site.placement(argv=["sh", "-c", code]))
    eventually((site.ray.folder / "begun").exists)
    site.cluster.signal(PREFIX + "w")
    site.cluster.cancel(PREFIX + "w")
    eventually(lambda: site.job().status == "STOPPED")
    assert (site.ray.folder / "ended").exists(), "longer than a job has without its runtime_env"
    site.cluster.cancel(PREFIX + "nobody")


def test_a_pending_job_that_was_stopped_counts_as_ended(site: Site) -> None:
    """Ray lists it as pending until it has a place; it must not be stopped again with every listing."""
    site.cluster.submit(site.placement(partner="10000"))      # the resource of its guests is not there
    site.ray.loses_answers = True
    site.cluster.cancel(PREFIX + "w")
    site.ray.loses_answers = False
    assert [one.stage for one in site.cluster.listing()] == [Stage.PENDING], "Ray may not have heard of it"
    site.cluster.cancel(PREFIX + "w")
    [found] = site.cluster.listing()
    assert (found.stage, found.word, found.cause) == (Stage.ENDED, "PENDING, and stopped", "")


def test_old_ends_are_removed_from_the_list_of_ray(site: Site) -> None:
    """Only those whose worker has an end: the folder of another one is still to be decided by the list."""
    other = site.folder.parent / "v"
    other.mkdir()
    for name, folder in (("w", site.folder), ("v", other)):
        site.cluster.submit(Placement(PREFIX + name, folder, ["true"], Need(1), 3))
        eventually(lambda name=name: site.job(name).status == "SUCCEEDED")
    (site.folder / EXIT).write_text(Exit(0, None, "exited").to_json())
    for now, left in ((0.0, 2), (800.0, 2), (1000.0, 1), (1100.0, 1)):
        site.now = now
        site.cluster.listing()
        assert len(site.ray.jobs) == left, now
    assert [*site.ray.jobs] == [PREFIX + "v"]
