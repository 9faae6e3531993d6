"""What the engine has, who has reserved of it, and that all of it comes back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fate_flow.core.access.authority import JobBinding
from fate_flow.core.model.errors import StorageFailed
from fate_flow.core.model.job import Claim, EnginePart
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, WorkerStatus
from fate_flow.core.planning.actions import MoveJob
from tests.store_contract.cases import (
    ARBITER,
    DOCUMENT,
    DONE,
    HOST,
    OTHER_HOST,
    Cases,
    Each,
    a_job,
    a_worker,
    an_engine,
    an_engine_state,
    in_use,
    left,
    with_jobs,
)

PARTS = (EnginePart("slurm", 3, 8),)


class ResourceCases(Cases):
    KEY = a_job().key

    def test_each_engine_has_books_of_its_own(self, each: Each) -> None:
        with_jobs(each, a_job(), a_job("j2"))
        each.register_engine(an_engine(), {}, 1)
        each.register_engine(an_engine(4, 64, name="slurm"), {}, 1)
        assert each.reserve(self.KEY, "slurm", 3, 10, "t", 1, 2)
        assert each.job(self.KEY).claim == Claim(3, 10, "t", 1, engine="slurm")
        assert (left(each), left(each, "slurm")) == ((8, 1024), (1, 54))
        assert each.reserve(a_job("j2").key, "slurm", 2, 0, "u", 1, 2) is False, "as if the other engine were not there"
        assert each.reserve(a_job("j2").key, "local", 8, 0, "u", 1, 2)
        assert (left(each), left(each, "slurm")) == ((0, 1024), (1, 54))
        each.register_engine(an_engine(5, 64, name="slurm"), {}, 3)
        assert (left(each), left(each, "slurm")) == ((0, 1024), (2, 54))
        assert each.give_back(self.KEY, None, 3)
        assert (left(each), left(each, "slurm")) == ((0, 1024), (5, 64))
        assert each.job(self.KEY).claim.engine == "slurm", "for people to see where it ran"
        assert each.reserve(self.KEY, "local", 0, 1, "v", 2, 4)
        assert each.job(self.KEY).claim == Claim(0, 1, "v", 2, engine="local")

    def test_a_job_reserves_on_several_engines_or_on_none(self, each: Each) -> None:
        other = a_job("j2").key
        with_jobs(each, a_job(asked=Claim(5, 8, elsewhere=PARTS)), a_job("j2"))
        assert each.job(self.KEY).asked == Claim(5, 8, elsewhere=PARTS)
        each.register_engine(an_engine(), {}, 1)
        each.register_engine(an_engine(4, 64, name="slurm"), {}, 1)
        assert each.reserve(self.KEY, "local", 5, 8, "t", 1, 2, 0, PARTS)
        assert each.job(self.KEY).claim == Claim(5, 8, "t", 1, engine="local", elsewhere=PARTS)
        assert (left(each), left(each, "slurm")) == ((6, 1024), (1, 56))
        assert each.cores_of_jobs_by(a_job().initiator.party_id) == 5, "on all engines together"
        assert each.reserve(other, "local", 3, 0, "u", 1, 2, 0, (EnginePart("slurm", 2),)) is False
        assert each.reserve(other, "local", 3, 0, "u", 1, 2, 0, (EnginePart("gone", 1),)) is False
        assert not each.job(other).holds
        assert (left(each), left(each, "slurm")) == ((6, 1024), (1, 56)), "nothing was taken from the one with enough"
        assert each.give_back(self.KEY, None, 3)
        assert (left(each), left(each, "slurm")) == ((8, 1024), (4, 64))
        assert each.give_back(self.KEY, None, 3) is False
        assert each.reserve(self.KEY, "slurm", 1, 0, "v", 2, 4)
        assert each.job(self.KEY).claim == Claim(1, 0, "v", 2, engine="slurm"), "only what it holds now"

    def test_gpus_are_reserved_like_cores_and_come_back_to_their_engine(self, each: Each) -> None:
        other = a_job("j2").key
        with_jobs(each, a_job(), a_job("j2"))
        each.register_engine(an_engine(), {}, 1)
        each.register_engine(an_engine(4, 64, name="big", gpus=2), {}, 1)
        assert each.reserve(self.KEY, "local", 1, 0, "t", 1, 2, 1) is False, "it has none"
        assert each.reserve(self.KEY, "big", 1, 0, "t", 1, 2, 2)
        assert each.job(self.KEY).claim == Claim(1, 0, "t", 1, engine="big", gpus=2)
        assert each.engine("big") == an_engine_state(4, 64, 3, 64, name="big", gpus=2, remaining_gpus=0)
        assert each.reserve(other, "big", 1, 0, "u", 1, 2, 1) is False
        assert each.reserve(other, "big", 1, 0, "u", 1, 2), "a job without GPUs is not in the way of one with some"
        each.register_engine(an_engine(4, 64, name="big", gpus=1), {}, 3)
        assert each.engine("big").remaining_gpus == -1
        assert each.give_back(self.KEY, None, 3)
        assert each.engine("big") == an_engine_state(4, 64, 3, 64, name="big", gpus=1, remaining_gpus=1)
        assert each.give_back(self.KEY, None, 3) is False
        assert each.engine("big").remaining_gpus == 1
        assert each.engine("local") == an_engine_state(8, 1024, 8, 1024)

    def test_the_row_of_a_job_says_on_which_engine_it_reserves_and_how_many_gpus_it_needs(self, each: Each) -> None:
        asked = Claim(1, 2, engine="big", gpus=3)
        with_jobs(each, a_job(asked=asked))
        assert each.job(self.KEY).asked == asked
        changed = replace(each.job(self.KEY), asked=Claim(1, 2, engine="local"), revision=1)
        assert each.revise(each.job(self.KEY), changed, DOCUMENT)
        assert each.job(self.KEY).asked == Claim(1, 2, engine="local")

    def test_a_worker_has_its_devices_and_an_elastic_one_holds_gpus_of_its_own(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.register_engine(an_engine(gpus=2), {}, 1)
        each.lock_engine("local")
        worker = a_worker(is_elastic=True, cores=1, gpus=2, devices=("0", "GPU-7"))
        assert each.add_elastic_worker(worker)
        assert each.add_elastic_worker(replace(worker, worker_id="b" * 32)) is False, "none is left"
        [stored] = each.unfinished_workers()
        assert (stored.gpus, stored.devices) == (2, ("0", "GPU-7"))
        assert (left(each), each.engine("local").remaining_gpus) == ((7, 1024), 0)
        assert each.move_worker(stored, WorkerStatus.EXITED, 5, end=DONE)
        assert each.move_worker(stored, WorkerStatus.EXITED, 5, end=DONE) is False
        assert (left(each), each.engine("local").remaining_gpus, each.unfinished_workers()) == ((8, 1024), 2, ())

    def test_an_unknown_engine_reserves_nothing(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.register_engine(an_engine(), {}, 1)
        assert each.engine("slurm") is None
        assert each.reserve(self.KEY, "slurm", 0, 0, "t", 1, 2) is False
        assert each.job(self.KEY) == a_job()

    def test_no_engine_no_reservation(self, each: Each) -> None:
        with_jobs(each, a_job())
        assert each.engine("local") is None
        assert each.reserve(self.KEY, "local", 0, 0, "t", 1, 2) is False
        assert each.job(self.KEY) == a_job()

    def test_a_new_engine_is_all_free(self, each: Each) -> None:
        expected = an_engine_state(8, 1024, 8, 1024, 2)
        assert each.register_engine(an_engine(nodes=2), {"address": "x"}, 1) == expected
        assert each.engine("local") == expected

    def test_a_reservation_takes_from_the_engine(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.register_engine(an_engine(), {}, 1)
        assert each.reserve(self.KEY, "local", 5, 100, "t", 3, 2)
        assert each.job(self.KEY) == a_job(claim=Claim(5, 100, "t", 3, engine="local"))
        assert each.job(self.KEY).holds
        assert each.engine("local") == an_engine_state(8, 1024, 3, 924)

    def test_a_job_reserves_once(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.register_engine(an_engine(), {}, 1)
        each.reserve(self.KEY, "local", 2, 0, "t", 1, 2)
        assert each.reserve(self.KEY, "local", 2, 0, "t", 1, 2) is False
        assert each.reserve(self.KEY, "local", 1, 0, "u", 2, 3) is False
        assert each.engine("local").remaining_cores == 6
        assert each.job(self.KEY).claim == Claim(2, 0, "t", 1, engine="local")

    @pytest.mark.parametrize(("cores", "memory"), [(9, 0), (0, 1025), (9, 1025), (9, 1), (1, 1025)])
    def test_both_rows_or_none(self, each: Each, cores: int, memory: int) -> None:
        with_jobs(each, a_job())
        each.register_engine(an_engine(), {}, 1)
        assert each.reserve(self.KEY, "local", cores, memory, "t", 1, 2) is False
        assert each.job(self.KEY) == a_job()
        assert each.engine("local") == an_engine_state(8, 1024, 8, 1024)

    def test_all_there_is_may_be_taken(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.register_engine(an_engine(), {}, 1)
        assert each.reserve(self.KEY, "local", 8, 1024, "t", 1, 2)
        assert each.engine("local") == an_engine_state(8, 1024, 0, 0)

    def test_a_claim_to_nothing_is_a_claim(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.register_engine(an_engine(), {}, 1)
        assert each.reserve(self.KEY, "local", 0, 0, "t", 1, 2)
        assert each.job(self.KEY).holds
        assert each.give_back(self.KEY, None, 3)

    def test_nobody_unknown_reserves(self, each: Each) -> None:
        each.register_engine(an_engine(), {}, 1)
        assert each.reserve(self.KEY, "local", 1, 0, "t", 1, 2) is False
        assert each.engine("local").remaining_cores == 8

    def test_no_claim_without_a_token(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.register_engine(an_engine(), {}, 1)
        with pytest.raises(StorageFailed):
            each.reserve(self.KEY, "local", 1, 0, "", 1, 2)
        assert each.engine("local").remaining_cores == 8

    def test_an_ended_job_reserves_nothing(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.register_engine(an_engine(), {}, 1)
        each.move_job(a_job(), MoveJob(JobStatus.FAILED, Reason.STOPPED), 5)
        with pytest.raises(StorageFailed):
            each.reserve(self.KEY, "local", 1, 0, "t", 1, 6)
        assert each.engine("local").remaining_cores == 8

    def test_everything_comes_back_exactly_once(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.register_engine(an_engine(), {}, 1)
        each.reserve(self.KEY, "local", 5, 100, "t", 1, 2)
        assert [each.give_back(self.KEY, None, 3) for _ in range(3)] == [True, False, False]
        assert each.engine("local") == an_engine_state(8, 1024, 8, 1024)
        assert not each.job(self.KEY).holds
        assert each.job(self.KEY).claim == Claim(5, 100, "", 1, engine="local"), "for people to see what it had"

    def test_the_next_claim_is_a_new_one(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.register_engine(an_engine(), {}, 1)
        each.reserve(self.KEY, "local", 5, 100, "t", 1, 2)
        each.give_back(self.KEY, None, 3)
        assert each.reserve(self.KEY, "local", 2, 10, "u", 2, 4)
        assert each.job(self.KEY).claim == Claim(2, 10, "u", 2, engine="local")
        assert each.engine("local") == an_engine_state(8, 1024, 6, 1014)

    def test_a_return_of_an_earlier_reservation_round_is_fenced(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.register_engine(an_engine(), {}, 1)
        each.reserve(self.KEY, "local", 5, 0, "t", 3, 2)
        assert [each.give_back(self.KEY, round_number, 3) for round_number in (1, 2)] == [False, False]
        assert each.engine("local").remaining_cores == 3
        assert each.give_back(self.KEY, 3, 3)

    def test_a_renewed_claim_is_of_the_later_reservation_round(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.register_engine(an_engine(), {}, 1)
        each.reserve(self.KEY, "local", 5, 0, "t", 3, 2)
        each.renew_claim(self.KEY, 5)
        each.renew_claim(self.KEY, 4)
        assert each.job(self.KEY).claim == Claim(5, 0, "t", 5, 1, engine="local")
        each.renew_claim(self.KEY, 5)
        assert each.job(self.KEY).claim == Claim(5, 0, "t", 5, 2, engine="local"), "each time its lease begins anew"
        assert each.give_back(self.KEY, 4, 3) is False
        assert each.give_back(self.KEY, 6, 3)
        each.renew_claim(self.KEY, 9)
        assert each.job(self.KEY).claim.round_number == 5, "nothing is held, nothing is renewed"

    def test_what_is_in_use_stays_in_use_when_the_totals_change(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.register_engine(an_engine(), {}, 1)
        each.reserve(self.KEY, "local", 5, 100, "t", 1, 2)
        assert each.register_engine(an_engine(16, 512, 3), {}, 3) == an_engine_state(16, 512, 11, 412, 3)
        assert each.register_engine(an_engine(16, 512, 3), {}, 4) == an_engine_state(16, 512, 11, 412, 3)
        each.give_back(self.KEY, None, 5)
        assert each.engine("local") == an_engine_state(16, 512, 16, 512, 3)

    def test_an_engine_may_shrink_below_what_is_in_use(self, each: Each) -> None:
        with_jobs(each, a_job(), a_job("j2"))
        each.register_engine(an_engine(), {}, 1)
        each.reserve(self.KEY, "local", 6, 1000, "t", 1, 2)
        assert each.register_engine(an_engine(4, 800), {}, 3) == an_engine_state(4, 800, -2, -200)
        assert each.reserve(a_job("j2").key, "local", 1, 0, "u", 1, 4) is False
        assert each.reserve(a_job("j2").key, "local", 0, 0, "u", 1, 4), "nothing is always free"
        assert each.give_back(self.KEY, None, 5)
        assert each.engine("local") == an_engine_state(4, 800, 4, 800)

    def test_who_asks_for_no_cores_does_not_wait_for_cores_that_are_lacking(self, each: Each) -> None:
        with_jobs(each, a_job(), a_job("j2"), a_job("j3"))
        each.register_engine(an_engine(), {}, 1)
        each.reserve(self.KEY, "local", 6, 1000, "t", 1, 2)
        each.register_engine(an_engine(4, 2000), {}, 3)
        assert each.reserve(a_job("j2").key, "local", 0, 1000, "u", 1, 4)
        assert each.reserve(a_job("j3").key, "local", 0, 1, "v", 1, 4) is False
        each.register_engine(an_engine(8, 1500), {}, 5)
        assert each.engine("local") == an_engine_state(8, 1500, 2, -500)
        assert each.reserve(a_job("j3").key, "local", 2, 0, "v", 1, 6)

    def test_when_it_was_set_aside(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.register_engine(an_engine(), {}, 1)
        each.reserve(self.KEY, "local", 6, 1000, "t", 1, 77)
        assert each.job(self.KEY).claim.taken_time == 77

    def test_cores_are_summed_over_the_jobs_of_an_initiator(self, each: Each) -> None:
        theirs, seat = a_job(initiator=OTHER_HOST), a_job(party=HOST, initiator=OTHER_HOST)
        with_jobs(each, theirs, seat, a_job("j2"), a_job("j3", initiator=OTHER_HOST))
        each.register_engine(an_engine(), {}, 1)
        assert each.cores_of_jobs_by("10001") == 0
        for key, cores in ((theirs.key, 3), (seat.key, 2), (a_job("j2").key, 1)):
            assert each.reserve(key, "local", cores, 0, "t", 1, 2)
        assert [each.cores_of_jobs_by(one) for one in ("10001", "9999", "10000")] == [5, 1, 0]
        worker = a_worker(is_elastic=True, cores=1)
        assert each.add_elastic_worker(worker)
        assert each.cores_of_jobs_by("10001") == 6
        each.give_back(seat.key, None, 3)
        assert each.cores_of_jobs_by("10001") == 4

    def test_gpus_are_summed_over_the_jobs_of_an_initiator_and_their_elastic_workers(self, each: Each) -> None:
        theirs = a_job(initiator=OTHER_HOST)
        with_jobs(each, theirs, a_job("j2"))
        each.register_engine(an_engine(gpus=9), {}, 1)
        assert each.gpus_of_jobs_by("10001") == 0
        for key, gpus in ((theirs.key, 3), (a_job("j2").key, 1)):
            assert each.reserve(key, "local", 1, 0, "t", 1, 2, gpus)
        assert each.add_elastic_worker(a_worker(is_elastic=True, cores=1, gpus=2))
        assert [each.gpus_of_jobs_by(one) for one in ("10001", "9999", "10000")] == [5, 1, 0]
        each.give_back(theirs.key, None, 3)
        assert each.gpus_of_jobs_by("10001") == 2

    def test_open_jobs_of_an_initiator_are_counted_once_each(self, each: Each) -> None:
        theirs = (a_job("j1", HOST, initiator=OTHER_HOST), a_job("j1", ARBITER, initiator=OTHER_HOST))
        over, own, unbound = a_job("j2", initiator=OTHER_HOST), a_job("j3"), a_job("j4", initiator=OTHER_HOST)
        with_jobs(each, *theirs, over, own, unbound)
        assert each.open_jobs_by("10001") == 0
        for job in (*theirs, over, own):
            each.bind(JobBinding(job.job_id, job.initiator, frozenset({job.initiator}), "d" * 64))
        assert [each.open_jobs_by(one) for one in ("10001", "9999", "10000")] == [2, 1, 0]
        each.move_job(over, MoveJob(JobStatus.FAILED, Reason.STOPPED), 5)
        assert each.open_jobs_by("10001") == 1

    def test_seats_of_one_job_reserve_each_for_itself(self, each: Each) -> None:
        host, arbiter = a_job(party=HOST), a_job(party=ARBITER)
        with_jobs(each, host, arbiter)
        each.register_engine(an_engine(), {}, 1)
        assert each.reserve(host.key, "local", 3, 0, "t", 1, 2)
        assert each.reserve(arbiter.key, "local", 2, 0, "t", 1, 2)
        assert in_use(each, host.key, arbiter.key) == (5, 0)
        each.give_back(arbiter.key, None, 3)
        assert each.engine("local").remaining_cores == 5
