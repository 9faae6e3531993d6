"""The record names the client that has asked: histories, logs, holds and approvals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fate_flow.core.access.client_roles import ALL_ROLES
from fate_flow.core.access.recorded_names import LONGEST_GIVEN, client_in, recorded_name
from fate_flow.core.model.job import Answer
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus
from fate_flow.settings.client_keys import ClientKeys
from fate_flow.settings.people import Client, add_client
from tests.kit.api.client_world import GUEST, World, make_world
from tests.kit.api.signed_requests import asked
from tests.kit.site_keys import write_private_key

HOST_HERE = Party("host", "9999")
KEYS = ClientKeys("our-clients", "secret-of-9999")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = make_world(tmp_path, client_keys=KEYS)
    yield found
    found.store.close()


@pytest.fixture
def anna(world: World, tmp_path: Path) -> Client:
    return add_client(tmp_path, "anna", ALL_ROLES, 1)


def done(world: World, key: Client | ClientKeys, path: str, /, **body: Any) -> Any:
    response = asked(world, key, f"/v1/{path}", body)
    assert response.json["retcode"] == 0, response.json
    return response.json


def texts(world: World, job_id: str) -> list[str]:
    with world.store.reading() as tx:
        return [one.message for one in tx.history(job_id) if one.old == one.new]


@pytest.mark.parametrize(("client", "given", "recorded"), [
    ("anna", "", "anna"), ("anna", "anna", "anna"), ("anna", "ann", "anna (ann)"), ("", "ann", "ann"), ("", "", ""),
    ("owner", "anna", "owner (anna)"), ("anna", "x (bob)", "anna (x (bob))"),
])  # fmt: skip
def test_the_proved_name_stands_first(client: str, given: str, recorded: str) -> None:
    assert recorded_name(client, given) == recorded
    assert not client or client_in(recorded) == client


def test_the_longest_names_fit_into_their_columns() -> None:
    assert len(recorded_name("a" * 32, "b" * LONGEST_GIVEN)) <= 100


def test_a_submit_says_whose_it_was(world: World, anna: Client) -> None:
    file = world.home / "examples" / "a.csv"
    file.parent.mkdir()
    file.write_text("id,x\n1,2\n")
    upload = {"file": str(file), "head": 1, "partition": 1, "namespace": "n", "table_name": "t", "use_local_data": 0}
    job_id = done(world, anna, "data/upload", **upload)["jobId"]
    assert texts(world, job_id) == ["submitted by anna"]
    assert f"job {job_id}: submitted by anna" in world.record.lines
    moves = done(world, anna, "job/history", job_id=job_id)["data"]["moves"]
    assert [one["caused_by"] for one in moves if one["message"] == "submitted by anna"] == ["local 0"]


def test_whatever_is_asked_of_a_waiting_job_is_in_its_history(world: World, anna: Client) -> None:
    job_id = world.add_job(party=GUEST)
    done(world, anna, "job/priority", job_id=job_id, priority=3)
    done(world, anna, "job/hold", job_id=job_id, message="lunch")
    done(world, KEYS, "job/release", job_id=job_id, author="carl")
    done(world, anna, "job/stop", job_id=job_id, now=True)
    named = ["priority 3 requested by anna", "on hold by anna: lunch", "released by owner (carl)",
             "stop as canceled at once requested by anna"]
    assert [one for one in texts(world, job_id) if "anna" in one or "owner" in one] == named
    assert [one for one in world.record.lines if "stop as" in one] == [f"job {job_id}: {named[-1]}"]


def test_the_name_that_a_request_gives_stands_behind_the_proved_one(world: World, anna: Client) -> None:
    done(world, anna, "queue/hold", message="maintenance", author="bob")
    assert world.record.lines == ["party 9999 takes no new reservations: on hold by anna (bob): maintenance"]
    done(world, anna, "queue/release")
    assert world.record.lines[-1] == "party 9999 takes reservations: released by anna"
    said = asked(world, anna, "/v1/queue/hold", {"message": "m", "author": "x" * (LONGEST_GIVEN + 1)}).json
    assert (said["retcode"], said["retmsg"].startswith("author: ")) == (101, True)


def test_a_request_without_a_signature_is_named_as_before(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    job_id = world.add_job(party=GUEST)
    assert world.ask("job/priority", {"job_id": job_id, "priority": 3})["retcode"] == 0
    assert world.ask("queue/hold", {"message": "m"})["retcode"] == 0
    assert world.ask("queue/hold", {"message": "m", "author": "ann"})["retcode"] == 0
    assert not [one for one in texts(world, job_id) if "requested by" in one]
    assert [one.partition(": ")[2] for one in world.record.lines if "takes no new" in one] == [
        "on hold by party 9999: m", "on hold by ann: m",
    ]  # fmt: skip
    world.store.close()


def test_who_removes_something_is_named(world: World, anna: Client) -> None:
    job_id = world.add_job(status=JobStatus.SUCCESS)
    done(world, anna, "job/clean", job_id=job_id)
    done(world, anna, "tracking/component/metric/delete", job_id=job_id)
    named = ["removal of results requested by anna", "removal of metrics requested by anna"]
    assert texts(world, job_id) == named
    for name in ("t1", "t2"):
        world.add_table("n", name, [("1", "2", "3")])
    before = len(world.record.lines)
    for path, table in (("disable", "t1"), ("enable", "t1"), ("disable", "t2"), ("delete", "t1")):
        done(world, anna, f"table/{path}", namespace="n", table_name=table)
    done(world, anna, "table/disable/delete")
    assert world.record.lines[before:] == [
        f"table '{table}' of namespace 'n' was {what} (by anna)"
        for table, what in (
            ("t1", "disabled"), ("t1", "enabled"), ("t2", "disabled"), ("t1", "deleted"), ("t2", "deleted"),
        )
    ]  # fmt: skip


def test_a_rerun_that_the_initiator_carries_out_is_noted_here(world: World, anna: Client) -> None:
    job_id = world.add_job(status=JobStatus.FAILED, party=HOST_HERE, initiator=Party("guest", "10000"))
    done(world, anna, "job/rerun", job_id=job_id)
    assert texts(world, job_id) == ["rerun requested by anna"]
    world.peers.answer = Answer(103, "it is not over")
    assert asked(world, anna, "/v1/job/rerun", {"job_id": job_id}).json["retcode"] == 103
    assert texts(world, job_id) == ["rerun requested by anna"], "refused: nothing has happened"


def test_grants_keys_and_connectors_are_logged_with_their_client(world: World, anna: Client, tmp_path: Path) -> None:
    done(world, anna, "permission/grant", party_id="10000", component="Reader")
    done(world, anna, "permission/delete", party_id="10000", component="Reader")
    pem = write_private_key(tmp_path / "10000.pem", 1).public.pem
    done(world, anna, "key/public/save", party_id="10000", key=pem)
    done(world, anna, "key/public/delete", party_id="10000")
    (tmp_path / "examples").mkdir()
    done(world, KEYS, "table/connector/create", connector_name="files", engine="FILE",
         connector_info={"path": str(tmp_path / "examples")})  # fmt: skip
    assert [line.rpartition(" (by ")[2] for line in world.record.lines] == ["anna)"] * 4 + ["owner)"]
