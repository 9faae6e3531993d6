"""A job gets other parameters after it has failed, and a rerun takes them up: asked by the genuine client alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.genuine.genuine_client import GenuineClient
from tests.genuine.world import World, failing
from tests.kit.servers.party_servers import HOST, OVER, table_named
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)


def test_a_rerun_takes_up_the_parameters_at_all_parties(genuine: GenuineClient, world: World, tmp_path: Path) -> None:
    parties = world.parties
    job_id = parties.submit(failing())
    parties.wait(job_id, "failed")
    said = genuine.flow("job", "parameter-update", "-j", job_id, "-c", str(world.files / "update.json"))
    assert said.document["data"]["components"] == ["reader_0"]
    described = "SELECT f_job_id FROM t_job WHERE f_job_id = ? AND f_revision = 1"
    eventually(lambda: parties.host.rows(described, job_id), "the host to hear of it")
    assert genuine.flow("job", "rerun", "-j", job_id).document["retcode"] == 0
    parties.wait(job_id, "success")
    for party in (parties.guest, parties.host):
        [row] = party.rows("SELECT f_runtime_conf, f_run, f_timeout_seconds FROM t_job WHERE f_job_id = ?", job_id)
        conf = json.loads(row["f_runtime_conf"])
        assert conf["component_parameters"]["common"]["reader_0"] == table_named("numbers")
        assert (row["f_run"], row["f_timeout_seconds"]) == (1, 600)
        [task] = party.rows("SELECT f_party_status FROM t_task WHERE f_job_id = ? AND f_task_version = 1 "
                            "AND f_run_on_this_party = 1", job_id)
        assert task["f_party_status"] == "success"
    history = world.guest.ask("job/history", {"job_id": job_id})["moves"]
    assert any("its parameters were changed (revision 1: reader_0)" in str(move) for move in history)


def test_a_party_that_is_down_is_named_and_nothing_is_changed(genuine: GenuineClient, world: World) -> None:
    parties = world.parties
    job_id = parties.submit(failing())
    parties.wait(job_id, "failed")
    text = ("job", "parameter-update", "-j", job_id, "-c", str(world.files / "update.json"))
    parties.kill(HOST)
    try:
        refused = genuine.flow(*text).document
    finally:
        parties.start(HOST)
    assert refused["retcode"] == 103
    assert f"nothing was changed: host {HOST}" in refused["retmsg"]
    assert refused["data"]["host"][HOST]["retcode"] == 104
    [row] = world.guest.rows("SELECT f_revision, f_status FROM t_job WHERE f_job_id = ?", job_id)
    assert (row["f_revision"], row["f_status"] in OVER) == (0, True)
    assert genuine.flow(*text).document["retcode"] == 0
