"""What has to hold once the faults have stopped: all is over, and all parties tell the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fate_flow.core.model.history import HistoryEntry, HistoryLevel
from fate_flow.core.model.job import Claim, Job, JobKey
from fate_flow.core.model.policy import PolicyEvent
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.resources import EngineSize
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import TASK_END, JobStatus, SeatStatus, TaskStatus, WorkerStatus
from tests.simulation.rules.capacity import asked_of
from tests.simulation.rules.rows import BY_POLICY, Rules, Seen

if TYPE_CHECKING:
    from tests.simulation.world.party import SimParty


_TASK_ENDS = frozenset(status.value for status in TASK_END)
_REASONS = frozenset({
    "task fails", "worker killed", "power cut", "partition", "cut off", "stopped", "fewer cores", "dead route",
})  # fmt: skip
"""Faults for which a job may fail."""
_DEATHS = frozenset({"crash", "crash before the reply", "killed"})
"""Whoever dies again and again is silent in the end; one death alone is no reason to fail."""
_LOSSES = frozenset({"request lost", "reply lost", "request late", "reply late"})
_SECONDS_THAT_NO_JOB_NEEDS = 3_600
_SETTLED_SEATS = (SeatStatus.LEFT, SeatStatus.REFUSED)      # also who was gone for long is told in the end
RARE = 60_000
"""Milliseconds: where commands are dropped sooner, some party may never hear of what nobody waits for."""


class SettledRules(Rules):
    """Everything is over, and every party tells the same end of each job, in its rows and in its history."""

    def unsettled(self) -> str:
        """What is still open somewhere, as text; empty when nothing is."""
        if self._world.under_way:
            return f"{self._world.under_way} requests are under way"
        for party in self._world.parties.values():
            if party.engine.living():
                return f"party {party.party_id} has workers left"
            if party.books.outbox():
                return f"party {party.party_id} has {party.books.outbox()} commands to send"
            what = _unsettled_rows(party.party_id, self.seen(party))
            if what:
                return f"party {party.party_id}: {what}"
        return ""

    def unsettled_while_shrunk(self) -> str:
        """What is open but for jobs that a party is too small for, which wait and say so; as text, empty: nothing."""
        for party in self._world.parties.values():
            for job in self.seen(party).jobs.values():
                is_said = not job.is_initiator or "more than it has in all" in job.wait_reason
                if not job.is_final and not (is_said and self._is_impossible(job.job_id)):
                    return f"{job.key} is {job.status.value}, waits for {job.wait_reason!r}"
        return ""

    def _is_impossible(self, job_id: str) -> bool:
        """It waits, and some party has less in all than all its seats there ask for."""
        for party in self._world.parties.values():
            rows = [job for job in self.seen(party).jobs.values() if job.job_id == job_id]
            is_short = any(
                _is_beyond(size, [asked_of(row).get(name, Claim()) for row in rows])
                for name, size in party.sizes.items()
            )  # fmt: skip
            if is_short and all(row.status is JobStatus.WAITING for row in rows):
                return True
        return False

    def check_settled(self) -> None:
        """Nothing is reserved, and all parties tell the same end of each job."""
        for party in self._world.parties.values():
            for engine in map(party.books.engine, party.sizes):
                if engine.free != engine.in_all:
                    self._fail(f"party {party.party_id} lacks cores, memory or GPUs: {engine}")
            if party.record.taken_back and not self._world.injected:
                self._fail(f"a hold ran out at party {party.party_id}, and nothing went wrong")
            self._check_history(party)
            self._check_outputs(party)
        for job_id, seats in self._world.seats.items():
            self._check_agreement(job_id, seats)
        for party in self._world.parties.values():
            for job in self.seen(party).jobs.values():
                # a user may have canceled it before the refusal came
                if job.job_id in self._world.not_allowed and (job.round_number or job.status is not JobStatus.CANCELED):
                    self._fail(f"{job.key} is {job.status.value}, and asks some party for more than that one allows")

    def _check_outputs(self, party: SimParty) -> None:
        """What succeeded at all parties is published, and what did not is not, but for a rerun that has kept it."""
        with party.store.reading() as tx:
            for key, task in self.seen(party).tasks.items():
                made = tx.outputs(key.job_id, key.name, key.party) if task.runs_here else ()
                is_published = any(one.task.version == key.version for one in made)
                is_good = task.status is task.party_status is TaskStatus.SUCCESS
                if task.runs_here and is_good and not made:
                    self._fail(f"{key} succeeded at all parties, and nothing that it made is known")
                if is_published and task.status not in (TaskStatus.SUCCESS, TaskStatus.CANCELED):
                    self._fail(f"{key} is {task.status.value}, and what it made is known")

    def _check_history(self, party: SimParty) -> None:
        """Every change of status of a row has one record, and the records of one row follow from each other."""
        seen, stands = self.seen(party), dict[object, str]()
        with party.store.reading() as tx:
            entries = [entry for job_id in {key.job_id for key in seen.jobs} for entry in tx.history(job_id)]
        for one in entries:
            key: tuple[object, ...] = (one.level, one.job_id, one.party, one.task, one.version)
            key += (_which_worker(one),) if one.level is HistoryLevel.WORKER else ()
            is_end = one.level is HistoryLevel.WORKER and one.new == WorkerStatus.EXITED.value
            if is_end and not (one.reason and one.caused_by):
                self._fail(f"history of party {party.party_id}: {one} ended for no reason, or by nobody's doing")
            began = one.level in (HistoryLevel.JOB, HistoryLevel.TASK) and one.old == ""
            has_status = one.level is not HistoryLevel.SILENCE    # its end may not be told
            if has_status and not began and stands.get(key, one.old) != one.old:
                self._fail(f"history of party {party.party_id}: {key} went from {one.old}, but was {stands[key]}")
            stands[key] = one.new
        self._check_versions(party, entries)
        for job in seen.jobs.values():
            if stands.get((HistoryLevel.JOB, job.job_id, job.party, "", 0)) != job.status.value:
                self._fail(f"history of party {party.party_id}: {job.key} is {job.status.value}, which it does not say")
        for task in seen.tasks.values():
            key = (HistoryLevel.PARTY_TASK, task.key.job_id, task.key.party, task.key.name, task.key.version)
            if stands.get(key, "waiting") != task.party_status.value:
                status = task.party_status.value
                self._fail(f"history of party {party.party_id}: {task.key} is {status}, not {stands.get(key)}")
            over_all = stands.get((HistoryLevel.TASK, task.key.job_id, None, task.key.name, task.key.version))
            if over_all != task.status.value:
                self._fail(f"history of party {party.party_id}: {task.key} is {task.status.value}, not {over_all}")
        self._check_ends(party, entries)

    def _check_ends(self, party: SimParty, entries: list[HistoryEntry]) -> None:
        """How a task ended over all its parties stands in its rows as it does in the history."""
        ends = {(one.job_id, one.task, one.version): one for one in entries if one.level is HistoryLevel.TASK}
        for task in self.seen(party).tasks.values():
            described = ends[task.key.job_id, task.key.name, task.key.version]
            if not task.is_final:
                continue
            code = task.federated_exit_code
            why = (task.federated_reason.value if task.federated_reason else "", task.federated_message)
            whose = (task.federated_caused_by, "" if code is None else f"exit code {code}")
            if (*why, *whose) != (described.reason, described.message, described.caused_by, described.exit_status):
                self._fail(
                    f"{task.key} at party {party.party_id} ended by {why}, {whose}, and its history says {described}"
                )

    def _check_versions(self, party: SimParty, entries: list[HistoryEntry]) -> None:
        """Every version of a task begins once, and both that and its end say whose doing it is."""
        of_tasks = [one for one in entries if one.level is HistoryLevel.TASK]
        begun = Counter((one.job_id, one.task, one.version) for one in of_tasks if one.old == "")
        for key in self.seen(party).tasks:
            count = begun[key.job_id, key.name, key.version]
            if count != 1:
                self._fail(f"history of party {party.party_id}: {key} begins {count} times")
        for one in of_tasks:
            is_announced = one.old == "" or one.new in _TASK_ENDS
            if is_announced and not one.caused_by:
                self._fail(f"history of party {party.party_id}: {one} is nobody's doing")

    def _check_agreement(self, job_id: str, seats: tuple[Party, ...]) -> None:
        found = (self.seen(self._world.parties[one.party_id]).jobs.get(JobKey(job_id, one)) for one in seats)
        rows = [job for job in found if job is not None]
        deciding = next((job for job in rows if job.is_initiator), None)
        if deciding is None:
            if rows:
                self._fail(f"job {job_id} is forgotten by its initiator, not by {rows[0].party}")
            return
        rows = [job for job in rows if not self._refused_the_rerun(deciding, job)]
        for job in rows:
            is_lost = str(job.party) in deciding.unconfirmed or self._world.rules.command_keep < RARE
            if job.revision != deciding.revision and not (is_lost or "fewer cores" in self._world.injected):
                there = f"{job.revision} on {job.party}"
                self._fail(f"job {job_id} has revision {deciding.revision} at its initiator, {there}")
            if job.run != deciding.run:
                self._fail(f"job {job_id} is in run {deciding.run} at its initiator, in run {job.run} on {job.party}")
            if job.status is not deciding.status and str(job.party) not in deciding.unconfirmed:
                self._fail(
                    f"job {job_id} is {deciding.status.value} at its initiator ({deciding.reason}), {job.status.value} "
                    f"({job.reason}) on {job.party}"
                )
            if job.reason is deciding.reason:
                self._check_same_causes(deciding, job)
            self._check_approval(deciding, job)
        if not self._may_fail(deciding) and deciding.status is not JobStatus.SUCCESS:
            self._fail(f"job {job_id} ended as {deciding.status.value} and had no reason to: {deciding.message}")
        self._check_partial(deciding, rows)
        if deciding.unconfirmed and not self._world.injected:
            self._fail(f"job {job_id}: {deciding.unconfirmed} did not confirm, and nothing went wrong")

    def _check_approval(self, deciding: Job, job: Job) -> None:
        """Of a job that ran with an approval its initiator knows by whom it was, and why."""
        if deciding.status is not JobStatus.SUCCESS or job.consent is None or not job.consent.is_given:
            return
        seats = self.seen(self._world.parties[deciding.party.party_id]).seats
        if seats[job.job_id, job.party].approval != job.consent.text:
            self._fail(f"{job.key} was {job.consent.text}, and its initiator knows nothing of that")

    def _check_same_causes(self, deciding: Job, job: Job) -> None:
        """Of a job that ended in the same way everywhere, so has each task the same cause."""
        was_given_up = job.reason is Reason.PARTY_UNREACHABLE and job.caused_by == str(job.party)      # before the job
        same = (job.caused_by, job.exit_code) == (deciding.caused_by, deciding.exit_code)
        if not same and not was_given_up:
            self._fail(
                f"job {job.job_id} ended as {job.reason} by {deciding.caused_by!r}, {deciding.exit_code} at its "
                f"initiator, by {job.caused_by!r}, {job.exit_code} on {job.party}"
            )
        rows = self.seen(self._world.parties[job.party.party_id]).tasks.values()
        own = self.seen(self._world.parties[deciding.party.party_id]).tasks
        newest = self.seen(self._world.parties[job.party.party_id]).newest
        for task in (one for one in rows if one.key.job_id == job.job_id and one.key.party == job.party):
            if job.run and task.key.version < newest[job.job_id, task.key.name, job.party]:
                continue        # of an earlier run, in which both sides may have given each other up
            there = own.get(task.key)
            if there is None or (task.status, task.federated_reason) != (there.status, there.federated_reason):
                continue
            if task.federated_caused_by != there.federated_caused_by:
                self._fail(
                    f"{task.key} ended as {task.federated_reason} by {there.federated_caused_by!r} at its initiator, "
                    f"by {task.federated_caused_by!r} there"
                )

    def _refused_the_rerun(self, deciding: Job, job: Job) -> bool:
        """Who has fewer cores by now may refuse the parameters that come with a rerun: it stays in the run before."""
        is_refused = deciding.reason is Reason.PARTY_REFUSED and "fewer cores" in self._world.injected
        return is_refused and job.run < deciding.run

    def _check_partial(self, deciding: Job, rows: Sequence[Job]) -> None:
        """A success without some parties has a cause, is one of enough parties, and everybody knows of it."""
        missing, job_id = deciding.missing, deciding.job_id
        if not missing:
            return
        self._world.acted["partial"] += 1
        self._world.acted["given up"] += not set(missing).isdisjoint(deciding.unconfirmed)
        fewest = self._world.fewest.get(job_id, 0)
        hosts = [party for party in deciding.parties if party.role == "host" and str(party) not in missing]
        may_miss = fewest and len(hosts) >= fewest and all(one.startswith("host") for one in missing)
        is_completed = any(one["action"] == "complete_task" for one in self._world.policies[job_id])
        if deciding.status is not JobStatus.SUCCESS or not (may_miss or is_completed):
            self._fail(f"job {job_id} ended as {deciding.status.value} without {missing}; {fewest} hosts are enough")
        if not self._world.injected and job_id not in self._world.restless:
            self._fail(f"job {job_id} succeeded without {missing}, and nothing went wrong")
        for job in rows:
            if job.missing != missing and str(job.party) not in deciding.unconfirmed:
                self._fail(f"job {job_id} is without {missing} at its initiator, without {job.missing} on {job.party}")

    def _may_fail(self, job: Job) -> bool:
        """What was lost, late or doubled, a clock that was set and a process that died are no reason for a job, unless
        so much was lost that a party was not heard for as long as that takes."""
        # nobody took it, or a request
        if job.round_number == 0 or job.job_id in self._world.stopped | self._world.restless:
            return True
        if job.reason is Reason.PARTY_REFUSED and job.job_id in self._world.rejected:
            return True
        if job.reason is Reason.PARTY_UNREACHABLE and self._was_silent(job):
            return True
        if job.reason is Reason.JOB_TIMEOUT:
            return 0 < job.timeout_seconds < _SECONDS_THAT_NO_JOB_NEEDS
        if job.reason is Reason.NO_CAPACITY and self._world.returning.get(job.job_id):
            return True              # its rule for a party that it lost limits the wait for cores, too
        is_silence = job.reason in (Reason.PARTY_UNREACHABLE, Reason.INITIATOR_LOST)
        reasons = _REASONS | _DEATHS if is_silence else _REASONS
        if job.reason in BY_POLICY and PolicyEvent.PARTY_UNREACHABLE.value in job.message:
            reasons |= _DEATHS | _LOSSES      # a rule may be less patient than the job would be
        return not reasons.isdisjoint(self._world.injected)

    def _was_silent(self, job: Job) -> bool:
        """A party that had no answer for too long, or could not reach this one for as long: either way counts."""
        own, others = job.party.party_id, [party.party_id for party in job.parties]
        ways = [way for other in others for way in ((own, other), (other, own))]
        return max(self._world.longest_silence(*way) for way in ways) > self._world.rules.party_silence


def _which_worker(entry: HistoryEntry) -> str:
    """Which of the workers of its party task moved; what is said of its end follows that."""
    text = entry.message.partition(": ")[0]
    return text if text.startswith(("worker ", "collects ")) else ""


def _unsettled_rows(party_id: str, seen: Seen) -> str:
    for job in seen.jobs.values():
        if not job.is_final:
            return f"{job.key} is {job.status.value}, waits for {job.wait_reason!r}"
        if job.ready_owner:
            return f"{job.key} is in the middle of a reservation round of {job.ready_owner}"
    for task in seen.tasks.values():
        if task.party_status not in TASK_END or task.status not in TASK_END:
            return f"{task.key} is {task.status.value}, {task.party_status.value} there"
    for seat in seen.seats.values():
        is_own = seat.status is SeatStatus.UNCONFIRMED and seat.party.party_id == party_id      # nobody tells it again
        if seat.status not in _SETTLED_SEATS and not is_own:
            return f"the seat {seat.party} of job {seat.job_id} is {seat.status.value}"
    return ""


def _is_beyond(size: EngineSize, asked: list[Claim]) -> bool:
    cores, memory = sum(one.cores for one in asked), sum(one.memory for one in asked)
    return cores > size.cores or memory > size.memory > 0 or sum(one.gpus for one in asked) > size.gpus
