"""A party hands out the log that it keeps with the asker, and the asker takes no more than has an end."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from fate_flow.core.model.errors import UNREACHABLE, BadRequest, FlowError, OperationFailed, TooLarge
from fate_flow.core.model.job import Answer
from fate_flow.core.model.spec import Party
from fate_flow.core.record.checkpoint import read_checkpoint
from fate_flow.core.record.entry import log_with, read_entry
from fate_flow.core.record.offline.bundle import BadBundle
from fate_flow.core.wire.v1.paths import RECORD_LOG
from fate_flow.core.wire.v1.plain_v1 import NO_SUCH_ROUTE
from fate_flow.core.wire.v1.witnessing import AskedPart, asked_part, part_in
from fate_flow.services.record.epochs import LOST, open_next_epoch
from fate_flow.services.record.reconciling import WholeEpoch
from fate_flow.services.witnesses import asking_logs, handed_out
from fate_flow.services.witnesses.asking_logs import LogQuestions
from fate_flow.services.witnesses.handed_out import part_of_log
from tests.kit.services.witness_parties import WitnessParty, two_parties

ORIGIN = "AAAAAAA-BBBBBBB/with/9999/1"
Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def host() -> WitnessParty:
    """Party 10000 with 130 signed entries and one that is not signed yet in its log with 9999."""
    guest, host = two_parties()
    host.record_with("9999", *(f"entry {number}" for number in range(129)))
    host.cosigned_by(guest)
    host.record_with("9999", "too late")
    host.record_with("10001", "of others")
    return host


def handed(host: WitnessParty, change: Change = lambda data: None, most: int = 1_000) -> tuple[WholeEpoch, ...]:
    """The log as party 9999 gets it; `change` is what the answering party does to each part."""
    asked = 0

    def ask(to: Party, path: str, body: Mapping[str, Any]) -> Answer:
        nonlocal asked
        asked += 1
        assert (to.party_id, path, asked <= most) == ("10000", RECORD_LOG, True)
        with host.store.reading() as tx:
            data = part_of_log(tx, "9999", asked_part(json.loads(json.dumps(body)))).as_data()
        change(data)
        return Answer(data=json.loads(json.dumps(data)))

    return LogQuestions(ask, "10000", lambda: float(asked)).log()


def contents(host: WitnessParty, log: str, epoch: int, size: int) -> tuple[bytes, ...]:
    with host.store.reading() as tx:
        return tuple(one.content for one in tx.sealed_entries(log, epoch, 0, size))


def test_what_is_signed_is_handed_out_in_parts(host: WitnessParty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handed_out, "MOST_ENTRIES", 60)
    [epoch] = handed(host)
    head = read_checkpoint(epoch.note.text)
    assert (head.origin, head.size) == (f"{host.keys.root}/with/9999/1", len(epoch.contents))
    assert tuple(epoch.contents) == contents(host, log_with("9999"), 1, head.size)
    said = [read_entry(one).get("what") for one in epoch.contents]
    assert ("entry 128" in said, "too late" in said, "of others" in said) == (True, False, False)


def test_each_epoch_that_is_signed_is_handed_out(host: WitnessParty) -> None:
    with host.store.transaction() as tx:
        number = open_next_epoch(tx, log_with("9999"), 5_000, LOST)
    assert len(handed(host)) == 1, "nothing of the new one is signed yet"
    host.cosigning.is_no_witness("9999")
    host.sign()
    first, second = handed(host)
    assert second.note.text.startswith(f"{host.keys.root}/with/9999/{number}\n")
    assert read_entry(second.contents[0])["reason"] == LOST
    assert len(first.contents) == 129


def test_a_log_that_grows_meanwhile_is_taken_as_it_was(host: WitnessParty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handed_out, "MOST_ENTRIES", 60)
    host.cosigning.is_no_witness("9999")

    def grow(_: object) -> None:
        host.record_with("9999", "more")
        host.sign()

    [epoch] = handed(host, grow)
    assert len(epoch.contents) == read_checkpoint(epoch.note.text).size == 129


def test_of_a_log_without_a_signature_nothing_is_handed_out() -> None:
    _, host = two_parties()
    host.record_with("9999", "a")
    with pytest.raises(OperationFailed, match="party 10000 has signed nothing of its log with this party yet"):
        handed(host)
    with host.store.reading() as tx:
        assert part_of_log(tx, "9999", AskedPart(7)).entries == ()
        assert part_of_log(tx, "nobody", AskedPart()).as_data() == {
            "epochs": [], "epoch": 0, "note": "", "entries": [],
        }  # fmt: skip


def keep(data: dict[str, Any], count: int) -> None:
    data["entries"] = data["entries"][:count]


@pytest.mark.parametrize(("change", "error", "text"), [
    (lambda data: keep(data, 0), BadBundle, "does not hand out entry 0 of epoch 1"),
    (lambda data: keep(data, 3), BadBundle, "does not hand out entry 0 of epoch 1"),
    (lambda data: data.update(epoch=2), BadBundle, "does not hand out entry 0 of epoch 1"),
    (lambda data: data.update(note="x"), BadBundle, "epoch 1: a note has"),
    (lambda data: data.update(entries=["\ud800"] * 200), BadBundle, "entries that are no text"),
    (lambda data: data.update(epochs="1"), OperationFailed, "in a form that is not known here"),
    (lambda data: data.update(epochs=[0]), OperationFailed, "in a form that is not known here"),
    (lambda data: data.update(epochs=[1] * 1_001), OperationFailed, "in a form that is not known here"),
    (lambda data: data.update(epochs=[1, 1]), OperationFailed, "in a form that is not known here"),
], ids=range(9))  # fmt: skip
def test_a_party_that_answers_otherwise_holds_nobody_up(
    host: WitnessParty, change: Change, error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as raised:
        handed(host, change, most=200)
    assert text in (raised.value.message if isinstance(raised.value, FlowError) else str(raised.value))


def test_a_log_without_an_end_is_given_up() -> None:
    seconds = 0.0

    def ask(*_: object) -> Answer:
        nonlocal seconds
        seconds += 1
        note = f"{ORIGIN}\n190000\n{'A' * 43}=\n\n\u2014 {ORIGIN} {'A' * 92}\n"
        return Answer(data={"epochs": [1], "epoch": 1, "note": note, "entries": ["x"] * 50})

    with pytest.raises(OperationFailed, match="party 10000 has not handed out its log within 120 s"):
        LogQuestions(ask, "10000", lambda: seconds).log()
    assert seconds < 125


@pytest.mark.parametrize(("name", "most"), [("MOST_ENTRIES", 100), ("MOST_BYTES", 1_000)])
def test_a_log_that_is_too_long_is_named_with_the_other_way(
    host: WitnessParty, monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    monkeypatch.setattr(asking_logs, name, most)
    with pytest.raises(TooLarge) as raised:
        handed(host)
    assert "compare it by a file (fate_flow audit prove -p, there)" in raised.value.message


@pytest.mark.parametrize(("answer", "text"), [
    (Answer(UNREACHABLE, "party 10000 does not answer"), "does not hand out its log: party 10000 does not answer"),
    (Answer(NO_SUCH_ROUTE, "no"), "its release cannot; compare it by a file"),
])  # fmt: skip
def test_a_party_that_does_not_answer_is_named_with_why(answer: Answer, text: str) -> None:
    with pytest.raises(OperationFailed) as raised:
        LogQuestions(lambda *_: answer, "10000", lambda: 0.0).log()
    assert text in raised.value.message


@pytest.mark.parametrize("body", [{"epoch": -1}, {"first": "x"}, {"epoch": 2**53}, {"first": True}])
def test_an_odd_question_is_refused_by_its_key(body: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match=f"^{next(iter(body))}: "):
        asked_part(body)


def test_an_answer_that_failed_has_no_part() -> None:
    assert part_in(Answer(UNREACHABLE, "", {"epochs": [], "entries": [], "note": "", "epoch": 0})) is None
