"""`job/history` at the initiator, which asks the other parties too, and `/v1/party/history`, which answers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from threading import Barrier
from typing import Any

import pytest

from fate_flow.api.v1.jobs.history import federated_history
from fate_flow.core.model.history import HistoryEntry, HistoryLevel
from fate_flow.core.model.job import Answer, Seat
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import SeatStatus
from tests.kit.api.client_world import GUEST, HOST, World

OTHER = Party("host", "10001")


def with_history(world: World, initiator: Party = GUEST, seats: tuple[Party, ...] = (), **seat: Any) -> str:
    """A job whose row here has begun at 5 and waited from 9 on."""
    job_id = world.add_job(initiator=initiator)
    with world.store.transaction() as tx:
        tx.add_seats([Seat(job_id, party, SeatStatus.JOINED, **seat) for party in seats])
        tx.add_entries([
            HistoryEntry(job_id, HistoryLevel.JOB, "", "ready", 5, GUEST),
            HistoryEntry(job_id, HistoryLevel.JOB, "ready", "waiting", 9, GUEST),
        ])  # fmt: skip
    return job_id


def moved(at: object, new: str, **more: Any) -> dict[str, Any]:
    return {"time": at, "level": "job", "role": "host", "party_id": "10000", "new": new, **more}


def asked_of(world: World, job_id: str) -> Any:
    return world.ask("job/history", {"job_id": job_id})["data"]


def test_the_moves_of_all_parties_are_merged_and_those_of_each_stay_in_their_order(world: World) -> None:
    job_id = with_history(world, seats=(GUEST, HOST))
    # their clock went back between two of their moves
    theirs = [moved(7, "ready"), moved(3, "waiting", old="ready", message="m"), moved(11, "running")]
    world.peers.answer = Answer(data={"moves": theirs})
    found = asked_of(world, job_id)
    assert [(one["seen_by"], one["time"], one["new"]) for one in found["moves"]] == [
        ("9999", 5, "ready"), ("10000", 7, "ready"), ("10000", 3, "waiting"), ("9999", 9, "waiting"),
        ("10000", 11, "running"),
    ]  # fmt: skip
    assert found["parties"] == [{"party_id": "10000", "asked": "answered", "message": ""}]
    assert world.peers.asked == [(HOST, "/party/history")]
    assert found["moves"][2].keys() == found["moves"][0].keys()


@pytest.mark.parametrize(
    ("answer", "is_plain_v1", "text"),
    [
        (Answer(104, "party 10000 does not answer: ConnectionError"), False, "party 10000 does not answer"),
        (Answer(100, "can not found job"), False, "can not found job"),
        (Answer(), False, "it does not offer to be asked"),
        (Answer(data={"moves": "x"}), False, "it does not offer to be asked"),
        (Answer(data={"moves": [moved(7, "ready")]}), True, "it speaks plain v1"),
    ],
)
def test_who_does_not_answer_is_named_and_the_rest_is_shown(
    world: World, answer: Answer, is_plain_v1: bool, text: str
) -> None:
    world.peers.answer = answer
    found = asked_of(world, with_history(world, seats=(GUEST, HOST), is_plain_v1=is_plain_v1))
    [party] = found["parties"]
    assert (party["party_id"], party["asked"], len(found["moves"])) == ("10000", "not asked", 2)
    assert text in party["message"]
    assert world.peers.asked == ([] if is_plain_v1 else [(HOST, "/party/history")])


def test_of_what_another_party_tells_only_what_makes_sense_is_shown(world: World) -> None:
    odd = moved(2**61, "ready", message=["m"], task_version=-1, component_name="a", pid=7)
    nonsense = [3, {"level": "secret"}, odd]
    world.peers.answer = Answer(data={"moves": nonsense})
    found = asked_of(world, with_history(world, seats=(GUEST, HOST)))
    [one] = [move for move in found["moves"] if move["seen_by"] == "10000"]
    assert (one["time"], one["message"], one["task_version"], "pid" in one) == (0, "", 0, False)


def test_all_are_asked_side_by_side(world: World) -> None:
    """A silent party costs its own time and nobody else's: both are being asked before either answers."""
    job_id, meet = with_history(world, seats=(GUEST, HOST, OTHER)), Barrier(2, timeout=90)

    def ask(to: Party, _: str, __: Mapping[str, Any]) -> Answer:
        meet.wait()
        return Answer(data={"moves": [moved(7, "ready", party_id=to.party_id)]})

    found = federated_history(replace(world.services, ask_party=ask), job_id)
    assert [one["party_id"] for one in found["parties"]] == ["10000", "10001"]
    assert len(found["moves"]) == 4


def test_who_does_not_decide_for_a_job_asks_nobody(world: World) -> None:
    found = asked_of(world, with_history(world, initiator=HOST))
    assert (len(found["moves"]), found["parties"], world.peers.asked) == (2, [], [])


# ---------------------------------------------------------------------- the other side


def described(world: World, job_id: object, caller: str = "10000") -> dict[str, Any]:
    said = world.ask("party/history", {"job_id": job_id}, headers={"SRC-PARTY-ID": caller} if caller else {})
    assert isinstance(said, dict)
    return said


def test_a_party_tells_the_initiator_what_it_has_seen(world: World) -> None:
    job_id = with_history(world, initiator=HOST)
    moves = described(world, job_id)["data"]["moves"]
    assert [(one["time"], one["old"], one["new"]) for one in moves] == [(5, None, "ready"), (9, "ready", "waiting")]


@pytest.mark.parametrize(
    ("caller", "text"), [("10001", "party 10001 is not the initiator of job"), ("", "SRC-PARTY-ID")]
)
def test_and_nobody_else(world: World, caller: str, text: str) -> None:
    said = described(world, with_history(world, initiator=HOST), caller)
    assert (said["retcode"], "data" in said) == (108, False)
    assert text in said["retmsg"]


def test_an_unknown_job_has_no_history(world: World) -> None:
    assert described(world, "2026010112000000000099")["retcode"] == 102
    assert described(world, "../x")["retcode"] == 101
