"""The peer that our tests talk to answers what the genuine host was asked as the genuine host has answered it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fate_1_11_2.peer import FatePeer
from tests.fate_1_11_2.traffic import Exchange, recorded

HOST = "10000"


@pytest.mark.parametrize("name", ["genuine-host-reader", "genuine-host-rerun", "genuine-host-stopped-by-its-client"])
def test_it_answers_as_recorded(name: str) -> None:
    peer = FatePeer(HOST)
    for one in recorded(name):
        if one.is_from_fate:
            _happens(peer, one)
        elif not one.path.startswith("/tracker"):
            assert _without_times(peer.answer(one.path, one.body)) == _without_times(one.answer), one.verb
    assert peer.tracebacks == []


def _happens(peer: FatePeer, one: Exchange) -> None:
    """What ended there by itself, as its reports say."""
    if one.path.endswith("/stop/canceled"):
        peer.is_stopped_by_its_client(one.command.job_id)
    elif one.path.endswith("/report") and one.body["party_status"] == "success":
        job = peer.jobs[one.body["job_id"]]
        name = one.command.task
        if job.tasks[name, one.body["task_version"]].party_status == "running":
            peer.ends(job.job_id, name)


def _without_times(answer: Any) -> Any:
    """Also without the names of tasks that a stop has killed: the recorded one had killed them a moment before."""
    data = answer.get("data")
    if not isinstance(data, dict) or "party_status" in data:
        times = ("start_time", "end_time", "update_time", "elapsed")
        kept = {key: value for key, value in (data or {}).items() if key not in times}
        return {**answer, "data": kept}
    return {**answer, "data": {key: value for key, value in data.items() if key == "components"}}


def recorded_create() -> Exchange:
    return next(one for one in recorded("genuine-host-reader") if one.verb == "create")


@pytest.mark.parametrize("key", ["runtime_conf_on_party", "train_runtime_conf", "dsl"])
def test_a_create_without_what_it_needs_is_an_error(key: str) -> None:
    create, peer = recorded_create(), FatePeer(HOST)
    body = {name: value for name, value in create.body.items() if name != key}
    assert peer.answer(create.path, body) == {"retcode": 100, "retmsg": f"KeyError('{key}')"}


def test_without_a_model_every_task_fails() -> None:
    create, peer = recorded_create(), FatePeer(HOST)
    common = {"task_cores": 2}
    conf = {**create.body["runtime_conf"], "job_parameters": {"common": common}}
    peer.answer(create.path, {**create.body, "runtime_conf": conf})
    start = next(one for one in recorded("genuine-host-reader") if one.verb == "reader_0 0 start")
    assert peer.answer(start.path, {})["retcode"] == 0
    assert peer.said[-1][1]["party_status"] == "failed"


@pytest.mark.parametrize("key", ["run_on_this_party", "auto_retry_delay", "task_version"])
def test_a_row_of_a_task_without_what_it_needs_is_an_error(key: str) -> None:
    peer, said = FatePeer(HOST), [one for one in recorded("genuine-host-rerun") if not one.is_from_fate]
    peer.answer(said[0].path, said[0].body)
    row = next(one for one in said if one.verb == "reader_0 1 create")
    body = {name: value for name, value in row.body.items() if name != key}
    assert peer.answer(row.path, body) == {"retcode": 100, "retmsg": f"KeyError('{key}')"}
    assert peer.answer(f"{row.path.removesuffix('create')}status/running", {})["retcode"] == 100
    assert peer.answer(f"{row.path.removesuffix('create')}collect", {})["retcode"] == 103


@pytest.mark.parametrize("path", ["/party/heartbeat", "/party/validate", "/party/batch", "/exchange/deliver/1/2/3/4"])
def test_a_path_that_it_does_not_have_is_answered_with_http_200_and_a_traceback(path: str) -> None:
    peer = FatePeer(HOST)
    assert peer.answer(path, {}) == {"retcode": 100, "retmsg": "<NotFound '404: Not Found'>"}
    assert len(peer.tracebacks) == 1
