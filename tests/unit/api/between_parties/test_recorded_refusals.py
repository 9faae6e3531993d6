"""Which refusals the record counts, and of whom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fate_flow.api import app as public
from fate_flow.core.quotas.quota import PartyQuota, Quotas
from fate_flow.core.record.entry import read_entry
from fate_flow.services.context.counted_record import RequestRecord
from tests.kit.api.client_world import World, make_world

NOTED: list[tuple[str, str, int]] = []


class Noted:
    """Takes the place of what writes them after a minute."""

    def __init__(self, _: object) -> None:
        NOTED.clear()

    def note(self, *refusal: object) -> None:
        NOTED.append(refusal)  # type: ignore[arg-type]

    def finish(self) -> None:
        raise AssertionError("no process ends here")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(public, "RefusalRecord", Noted)
    world = make_world(
        tmp_path, quotas=Quotas("9999", PartyQuota(requests_per_second=1, requests_at_once=1)), keeps_record=True
    )
    yield world
    world.store.close()


def beat(world: World, **headers: str) -> int:
    return world.post("party/heartbeat", {"jobs": []}, headers=headers).status_code


def test_a_request_that_is_too_fast_or_of_nobody_is_counted_and_others_are_not(world: World) -> None:
    assert beat(world, **{"SRC-PARTY-ID": "10000"}) == 200
    assert NOTED == []
    while beat(world, **{"SRC-PARTY-ID": "10000"}) != 429:
        pass
    assert NOTED == [("", "party", 429)]
    beat(world)
    assert NOTED[1:] == [("", "party", 108)]


def test_nothing_is_counted_of_requests_that_are_answered_or_are_wrong(world: World) -> None:
    world.post("job/list/job", {})
    world.post("job/query", {"job_id": "no"})
    assert NOTED == []


def test_requests_of_parties_that_have_no_entry_of_their_own_are_counted_if_they_are_answered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[tuple[str, str]] = []
    requests = RequestRecord(world.services.context)
    monkeypatch.setattr(requests, "received", lambda *said: counted.append(said))
    world.app = public.create_public_app(replace(world.services, requests=requests))
    while beat(world, **{"SRC-PARTY-ID": "10000"}) != 429:
        pass
    beat(world, **{"SRC-PARTY-ID": "no party"})
    world.post("job/list/job", {})
    world.app.test_client().get("/v1/party/heartbeat", headers={"SRC-PARTY-ID": "10000"})
    assert set(counted) == {("", "/v1/party/heartbeat")}, "no key proves who it is"
    number = len(counted)
    world.app.test_client().get("/v1/party/heartbeat", headers={"SRC-PARTY-ID": "10000"})
    assert len(counted) == number, "there is no such route"
    assert NOTED[0] == ("", "party", 429)


def test_the_last_ones_are_written_when_the_process_ends(tmp_path: Path) -> None:
    world = make_world(tmp_path, keeps_record=True)
    beat(world)
    world.app.extensions[public.AT_END]()
    with world.store.reading() as tx:
        [one] = tx.unsealed_entries(10)
    assert (one.kind, read_entry(one.content)["retcode"]) == ("refused", 108)
    world.store.close()
