"""What other parties are asked for a client is recorded with the answer: at the party that asks, and at the one that
answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from fate_flow.core.model.errors import StorageFailed
from fate_flow.core.model.job import Answer, Seat
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus, SeatStatus
from fate_flow.core.record.commitment import opens
from fate_flow.core.record.entry import read_entry
from fate_flow.core.record.log import StoredEntry
from fate_flow.core.record.sentences import sentence_of
from fate_flow.core.record.shown import shown_entry
from fate_flow.core.wire.v1.recorded import answer_content, question_content
from tests.kit.api.client_world import GUEST, HOST, TOY_CONF, TOY_DSL, World, make_world
from tests.kit.web.filled_task import add_worker

OTHER = Party("host", "10001")
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
HEAD = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr("fate_flow.api.http.services.caller", lambda: "anna")
    world = make_world(tmp_path, keeps_record=True)
    yield world
    world.store.close()


def entries_of(world: World, kind: str) -> list[StoredEntry]:
    with world.store.reading() as tx:
        return [one for one in tx.unsealed_entries(100) if one.kind == kind]


def questions(world: World) -> list[StoredEntry]:
    return entries_of(world, "question")


def said(world: World) -> list[Mapping[str, Any]]:
    return [read_entry(one.content) for one in questions(world)]


def with_seats(world: World, *seats: Party, **more: Any) -> str:
    job_id = world.add_job(**more)
    with world.store.transaction() as tx:
        tx.add_seats([Seat(job_id, party, SeatStatus.JOINED) for party in seats])
    return job_id


def test_who_has_asked_whom_for_what_and_the_digest_of_the_answer(recorded: World) -> None:
    job_id = with_seats(recorded, GUEST, HOST, OTHER)
    recorded.peers.answer = Answer(data={"moves": [{"message": "table secret is missing"}]})
    recorded.ask("job/history", {"job_id": job_id}, headers=HEAD)

    entries = questions(recorded)
    fields = [read_entry(one.content) for one in entries]
    assert sorted(one["seat"] for one in fields) == ["host 10000", "host 10001"]
    one, entry = fields[0], entries[0]
    assert (one["what"], one["party"], one["job"], one["retcode"]) == ("history", one["seat"][5:], job_id, 0)
    assert (entry.log, entry.text, b"secret" in entry.content) == ("own", "", False)
    salt = bytes.fromhex(entry.salt)
    assert opens(one["answer"], "answer", salt, answer_content(recorded.peers.answer))
    assert opens(one["request"], "request", salt, question_content("/party/history", {"job_id": job_id}))
    with recorded.store.reading() as tx:
        assert tx.person_name(one["who"]) == "anna"
    assert sentence_of(shown_entry(entry, "anna")) == f"anna: asked {one['seat']} (history); answered 0"


@pytest.mark.parametrize(("path", "body", "what", "endpoint"), [
    ("task/log", {"component_name": "toy_0"}, "task log", "/party/task/log"),
    ("tracking/component/output/data/table", {"component_name": "toy_0"}, "output table", "/output/table"),
])  # fmt: skip
def test_what_a_client_reads_at_another_party_is_recorded(
    recorded: World, path: str, body: dict[str, str], what: str, endpoint: str
) -> None:
    job_id = with_seats(recorded, GUEST, HOST)
    recorded.peers.answer = Answer(108, "party 9999 may not")
    recorded.ask(path, {"job_id": job_id, "role": "host", "party_id": 10000, **body})

    [(party, asked)] = recorded.peers.asked
    assert (party, asked.endswith(endpoint)) == (HOST, True)
    [one] = said(recorded)
    assert (one["what"], one["party"], one["job"], one["retcode"]) == (what, "10000", job_id, 108)


def test_a_rerun_that_is_asked_of_the_initiator_is_recorded(recorded: World) -> None:
    job_id = recorded.add_job(party=GUEST, initiator=HOST, status=JobStatus.SUCCESS)
    recorded.ask("job/rerun", {"job_id": job_id})

    assert [(one["what"], one["seat"]) for one in said(recorded)] == [("rerun", "host 10000")]


def test_a_document_that_others_see_before_a_submit_is_recorded_in_the_trace_of_the_request(recorded: World) -> None:
    recorded.ask("job/validate", {"job_dsl": TOY_DSL, "job_runtime_conf": TOY_CONF}, headers=HEAD)

    [one] = said(recorded)
    assert (one["what"], one["party"], one["trace"], "job" in one) == ("validate", "10000", TRACE, False)


def test_a_look_at_a_log_that_brings_nothing_new_is_not_recorded(recorded: World) -> None:
    job_id = with_seats(recorded, GUEST, HOST)
    with recorded.app.test_request_context():
        ask = recorded.services.asking_for_logs(job_id)
    for text in ("one\n", "", ""):      # as the board asks, also after the request
        recorded.peers.answer = Answer(data={"text": text})
        ask(HOST, "/party/task/log", {})

    assert len(recorded.peers.asked) == 3
    assert len(questions(recorded)) == 1


def test_an_answer_that_cannot_be_recorded_does_not_reach_the_client(
    recorded: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StorageFailed("the disk is full")

    job_id = with_seats(recorded, GUEST, HOST)
    recorded.peers.answer = Answer(data={"moves": [{"message": "theirs"}]})
    monkeypatch.setattr("fate_flow.store.sql.store.SqlTransaction.add_to_record", fail)
    answer = recorded.post("job/history", {"job_id": job_id})

    assert answer.json["retcode"] != 0
    assert b"theirs" not in answer.data


def test_without_a_record_others_are_asked_all_the_same(world: World) -> None:
    job_id = with_seats(world, GUEST, HOST)
    world.ask("job/history", {"job_id": job_id})

    assert (len(world.peers.asked), questions(world)) == (1, [])


# ---------------------------------------------------------------------- the party that answers

ASKING = {"SRC-PARTY-ID": "10000"}


def test_a_party_records_that_another_one_has_seen_the_history_of_a_job(recorded: World) -> None:
    job_id = recorded.add_job(party=GUEST, initiator=HOST, f_trace=TRACE)
    answer = recorded.ask("party/history", {"job_id": job_id}, headers=ASKING)

    [entry] = entries_of(recorded, "replied")
    one, salt = read_entry(entry.content), bytes.fromhex(entry.salt)
    assert (entry.log, one["what"], one["party"], one["job"], one["retcode"]) == ("own", "history", "10000", job_id, 0)
    assert one["trace"] == TRACE
    assert opens(one["request"], "request", salt, question_content("/party/history", {"job_id": job_id}))
    assert opens(one["answer"], "answer", salt, answer_content(Answer(0, "success", answer["data"])))
    assert sentence_of(shown_entry(entry)) == "party 10000 asked for the history of the job; answered 0"


def test_a_party_records_that_another_one_has_read_the_output_of_a_worker(tmp_path: Path) -> None:
    world = make_world(tmp_path, keeps_record=True, shares_logs=True)
    job_id = world.add_job(party=GUEST, initiator=HOST, status=JobStatus.RUNNING)
    world.add_task(job_id)
    add_worker(world, job_id, 0, 0).write_text("a line of a bank\n", encoding="utf-8")
    body = {"job_id": job_id, "component_name": "toy_0", "role": "guest", "party_id": "9999"}
    for offset, text in ((0, "a line of a bank\n"), (17, "")):         # a look that brings nothing new has no entry
        answer = world.ask("party/task/log", {**body, "offset": offset}, headers=ASKING)
        assert answer["data"]["text"] == text

    [entry] = entries_of(world, "replied")
    one = read_entry(entry.content)
    assert (one["what"], one["party"], one["job"], b"bank" in entry.content) == ("task log", "10000", job_id, False)
    world.store.close()


def test_a_party_records_which_tables_another_one_was_replies_in(recorded: World) -> None:
    job_id = recorded.add_job(party=GUEST, initiator=HOST, status=JobStatus.RUNNING)
    recorded.ask(f"tracker/{job_id}/toy_0/guest/9999/output/table", {}, headers=ASKING)

    [one] = replies_in(recorded)
    assert (one["what"], one["party"], one["job"]) == ("output table", "10000", job_id)


@pytest.mark.parametrize(("dsl", "is_good"), [(TOY_DSL, True), ({"components": {"toy_0": {"module": "Magic"}}}, False)])
def test_a_party_records_which_document_it_was_shown_and_what_it_said(
    recorded: World, dsl: Mapping[str, Any], is_good: bool
) -> None:
    conf = {**TOY_CONF, "initiator": {"role": "guest", "party_id": 10000}, "role": {"guest": [10000], "host": [9999]}}
    body = {
        "role": "host", "party_id": "9999", "job_id": "2026010112000000000001", "extensions": {}, "incarnations": {},
        "dsl": dsl, "runtime_conf": conf,
    }  # fmt: skip
    answer = recorded.ask("party/validate", body, headers=ASKING)

    [one] = replies_in(recorded)
    assert (one["what"], one["party"], one["retcode"], "job" in one) == ("validate", "10000", answer["retcode"], False)
    assert (answer["retcode"] == 0) is is_good


def test_an_answer_that_cannot_be_recorded_does_not_reach_the_other_party(
    recorded: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StorageFailed("the disk is full")

    job_id = recorded.add_job(party=GUEST, initiator=HOST)
    monkeypatch.setattr("fate_flow.store.sql.store.SqlTransaction.add_to_record", fail)
    answer = recorded.client.post("/v1/party/history", json={"job_id": job_id}, headers=ASKING)

    assert answer.json["retcode"] != 0
    assert b"moves" not in answer.data


def replies_in(world: World) -> list[Mapping[str, Any]]:
    return [read_entry(one.content) for one in entries_of(world, "replied")]


def test_without_a_record_others_are_answered_all_the_same(world: World) -> None:
    job_id = world.add_job(party=GUEST, initiator=HOST)
    assert world.ask("party/history", {"job_id": job_id}, headers=ASKING)["retcode"] == 0
    assert entries_of(world, "replied") == []
