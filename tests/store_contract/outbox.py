"""Commands that wait to be sent, text for people, and the record."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fate_flow.core.model.job import Command, CommandKind
from fate_flow.core.model.peer import PeerTrouble
from fate_flow.core.notifications.notification import Occasion
from fate_flow.core.notifications.subscribers import Target
from fate_flow.core.record.entry import OWN_LOG, Kind, NewEntry, log_with, new_entry
from fate_flow.core.record.log import Head, StoredCheckpoint, StoredEntry, head_after, next_batch
from fate_flow.core.record.offline.evidence import Evidence
from fate_flow.core.record.tree import Edge, leaf_hash, root_of
from fate_flow.store.values import Delivery, StoredNotification
from tests.kit.notifications.subscribers import ANN, OPS, a_notification
from tests.store_contract.cases import DOCUMENT, GUEST, HOST, Cases, Each, a_job, with_jobs


class OutboxCases(Cases):
    COMMAND = Command(
        CommandKind.TASK_STOP, "j1", HOST, 2, "reader_0", 3, "canceled", {"incarnation": "abc", "deep": [{"x": None}]},
        salt="cd" * 32,
    )

    def test_a_command_comes_back_as_it_was_put(self, each: Each) -> None:
        number = each.put_command(replace(self.COMMAND, id=77, attempts=5), 1)
        assert each.commands_after(0) == (replace(self.COMMAND, id=number),)

    def test_every_kind_of_command_is_kept(self, each: Each) -> None:
        for kind in CommandKind:
            each.put_command(Command(kind, "j1", HOST), 1)
        assert [command.kind for command in each.commands_after(0)] == list(CommandKind)

    def test_commands_go_in_the_order_in_which_they_came(self, each: Each) -> None:
        numbers = [each.put_command(replace(self.COMMAND, job_id=name), 1) for name in ("j3", "j1", "j2")]
        assert numbers == sorted(set(numbers))
        assert [command.job_id for command in each.commands_after(0)] == ["j3", "j1", "j2"]
        assert [command.job_id for command in each.commands_after(numbers[0])] == ["j1", "j2"]
        assert each.commands_after(numbers[2]) == ()

    def test_a_command_is_taken_once(self, each: Each) -> None:
        first, second = (each.put_command(self.COMMAND, 1) for _ in range(2))
        assert [each.take_command(first) for _ in range(2)] == [True, False]
        assert each.take_command(second + 1) is False
        assert [command.id for command in each.commands_after(0)] == [second]

    def test_a_number_is_not_used_again(self, each: Each) -> None:
        first = each.put_command(self.COMMAND, 1)
        each.take_command(first)
        assert each.put_command(self.COMMAND, 1) > first

    def test_commands_that_are_older_than_some_steady_time(self, each: Each) -> None:
        first, second = (each.put_command(self.COMMAND, 1, since) for since in (5, 7))
        assert [(one.id, one.since) for one in each.commands_before(7)] == [(first, 5)]
        assert [one.id for one in each.commands_before(8)] == [first, second]

    def test_reports_that_wait_for_their_way_to_an_initiator(self, each: Each) -> None:
        kinds = (CommandKind.REPORT, CommandKind.ASK_STOP, CommandKind.REPORT, CommandKind.REPORT)
        numbers = [each.put_command(Command(kind, "j1", GUEST), 1) for kind in kinds]
        each.put_command(Command(CommandKind.REPORT, "j1", HOST), 1)
        assert [one.id for one in each.reports_to(GUEST.party_id, 9)] == [numbers[0], *numbers[2:]]
        assert [one.id for one in each.reports_to(GUEST.party_id, 2)] == numbers[2:]
        assert each.reports_to("10009", 9) == ()

    def test_a_body_that_is_no_json_is_refused(self, each: Each) -> None:
        with pytest.raises(TypeError):
            each.put_command(replace(self.COMMAND, body={"party": HOST}), 1)
        assert each.commands_after(0) == ()


class NotificationCases(Cases):
    def added(self, each: Each, *numbers: int, targets: tuple[Target, ...] = (OPS,)) -> None:
        for number in numbers:
            each.add_notification(a_notification(number), targets)

    def test_a_notification_comes_back_as_it_was_added(self, each: Each) -> None:
        one = a_notification(1, run=3, partner="10000", job_name="\u20ac 'quoted' \\")
        each.add_notification(one, (OPS, ANN))
        (first,) = each.waiting_notifications(OPS.channel, 9)
        (second,) = each.waiting_notifications(ANN.channel, 9)
        assert replace(first, number=0) == StoredNotification(0, OPS, one)
        assert replace(second, number=0) == StoredNotification(0, ANN, one)
        assert sorted(each.waiting_channels()) == sorted([OPS.channel, ANN.channel])

    def test_one_with_a_known_id_is_not_added_again(self, each: Each) -> None:
        self.added(each, 1)
        self.added(each, 1, targets=(OPS, ANN))
        assert [one.target for one in reversed(each.newest_notifications(9))] == [OPS, ANN]

    def test_what_was_tried_least_comes_first(self, each: Each) -> None:
        self.added(each, 1, 2)
        first, second = each.waiting_notifications(OPS.channel, 9)
        assert each.note_try(first.number, "no answer in time")
        tried = replace(first, tries=1, error="no answer in time")
        assert each.waiting_notifications(OPS.channel, 9) == (second, tried)
        assert each.waiting_notifications(OPS.channel, 1) == (second,)

    def test_one_that_is_over_waits_no_more(self, each: Each) -> None:
        self.added(each, 1)
        (one,) = each.waiting_notifications(OPS.channel, 9)
        assert each.end_notification(one.number, Delivery.SENT, 1, "", 7)
        assert not each.end_notification(one.number, Delivery.DROPPED, 2, "x", 8)
        assert not each.note_try(one.number, "x")
        assert each.waiting_channels() == ()
        assert each.newest_notifications(9) == (replace(one, state=Delivery.SENT, tries=1, end_time=7),)
        self.added(each, 1)
        assert each.waiting_channels() == (), "it is known by its id"

    def test_the_oldest_of_too_many_are_dropped(self, each: Each) -> None:
        self.added(each, 1, 2, 3)
        assert each.drop_oldest_notifications(3, "too many", 7) == {}
        assert each.drop_oldest_notifications(1, "too many", 7) == {OPS.channel: 2}
        newest = each.newest_notifications(9)
        assert [one.state for one in newest] == [Delivery.WAITING, Delivery.DROPPED, Delivery.DROPPED]
        assert (newest[1].error, newest[1].end_time) == ("too many", 7)

    def test_those_that_are_over_are_removed_beyond_a_number(self, each: Each) -> None:
        self.added(each, 1, 2, 3, 4)
        for one in each.waiting_notifications(OPS.channel, 3):
            each.end_notification(one.number, Delivery.SENT, 1, "", 7)
        assert each.forget_notifications(3) == 0
        assert each.forget_notifications(1) == 2
        assert [one.notification for one in each.newest_notifications(9)] == [a_notification(4), a_notification(3)]
        assert len(each.newest_notifications(1)) == 1

    def test_the_name_of_a_job(self, each: Each) -> None:
        with_jobs(each, a_job())
        assert each.name_of_job(a_job().job_id) == DOCUMENT.name
        assert each.name_of_job("nobody") == ""

    def test_people_choose_what_they_are_notified_of(self, each: Each) -> None:
        each.choose_occasions("ann", [Occasion.JOB_ENDED], 1)
        each.choose_occasions("ann", [Occasion.JOB_ENDED, Occasion.CONTRADICTION], 2)
        each.choose_occasions("ben", [], 2)
        both = frozenset({Occasion.JOB_ENDED, Occasion.CONTRADICTION})
        assert each.chosen_occasions() == {"ann": both, "ben": frozenset()}
        each.choose_occasions("ann", None, 3)
        assert each.chosen_occasions() == {"ben": frozenset()}

    def test_the_silence_that_people_know_of_outlasts_the_troubles(self, each: Each) -> None:
        each.note_silence("10000", 7)
        each.note_trouble(PeerTrouble("10000", silent_since=5))
        each.forget_troubles()
        assert each.noted_silences() == {"10000": 7}
        each.note_silence("10000", 0)
        assert each.noted_silences() == {}


class MessageCases(Cases):
    def test_text_for_people_are_added_once(self, each: Each) -> None:
        with_jobs(each, a_job())
        assert each.add_message(a_job().key, "released: why")
        assert each.add_message(a_job().key, "released: why") is False
        assert each.add_message(a_job().key, "and more")
        assert each.job(a_job().key).message == "released: why; and more"
        assert each.add_message(a_job("nobody").key, "x") is False


WITH_HOST = log_with("10000")


def an_entry(what: str, log: str = OWN_LOG, job_id: str = "j1", salt: str = "") -> NewEntry:
    return new_entry(log, Kind.ACT, 7, {"what": what}, job_id=job_id, salt=salt)


class RecordCases(Cases):
    """Entries get their indexes once, and the head moves only from where it was."""

    def test_an_entry_comes_back_to_the_byte_and_is_not_sealed(self, each: Each) -> None:
        entry = replace(an_entry("\u20ac \U0001f600 'quoted' \\", WITH_HOST, salt="ab" * 32), text="a text")
        each.add_to_record([entry])

        (found,) = each.unsealed_entries(10)
        assert replace(found, id=0) == StoredEntry(0, WITH_HOST, entry.content, "act", 7, "j1", "ab" * 32, "a text")
        assert not found.is_sealed
        assert each.record_of_job("j1") == (found,)
        assert each.record_of_job("j2") == ()

    def test_entries_come_in_the_order_of_writing(self, each: Each) -> None:
        each.add_to_record([an_entry(str(number)) for number in range(600)])
        each.add_to_record([])

        found = each.unsealed_entries(1_000)
        assert [one.content for one in found] == [an_entry(str(number)).content for number in range(600)]
        assert each.unsealed_entries(2) == found[:2]
        assert each.record_after(0, 1_000) == found
        assert each.record_after(found[1].id, 2) == found[2:4]

    def test_a_batch_gives_indexes_and_moves_the_head(self, each: Each) -> None:
        each.add_to_record([an_entry("a"), an_entry("b", WITH_HOST), an_entry("c")])
        first, other, second = each.unsealed_entries(10)
        head = each.record_head(OWN_LOG)
        batch = next_batch(head, [first, second], 9)

        assert head == Head(OWN_LOG)
        assert each.seal(head, batch)

        after = each.record_head(OWN_LOG)
        assert after == head_after(head, batch)
        assert after.edge.root == root_of([leaf_hash(first.content), leaf_hash(second.content)])
        assert each.unsealed_entries(10) == (other,)
        assert each.sealed_entries(OWN_LOG, 1, 0, 10) == (
            replace(first, epoch=1, index=0), replace(second, epoch=1, index=1)
        )  # fmt: skip
        assert each.sealed_entries(OWN_LOG, 1, 1, 1) == (replace(second, epoch=1, index=1),)
        assert each.sealed_entries(WITH_HOST, 1, 0, 10) == ()
        assert each.batches(OWN_LOG, 1, 0, 10) == (batch,)
        assert each.record_heads() == (after,)

    def test_an_old_head_seals_nothing(self, each: Each) -> None:
        each.add_to_record([an_entry("a"), an_entry("b")])
        first, second = each.unsealed_entries(10)
        head = each.record_head(OWN_LOG)
        assert each.seal(head, next_batch(head, [first], 9))

        assert not each.seal(head, next_batch(head, [second], 9))
        assert each.record_head(OWN_LOG).size == 1
        assert each.unsealed_entries(10) == (second,)

    def test_an_entry_gets_one_index(self, each: Each) -> None:
        each.add_to_record([an_entry("a"), an_entry("b")])
        first, second = each.unsealed_entries(10)
        head = each.record_head(OWN_LOG)
        assert each.seal(head, next_batch(head, [first], 9))
        after = each.record_head(OWN_LOG)

        assert not each.seal(after, next_batch(after, [second, first], 9))
        assert each.record_head(OWN_LOG) == after
        assert each.unsealed_entries(10) == (second,)
        assert len(each.batches(OWN_LOG, 1, 0, 10)) == 1

    def test_batches_are_found_by_an_index(self, each: Each) -> None:
        each.add_to_record([an_entry(str(number)) for number in range(6)])
        entries = each.unsealed_entries(10)
        made = []
        for first in (0, 2, 4):
            head = each.record_head(OWN_LOG)
            made.append(next_batch(head, entries[first : first + 2], 9))
            assert each.seal(head, made[-1])

        assert each.batches(OWN_LOG, 1, 0, 10) == tuple(made)
        assert each.batches(OWN_LOG, 1, 3, 10) == tuple(made[1:])
        assert each.batches(OWN_LOG, 1, 3, 1) == (made[1],)
        assert each.batches(OWN_LOG, 1, 0, 2) == (made[0],)
        assert each.batches(OWN_LOG, 1, 1, 2) == tuple(made[:2])
        assert each.batches(OWN_LOG, 1, 6, 10) == ()
        assert each.batches(OWN_LOG, 2, 0, 10) == ()

    def test_a_new_epoch_begins_with_index_0(self, each: Each) -> None:
        each.add_to_record([an_entry("a"), an_entry("b")])
        first, second = each.unsealed_entries(10)
        head = each.record_head(OWN_LOG)
        assert each.seal(head, next_batch(head, [first], 9))

        assert not each.open_epoch(head, 2)
        assert not each.open_epoch(each.record_head(OWN_LOG), 1)
        assert each.open_epoch(each.record_head(OWN_LOG), 2)
        head = each.record_head(OWN_LOG)
        assert head == Head(OWN_LOG, 2)
        assert each.seal(head, next_batch(head, [second], 9))
        assert each.sealed_entries(OWN_LOG, 2, 0, 10) == (replace(second, epoch=2, index=0),)
        assert len(each.sealed_entries(OWN_LOG, 1, 0, 10)) == 1
        assert (each.record_epochs(OWN_LOG), each.record_epochs(WITH_HOST)) == ((1, 2), ())
        for epoch in (1, 2, 3):
            assert each.epoch_size(OWN_LOG, epoch) == len(each.sealed_entries(OWN_LOG, epoch, 0, 100))

    def test_a_checkpoint_is_replaced_by_one_with_more_signatures(self, each: Each) -> None:
        small = StoredCheckpoint(1, 2, "note \u2014\n", 5, Edge(2, (b"2" * 32,)))
        large = StoredCheckpoint(1, 10, "large", 6)
        for one in (large, small, StoredCheckpoint(2, 1, "later", 7)):
            each.put_checkpoint(WITH_HOST, one)
        each.put_checkpoint(WITH_HOST, replace(large, note="cosigned"))

        assert each.checkpoints(WITH_HOST, 1) == (small, replace(large, note="cosigned"))
        assert each.checkpoints(OWN_LOG, 1) == ()
        assert each.newest_checkpoint(WITH_HOST, 1) == replace(large, note="cosigned")
        assert each.newest_checkpoint(OWN_LOG, 1) is None
        assert each.checkpoint(WITH_HOST, 1, 2) == small
        assert each.checkpoint(WITH_HOST, 1, 3) is None

    def test_the_witness_keeps_the_newest_checkpoint_alone(self, each: Each) -> None:
        assert each.witnessed("origin") is None
        assert not each.put_witnessed("origin", 1, StoredCheckpoint(0, 3, "three", 5))
        assert each.put_witnessed("origin", 0, StoredCheckpoint(0, 3, "three", 5))
        assert not each.put_witnessed("origin", 0, StoredCheckpoint(0, 4, "four", 6))
        assert each.put_witnessed("origin", 3, StoredCheckpoint(0, 5, "five", 6))
        assert each.witnessed("origin") == StoredCheckpoint(0, 5, "five", 6)

    def test_the_witness_finds_all_logs_of_a_party(self, each: Each) -> None:
        for origin in ("A/with/1/2", "A/with/1/1", "A/with/10/1", "B/with/1/1"):
            assert each.put_witnessed(origin, 0, StoredCheckpoint(0, 3, origin, 5))
        assert each.witnessed_below("A/with/1/") == ("A/with/1/1", "A/with/1/2")
        assert each.witnessed_below("C/") == ()

    def test_the_witness_knows_the_newest_question_of_a_party(self, each: Each) -> None:
        assert each.questions("10000") == ()
        assert each.is_newest_question("10000", "")
        assert not each.is_newest_question("10000", "one")
        assert not each.put_questions("10000", ("none",), ("one",))
        assert each.put_questions("10000", (), ("one",))
        assert not each.put_questions("10000", (), ("two",))
        assert each.put_questions("10000", ("one",), ("", "one"))
        assert each.questions("10000") == ("", "one")
        assert each.is_newest_question("10000", "")
        assert not each.is_newest_question("10000", "one")
        assert each.questions("10001") == ()

    def test_evidence_is_kept_once_for_a_log_and_size(self, each: Each) -> None:
        proof = Evidence("10000", True, "A/with/1/1", 3, "one \u2014\n", "two", 7, (b"\1" * 32, bytes(32)))
        other = replace(proof, is_proof=False, at=6, shown=())
        assert each.add_evidence(proof)
        assert not each.add_evidence(replace(proof, second="three", at=8))
        assert each.add_evidence(other)
        assert each.evidence() == (other, proof)

    def test_a_person_has_one_id(self, each: Each) -> None:
        assert each.person_id("alice", "1" * 32) == "1" * 32
        assert each.person_id("alice", "2" * 32) == "1" * 32
        assert each.person_id("bob", "2" * 32) == "2" * 32
        assert each.person_name("1" * 32) == "alice"
        assert each.person_name("3" * 32) == ""
