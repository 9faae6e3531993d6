"""How fast another party may ask on the port of clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from werkzeug.test import TestResponse

from fate_flow.api import app as public
from fate_flow.api.app import create_public_app
from fate_flow.core.quotas.quota import PartyQuota, Quotas
from fate_flow.relay.spool import Spool, SpoolLimits
from tests.kit.api.client_world import World, make_world
from tests.kit.api.routes_compiled_once import with_routes_compiled_once

JOB = "20260101120000000001"
REFUSED = (
    "party 10000 sends more requests to party 9999 than it may, at most 2 (quotas.default.requests_per_second, which "
    "only an operator of party 9999 can change): try again later"
)


@pytest.fixture
def now() -> list[float]:
    """The time of the server; may be moved."""
    return [0.0]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: list[float]) -> Iterator[World]:
    monkeypatch.setattr(public, "steady_now", lambda: now[0])
    world = make_world(tmp_path, quotas=Quotas("9999", PartyQuota(requests_per_second=2, requests_at_once=3)))
    yield world
    world.store.close()


def beat(world: World, party_id: str = "10000") -> TestResponse:
    return world.post("party/heartbeat", {"jobs": []}, headers={"SRC-PARTY-ID": party_id})


def statuses(world: World, count: int, party_id: str = "10000") -> list[int]:
    return [beat(world, party_id).status_code for _ in range(count)]


def test_a_party_that_asks_too_fast_is_refused_until_it_asks_slower(world: World, now: list[float]) -> None:
    assert statuses(world, 7) == [200, 200, 200, 200, 200, 429, 429], "three at once, and two of the next second"
    now[0] = 0.5
    assert statuses(world, 2) == [200, 429]


def test_a_party_has_one_rate_however_its_id_is_spelled(world: World) -> None:
    spelled = ("10000", "010000", "0010000", "00010000", "000010000", "0000010000")
    found = [beat(world, one) for one in (*spelled, "10000")]
    assert [one.status_code for one in found] == [200, 200, 200, 200, 200, 429, 429]
    assert found[5].json["retmsg"] == REFUSED


def test_the_refusal_says_whose_it_is_and_that_nothing_was_carried_out(world: World) -> None:
    statuses(world, 5)
    refused = beat(world)
    assert refused.json == {"retcode": 429, "retmsg": REFUSED}
    assert (refused.headers["Retry-After"], refused.headers["SRC-PARTY-ID"]) == ("1", "9999")


def test_other_parties_and_clients_are_served_beside_it(world: World) -> None:
    assert statuses(world, 6)[-1] == 429
    assert statuses(world, 3, "10001") == [200, 200, 200]
    assert [world.post("job/list/job", {}).status_code for _ in range(5)] == [200] * 5


@pytest.mark.long
def test_invented_party_ids_take_no_more_memory_than_some(world: World) -> None:
    assert statuses(world, 6)[-1] == 429
    for number in range(1000):
        assert beat(world, str(20000 + number)).status_code == 200
    assert statuses(world, 6) == [*[200] * 5, 429], "it was forgotten, and begins again"


def test_messages_of_workers_leave_something_to_commands(world: World, tmp_path: Path, now: list[float]) -> None:
    spool = Spool(tmp_path / "spool", SpoolLimits(), lambda: None)
    client = with_routes_compiled_once(lambda: create_public_app(world.services, spool)).test_client()
    deliver = f"exchange/deliver/{JOB}/{JOB}_toy_0/0/{'0' * 32}/host/10000/guest/9999?topic=t&seq=0&last=1"

    def asked(path: str, data: bytes) -> int:
        return client.post(f"/v1/{path}", data=data, headers={"SRC-PARTY-ID": "10000"}).status_code

    assert [asked(deliver, b"x") for _ in range(5)] == [425, 425, 425, 429, 429], "no such session is open yet"
    beats = [asked("party/heartbeat", b'{"jobs": []}') for _ in range(3)]
    assert beats == [200, 200, 429]
    now[0] = 1.0
    assert (asked(deliver, b"x"), asked("party/heartbeat", b'{"jobs": []}')) == (429, 200)
