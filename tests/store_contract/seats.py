"""Seats of a job: how they move, and whose party is silent or speaks plain v1."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from fate_flow.core.model.errors import StorageFailed
from fate_flow.core.model.status import IllegalMove, SeatStatus, may_move
from tests.store_contract.cases import ARBITER, GUEST, HOST, OTHER_HOST, Cases, Each, a_seat


class SeatCases(Cases):
    def test_seats_come_back_by_role_and_party(self, each: Each) -> None:
        seats = [
            a_seat(party=OTHER_HOST),
            a_seat(party=HOST, status=SeatStatus.JOINING, run=2, message="why", free_cores=3, asked_cores=4),
            a_seat(party=GUEST),
            a_seat(party=ARBITER, lease=60_000, renew_at=5),
        ]
        each.add_seats(seats)
        assert each.seats("j1") == (replace(seats[3], lease=0, renew_at=0), seats[2], seats[1], seats[0])
        assert each.seats("j2") == ()

    def test_no_seats_are_nothing_to_add(self, each: Each) -> None:
        each.add_seats([])

    def test_a_seat_is_taken_once(self, each: Each) -> None:
        each.add_seats([a_seat()])
        with pytest.raises(StorageFailed):
            each.add_seats([a_seat(party=OTHER_HOST), a_seat()])
        with pytest.raises(StorageFailed):
            each.add_seats([a_seat("j2"), a_seat("j2")])
        assert each.seats("j1") == (a_seat(),)
        assert each.seats("j2") == ()

    def test_every_legal_move_is_made(self, each: Each) -> None:
        for number, (old, new) in enumerate(product(SeatStatus, SeatStatus)):
            if may_move(old, new):
                seat = a_seat(f"j{number}", status=old, asked_cores=4)
                each.add_seats([seat])
                assert each.move_seat(seat, new, "why", 3), (old, new)
                assert each.seats(seat.job_id) == (replace(seat, status=new, message="why", free_cores=3),)

    def test_a_late_answer_moves_nothing(self, each: Each) -> None:
        each.add_seats([a_seat(run=1), a_seat(party=OTHER_HOST, run=1)])
        assert each.move_seat(a_seat(run=0), SeatStatus.CHECKING, "") is False
        assert each.move_seat(a_seat(run=1), SeatStatus.CHECKING, "")
        assert each.move_seat(a_seat(run=1), SeatStatus.CHECKING, "again") is False
        assert each.move_seat(a_seat("j2", run=1), SeatStatus.CHECKING, "") is False
        assert [seat.status for seat in each.seats("j1")] == [SeatStatus.CHECKING, SeatStatus.JOINED]

    def test_a_move_says_anew_what_is_free(self, each: Each) -> None:
        seat = a_seat(message="no capacity", free_cores=2)
        each.add_seats([seat])
        each.move_seat(seat, SeatStatus.CHECKING, "")
        assert each.seats("j1") == (a_seat(status=SeatStatus.CHECKING, message="", free_cores=-1),)

    def test_a_seat_rejoins_in_the_next_run_whatever_it_has_become(self, each: Each) -> None:
        leaving = a_seat(status=SeatStatus.LEAVING, message="why", free_cores=3, asked_cores=4, is_plain_v1=True)
        each.add_seats([leaving])
        each.lease_seat(leaving, 60_000, 77)
        each.move_seat(leaving, SeatStatus.LEFT, "")
        assert each.rejoin(leaving)
        assert each.seats("j1") == (a_seat(status=SeatStatus.JOINING, run=1, asked_cores=4, is_plain_v1=True),)
        assert each.rejoin(leaving) is False
        with pytest.raises(IllegalMove):
            each.rejoin(a_seat(status=SeatStatus.HELD, run=1))

    def test_what_a_seat_is_to_reserve_changes(self, each: Each) -> None:
        each.add_seats([a_seat(run=1, asked_cores=4), a_seat(party=OTHER_HOST, asked_cores=4)])
        assert each.ask_for(a_seat(run=1), 6)
        assert each.ask_for(a_seat(run=0), 7) is False
        assert [seat.asked_cores for seat in each.seats("j1")] == [6, 4]
        assert each.ask_for(a_seat(run=1), 5, {"aa": 2, "bb": 3})
        assert [(seat.asked_cores, seat.asks) for seat in each.seats("j1")] == [(5, {"aa": 2, "bb": 3}), (4, {})]
        assert each.ask_for(a_seat(run=1), 6)
        assert each.seats("j1")[0].asks == {}, "the party will say again where"
        assert each.move_seat(a_seat(run=1), SeatStatus.CHECKING, "", short_at="aa")
        assert each.seats("j1")[0].short_at == "aa"

    def test_a_lease_is_kept_with_its_seat(self, each: Each) -> None:
        each.add_seats([a_seat(run=1), a_seat(party=OTHER_HOST)])
        assert each.lease_seat(a_seat(run=1), 60_000, 77)
        assert each.lease_seat(a_seat(run=0), 5, 5) is False
        assert [(seat.lease, seat.renew_at) for seat in each.seats("j1")] == [(60_000, 77), (0, 0)]

    def test_a_party_that_speaks_plain_v1_is_remembered(self, each: Each) -> None:
        each.add_seats([a_seat(), a_seat(party=OTHER_HOST, is_plain_v1=True)])
        assert [seat.is_plain_v1 for seat in each.seats("j1")] == [False, True]
        assert each.mark_plain_v1(a_seat())
        for text in ("approved by ann: contract 7", ""):
            assert each.note_approval(a_seat(), text)
            assert each.seats("j1")[0].approval == text
        assert each.note_approval(a_seat(run=7), "words") is False
        assert [seat.is_plain_v1 for seat in each.seats("j1")] == [True, True]

    def test_a_party_counts_as_silent_from_the_first_time_until_it_answers(self, each: Each) -> None:
        started = a_seat(status=SeatStatus.STARTED)
        each.add_seats([started, a_seat("j2", status=SeatStatus.HELD)])
        assert each.silent_seats() == ()
        assert each.fall_silent(started, 70, "says nothing for 90 s")
        assert each.fall_silent(started, 80, "says nothing for 95 s") is False
        assert each.fall_silent(a_seat("j2"), 75, "says nothing")
        silent = a_seat(status=SeatStatus.STARTED, silent_since=70, message="says nothing for 90 s")
        assert each.silent_seats() == (silent,), "the other one holds, and runs nothing"
        assert each.answers_again(started)
        assert (each.silent_seats(), each.seats("j1")) == ((), (started,))
        assert each.fall_silent(a_seat(run=1), 90, "") is False

    def test_seats_whose_party_never_said_that_it_knows_the_end(self, each: Each) -> None:
        for status in SeatStatus:
            each.add_seats([a_seat(status.value, status=status)])
        assert [seat.job_id for seat in each.unconfirmed_seats()] == ["unconfirmed"]

    def test_plain_v1_parties_that_run_or_drain_something(self, each: Each) -> None:
        for status in SeatStatus:
            each.add_seats([a_seat(status.value, status=status, is_plain_v1=True), a_seat(status.value, OTHER_HOST)])
        live = {"held", "starting", "started", "stopping", "draining"}
        assert {seat.job_id for seat in each.plain_v1_seats()} == live
        assert {str(seat.party) for seat in each.plain_v1_seats()} == {"host 10000"}

    def test_who_says_who_it_is(self, each: Each) -> None:
        """It has accepted a job that is not over, and not as a plain v1 one."""
        seated = {"joined", "checking", "applying", "held", "starting", "started", "stopping", "draining"}
        for number, status in enumerate(SeatStatus):
            party = replace(HOST, party_id=str(20_000 + number))
            each.add_seats([a_seat(status.value, party, status=status)])
            assert each.says_who(party.party_id) is (status.value in seated), status
        each.add_seats([a_seat("plain", party=OTHER_HOST, status=SeatStatus.STARTED, is_plain_v1=True)])
        assert each.says_who("10001") is False
        assert each.says_who("77") is False

    def test_parties_with_something_of_ours(self, each: Each) -> None:
        live = {"held", "starting", "started", "stopping", "draining"}
        for status in SeatStatus:
            each.add_seats([a_seat(status.value, status=status)])
        assert {seat.status.value for seat in each.seats_at("10000")} == live
        each.add_seats([a_seat(party=OTHER_HOST), a_seat("x", GUEST, status=SeatStatus.STARTED)])
        each.add_seats([a_seat("y", status=SeatStatus.STARTED), a_seat("y", ARBITER, status=SeatStatus.STARTED)])
        assert each.parties_with_seats() == ("10000", "9999")
        assert each.seats_at("10001") == ()
        assert [str(seat.party) for seat in each.seats_at("10000") if seat.job_id == "y"] == [
            "arbiter 10000",
            "host 10000",
        ]
