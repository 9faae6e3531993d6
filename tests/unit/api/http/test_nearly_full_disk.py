"""What a client is answered while the disk is nearly full."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.core.model.status import JobStatus
from fate_flow.core.quotas.disk_space import DiskSpace
from tests.kit.api.client_world import TOY_CONF, TOY_DSL, World

CONF: dict[str, Any] = {"namespace": "demo", "table_name": "t", "file": "x.csv", "head": 1, "partition": 1}
SUBMIT = {"job_dsl": TOY_DSL, "job_runtime_conf": TOY_CONF}
TEXT = "party 9999 takes nothing new: its disk has 9 bytes free, and 10 bytes have to stay free"


def has(world: World, free: int) -> None:
    object.__setattr__(world.services.context, "disk", lambda: DiskSpace(free, 10))
    object.__setattr__(world.services.context, "disk_use", lambda: {"10000": 7})


@pytest.mark.parametrize(("path", "retcode"), [("job/submit", 507), ("job/validate", 103)])
def test_nothing_new_is_taken(world: World, path: str, retcode: int) -> None:
    has(world, 9)
    said = world.ask(path, SUBMIT)
    assert said["retcode"] == retcode
    assert TEXT in said["retmsg"]
    assert world.count("t_job") == 0
    has(world, 10)
    assert TEXT not in world.ask(path, SUBMIT)["retmsg"]


def test_an_upload_is_refused_before_its_file_is_read(world: World) -> None:
    has(world, 9)
    assert world.upload(CONF).json["retcode"] == 507
    has(world, 10)
    said = world.upload(CONF).json
    assert said["retcode"] == 507
    assert "its disk has 10 bytes free and" in said["retmsg"]
    assert "would come" in said["retmsg"]
    assert (world.uploads, world.count("t_job")) == ([], 0)
    has(world, 1 << 40)
    assert world.upload(CONF).json["retcode"] == 0


def test_the_server_says_so(world: World) -> None:
    has(world, 9)
    said = world.ask("server/info", {})["data"]
    assert said.pop("why_not").startswith(TEXT)
    sizes = {"least_free_disk": 10, "disk_of_parties": {"10000": 7}, "key_warnings": []}
    assert said == {"party_id": "9999", "takes_new": False, "free_disk": 9, **sizes}
    has(world, 99)
    assert world.ask("server/info", {})["data"] == {
        "party_id": "9999", "takes_new": True, "why_not": "", "free_disk": 99, **sizes,
    }  # fmt: skip


def test_explain_says_so_and_a_stop_works(world: World) -> None:
    job_id = world.add_job(status=JobStatus.RUNNING)
    assert world.ask("job/explain", {"job_id": job_id})["data"]["no_space"] == ""
    has(world, 9)
    assert world.ask("job/explain", {"job_id": job_id})["data"]["no_space"].startswith(TEXT)
    assert world.ask("job/stop", {"job_id": job_id})["retcode"] == 0
