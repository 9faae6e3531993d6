"""The books show what is wrong: else a run of chaos that finds nothing would say nothing."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from fate_flow.engines.local.worker import CLAIMED, LAUNCH, ProcessId
from fate_flow.store.database.migrations import upgrade
from fate_flow.store.database.opening import open_database
from tests.chaos.books import ends, failures, imbalance, left_alone, unexplained, unsettled
from tests.chaos.parties import Party

JOB = "202601010000000000001"
ENGINE = (
    "INSERT INTO t_engine_registry (f_engine_type, f_engine_name, f_cores, f_memory, f_remaining_cores,"
    " f_remaining_memory, f_nodes) VALUES ('computing', 'STANDALONE', 8, 64, 8, 64, 1)"
)


@pytest.fixture
def parties(tmp_path: Path) -> dict[str, Party]:
    return {party_id: a_party(tmp_path / party_id, party_id) for party_id in ("1", "2")}


def a_party(home: Path, party_id: str) -> Party:
    (home / "jobs").mkdir(parents=True)
    database = open_database("", home)
    upgrade(database)
    database.close()
    party = Party(party_id, "", home, home / "conf", "")
    write(party, ENGINE)
    return party


def write(party: Party, *statements: str) -> None:
    with closing(sqlite3.connect(party.home / "fate_flow.sqlite")) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def a_job(
    status: str, initiator: str = "1", is_initiator: int = 1, unconfirmed: str = "[]", seat: str = ""
) -> str:
    """The row of this seat; of the initiator, or else of the host at party 2, when none is given."""
    role, party_id = (seat or (f"guest {initiator}" if is_initiator else "host 2")).split()
    ended = {"f_end_time": "1", "f_reason": "'done'"} if status in ("success", "failed", "canceled") else {}
    values = {
        "f_job_id": f"'{JOB}'", "f_role": f"'{role}'", "f_party_id": f"'{party_id}'", "f_dsl": "'{}'",
        "f_runtime_conf": "'{}'", "f_runtime_conf_on_party": "'{}'", "f_roles": "'{}'", "f_initiator_role": "'guest'",
        "f_initiator_party_id": f"'{initiator}'", "f_status": f"'{status}'", "f_is_initiator": str(is_initiator),
        "f_unconfirmed_parties": f"'{unconfirmed}'", **ended,
    }  # fmt: skip
    return f"INSERT INTO t_job ({', '.join(values)}) VALUES ({', '.join(values.values())})"


def wrong(parties: Mapping[str, Party], accepted: Mapping[str, str] | None = None) -> str:
    return "\n".join(unsettled(parties, accepted or {}))


def test_nothing_is_wrong_with_parties_that_are_idle(parties: dict[str, Party]) -> None:
    write(parties["1"], a_job("success"))
    write(parties["2"], a_job("success", is_initiator=0))
    assert unsettled(parties, {JOB: "1"}) == []
    assert ends(parties) == {"success": 1}
    assert failures(parties) == []


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("UPDATE t_engine_registry SET f_remaining_cores = 6", "6 of 8 cores are free"),
        ("UPDATE t_engine_registry SET f_remaining_memory = 32", "memory: 0 in use and 32 remaining are not 64"),
        (a_job("running"), f"job {JOB} guest running"),
        ("INSERT INTO t_outbox (f_kind, f_job_id, f_role, f_party_id, f_body, f_create_time)"
         f" VALUES ('start', '{JOB}', 'host', '2', '', 1)", f"command not answered start {JOB} 2"),
        ("INSERT INTO t_submission (f_request_id, f_job_id, f_digest, f_create_time)"
         f" VALUES ('r', '{JOB}', '', 1)", f"submission half done r {JOB}"),
        (f"INSERT INTO t_seat (f_job_id, f_role, f_party_id, f_status) VALUES ('{JOB}', 'host', '2', 'held')",
         f"seat {JOB} 2 held"),
    ],
)  # fmt: skip
def test_a_row_that_is_still_open_is_named(parties: dict[str, Party], statement: str, text: str) -> None:
    write(parties["1"], statement)
    assert text in wrong(parties)


def test_the_balance_counts_what_jobs_hold(parties: dict[str, Party]) -> None:
    party = parties["1"]
    write(party, a_job("running"), "UPDATE t_job SET f_cores = 3, f_claim = 'c', f_resource_in_use = 1")
    assert imbalance(party) == ["party 1: cores: 3 in use and 8 remaining are not 8"]
    write(party, "UPDATE t_engine_registry SET f_remaining_cores = 5")
    assert imbalance(party) == []


def test_parties_that_disagree_are_named_unless_the_initiator_does(parties: dict[str, Party]) -> None:
    write(parties["1"], a_job("failed"))
    write(parties["2"], a_job("success", is_initiator=0))
    text = f"job {JOB}: success (done) at host 2, failed (done) at its initiator"
    assert text in wrong(parties)
    write(parties["1"], """UPDATE t_job SET f_unconfirmed_parties = '["arbiter 2"]'""")
    assert text in wrong(parties), "that is another seat"
    write(parties["1"], """UPDATE t_job SET f_unconfirmed_parties = '["host 2"]'""")
    assert unsettled(parties, {}) == []


@pytest.mark.parametrize("differing", ["host 2", "arbiter 2"])
def test_each_of_two_seats_at_one_party_is_looked_at(parties: dict[str, Party], differing: str) -> None:
    write(parties["1"], a_job("failed"))
    for seat in ("host 2", "arbiter 2"):
        status = "success" if seat == differing else "failed"
        write(parties["2"], a_job(status, is_initiator=0, seat=seat))
    [found] = unsettled(parties, {})
    assert f"success (done) at {differing}, failed (done) at its initiator" in found


def test_a_second_seat_of_the_initiator_is_compared_with_its_first(parties: dict[str, Party]) -> None:
    write(parties["1"], a_job("failed"), a_job("success", is_initiator=0, seat="host 1"))
    assert "success (done) at host 1, failed (done) at its initiator" in wrong(parties)
    assert ends(parties).total() == 1


def test_a_failure_needs_a_reason_that_was_a_fault(parties: dict[str, Party]) -> None:
    write(parties["1"], a_job("failed"), "UPDATE t_job SET f_message = 'the session has ended'")
    assert unexplained(failures(parties)) == [f"failed without a true reason: {JOB}: done: the session has ended"]
    write(parties["1"], "UPDATE t_job SET f_message = 'a on host 2: the process ended with signal 9'")
    assert unexplained(failures(parties)) == []


def test_a_lease_that_ran_out_is_a_reason_where_a_fault_was_that_long(parties: dict[str, Party]) -> None:
    lost = "UPDATE t_job SET f_reason = '{}', f_message = 'party 2 has not answered for 90 s'"
    write(parties["1"], a_job("failed"), lost.format("party_unreachable"))
    assert len(unexplained(failures(parties))) == 1
    assert unexplained(failures(parties), may_outlive_leases=True) == []
    write(parties["1"], lost.format("initiator_lost"))
    assert (unexplained(failures(parties), may_outlive_leases=True), left_alone(parties)) == ([], 1)


def test_a_job_that_one_side_does_not_know_is_named(parties: dict[str, Party]) -> None:
    write(parties["2"], a_job("success", is_initiator=0))
    found = wrong(parties, {JOB: "1"})
    assert f"job {JOB}: party 1 accepted it and does not know it" in found
    assert "unknown to its initiator guest 1" in found


def test_a_worker_that_lives_and_a_file_that_is_left_are_named(parties: dict[str, Party]) -> None:
    folder = parties["1"].home / "jobs" / JOB / "worker"
    folder.mkdir(parents=True)
    me = ProcessId.of(os.getpid())
    (folder / LAUNCH).write_text("{}", encoding="utf-8")
    (folder / CLAIMED).write_text(json.dumps({"pid": me.pid, "started": me.started}), encoding="utf-8")
    left = parties["2"].home / "spool" / "sessions" / JOB / "session"
    left.parent.mkdir(parents=True)
    left.touch()
    assert f"party 1: process of {folder}" in wrong(parties)
    assert f"party 2: {left}" in wrong(parties)
