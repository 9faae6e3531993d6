"""Which lines are written about the requests of another party."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fate_flow.api import app as public
from fate_flow.api.between_parties.party_lines import PARTY, PartyLines
from fate_flow.core.access.site import SiteRule
from fate_flow.core.quotas.quota import PartyQuota, Quotas
from tests.kit.api.client_world import TOY_CONF, TOY_DSL, World, make_world

JOB = "202601011200000000001"
CONF = {**TOY_CONF, "initiator": {"role": "guest", "party_id": 10000}, "role": {"guest": [10000], "host": [9999]}}
ALIGN = {"endpoint": f"/party/{JOB}/host/9999/align", "body": {}}


@pytest.fixture
def now() -> list[float]:
    """The time of the server; may be moved."""
    return [0.0]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: list[float]) -> Iterator[World]:
    monkeypatch.setattr(public, "steady_now", lambda: now[0])
    world = make_world(tmp_path, quotas=Quotas("9999", PartyQuota(log_lines_per_minute=5)))
    yield world
    world.store.close()


def send(world: World, path: str, body: Any, party_id: str = "10000") -> None:
    world.post(path, body, headers={"SRC-PARTY-ID": party_id})


def test_other_parties_have_so_many_lines_and_clients_have_all(world: World) -> None:
    for number in range(9):
        send(world, "party/heartbeat", {"jobs": []}, str(10000 + number))
        world.post("job/list/job", {})
    paths = [path for _, _, path, _ in world.record.served]
    assert (paths.count("/v1/party/heartbeat"), paths.count("/v1/job/list/job")) == (5, 9), "no name is proved here"


def test_a_party_that_has_proved_its_name_has_lines_of_its_own(world: World) -> None:
    lines = PartyLines(world.services.context.quotas, lambda: 0.0)
    for party_id in ("10000", "10001"):
        environ = {PARTY: party_id, "REMOTE_ADDR": "10.0.0.2", "PATH_INFO": "/v1/party/heartbeat"}
        assert [lines.has_access_line(environ) for _ in range(6)] == [True] * 5 + [False]
    assert lines.has_access_line({"REMOTE_ADDR": "10.0.0.2", "PATH_INFO": "/v1/party/heartbeat"})


def test_a_line_says_how_many_are_missing(
    world: World, now: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(9):
        send(world, "party/heartbeat", {"jobs": []})
    now[0] = 60.0
    with caplog.at_level(logging.WARNING):
        send(world, "party/heartbeat", {"jobs": []})
    assert caplog.messages == [
        "4 lines about requests of '127.0.0.1' within a minute left out, at most 5 (quotas.default.log_lines_per_minute"
        ", which only an operator of party 9999 can change)"
    ]


def test_the_commands_of_a_batch_count_each(world: World) -> None:
    send(world, "party/batch", {"commands": [ALIGN] * 20})
    lines = [text for text in world.record.lines if "answered party 10000" in text]
    assert len(lines) == 5


def test_a_job_that_is_not_here_gets_no_folder_of_logs(world: World, now: list[float]) -> None:
    body = {"dsl": TOY_DSL, "runtime_conf": CONF, "extensions": {}, "incarnations": {}}
    for endpoint in ("align", "stop/canceled", "create"):
        send(world, f"party/{JOB}/host/9999/{endpoint}", {})
        assert world.record.folders[-1] == ""
    now[0] += 60.0
    send(world, "party/validate", {**body, "role": "host", "party_id": "9999", "job_id": JOB})
    assert "would host 9999 take part" in world.record.lines[-1]
    assert world.record.folders[-1] == ""
    now[0] += 60.0
    send(world, f"party/{JOB}/host/9999/create", body)
    assert (world.record.folders[-1], world.count("t_job")) == (JOB, 1)


def test_lines_about_forged_requests_are_limited_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(public, "steady_now", lambda: 0.0)
    quotas, site = Quotas("9999", PartyQuota(log_lines_per_minute=5)), SiteRule(is_on=True)
    world = make_world(tmp_path, site=site, quotas=quotas)
    with caplog.at_level(logging.WARNING):
        for number in range(9):
            send(world, "party/heartbeat", {"jobs": []}, str(10000 + number))
    refused = [one for one in caplog.messages if one.startswith("refused '/v1/party/heartbeat' of party")]
    assert (len(refused), len(world.record.served)) == (3, 2), "each request has two lines"
    world.store.close()
