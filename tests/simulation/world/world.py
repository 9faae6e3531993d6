"""N parties in one process: the real use cases and schedulers over a store of choice, fake workers, a faulty network.

Everything random comes from one seed and time is virtual, so a seed replays exactly. After every commit the world
looks at what may never happen (rules/); `stabilize()` ends the faults and demands that everything settles.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import random
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from fate_flow.core.model.approval import Approval, ApprovalRule
from fate_flow.core.model.errors import FlowError
from fate_flow.core.model.job import Command, Job
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus
from fate_flow.jobspec.ceilings import NO_CEILINGS, Ceilings
from fate_flow.jobspec.parameters import Change
from fate_flow.services.context.documents import ParsedJob, parse_document
from fate_flow.services.context.ports import LaunchOrder, Rules
from fate_flow.services.use_cases.use_cases import UseCases
from fate_flow.store.values import Document
from tests.kit.job_documents import parties_of, private_note, upstream_of, with_private_notes
from tests.simulation.policies import acts_without_faults, policies_of
from tests.simulation.rules.invariants import QUIET_SILENCE, Invariants
from tests.simulation.rules.records import check_records
from tests.simulation.world.faults import CALM, Faults
from tests.simulation.world.party import SimParty

START = 1_700_000_000_000
RULES = Rules(
    hold=8_000, ready=15_000, party_silence=20_000, initiator_silence=30_000, drain=10_000, launch=20_000,
    retry_wait=1_000, scheduler_silence=4_000, long_backoff=2_000, queue_ageing=5_000,
)  # fmt: skip
_NOBODY_ASKS = ApprovalRule()
_SUBMIT_TIMEOUT = 10_000
_LOOK = 1_000
_OF_WITNESSES = "fate_flow.services.witnesses"
_COSIGNED_WITHIN = 40       # seconds in which everything is cosigned, once nothing goes wrong
_WITH_NOTES = 5             # one of so many jobs has private notes for its parties


class World:
    """All parties, the network between them, and the clock."""

    def __init__(
        self, seed: int, parties: int = 2, cores: int = 4, faults: Faults = CALM, store: str = "memory",
        rules: Rules = RULES, memory: int = 0, servers: int = 1, cores_at: Mapping[str, int] = MappingProxyType({}),
        ceilings_at: Mapping[str, Ceilings] = MappingProxyType({}), approval: ApprovalRule = _NOBODY_ASKS,
        cores_share: float = 1.0, gpus: int = 0, keeps_record: bool = True,
    ) -> None:  # fmt: skip
        """`keeps_record`: false for what has nothing to do with records, since the hashes take most of the time."""
        self.seed = seed
        self.random = random.Random(seed)
        self.salts = random.Random(seed)                          # does not disturb the other one
        self.faults = faults
        self.rules = rules
        self.ceilings_at = ceilings_at
        self.now = START
        self.steps = 0
        self.transcript: list[str] = []
        self.injected: Counter[str] = Counter()
        self.longest_task = 400                                   # milliseconds
        self.longest_stop = 50                                    # until a worker that is stopped has gone
        self.cuts: set[tuple[str, str]] = set()                   # one-way: nothing gets from one to the other
        self.is_calm = False                                      # the faults have stopped
        self.dead_routes: set[tuple[str, str]] = set()            # who cannot begin an exchange with whom
        self._unheard_since: dict[tuple[str, str], int] = {}      # by who asks and who does not answer
        self.silences: dict[tuple[str, str], int] = {}            # the longest of each
        self.under_way = 0                                        # requests that have not arrived yet
        self.graphs: dict[str, dict[str, list[str]]] = {}         # by job: tasks with the names of those they need
        self.seats: dict[str, tuple[Party, ...]] = {}             # by job: who is in it
        self.submitted: dict[str, int] = {}                       # by job: when
        self.not_allowed: set[str] = set()                        # jobs that ask a party for more than it allows
        self.stopped: set[str] = set()                            # jobs that a user wanted to end
        self.policies: dict[str, list[dict[str, Any]]] = {}       # by job: its rules and those of its tasks
        self.fewest: dict[str, int] = {}                          # by job: how many hosts are enough
        self.returning: dict[str, float] = {}                     # by job: seconds that it waits for a party it lost
        self.restless: set[str] = set()                           # jobs that a rule may end while nothing goes wrong
        self.noted: set[str] = set()                              # jobs with private notes
        self.record_random = random.Random(f"record {seed}")      # of what is only about records
        # whose record was put back, and who holds more of it: the epoch, and how much of it was signed
        self.restored: dict[tuple[str, str], tuple[int, int]] = {}
        self.forgotten: dict[tuple[str, str], tuple[int, int]] = {}      # by acknowledgements
        self.unheard: set[str] = set()                            # parties whose requests about records get lost
        self.forkers: set[str] = set()                            # parties that go on in a past that was put back
        self.strange: set[str] = set()                            # parties that answer anything as witnesses
        self.lies: dict[tuple[str, str], Callable[[Command], Command]] = {}      # by initiator and who is lied to
        self.reruns = 0                                           # requests that were taken
        self.hints: Counter[str] = Counter()                      # that a party has capacity: sent, heeded, declined
        self.requests: Counter[str] = Counter()                   # others that were
        self.sent: Counter[tuple[str, str]] = Counter()           # requests with commands, by sender and receiver
        self.acted: Counter[str] = Counter()                      # what rules of jobs did
        self.rejected: set[str] = set()                           # jobs that some party did not want
        self.approval = approval
        self.keeps_record = keeps_record
        self.cores_share = cores_share                            # of a party, for the jobs of each other one
        self.violation = ""
        self.invariants = Invariants(self)
        self._errors = _Errors()
        self._queue: list[tuple[int, int, Callable[[], object]]] = []
        self._count = itertools.count()
        self.party_ids = [str(9999 + number) for number in range(parties)]
        self.parties: dict[str, SimParty] = {}
        for party_id in self.party_ids:
            self.parties[party_id] = SimParty(
                self, party_id, cores_at.get(party_id, cores), memory, store, servers, gpus
            )

    # ------------------------------------------------------------------ time and chance

    def at(self, when: int, act: Callable[[], object]) -> None:
        heapq.heappush(self._queue, (max(when, self.now), next(self._count), act))

    def later(self) -> int:
        """When something that is sent now arrives."""
        delay = self.random.randint(1, max(1, self.faults.delay))
        return self.now + (delay * 10 if self.faults.delay > 10 and self.chance(0.02) else delay)

    def length_of(self, order: LaunchOrder) -> int:
        """Milliseconds that a worker runs."""
        return self.random.randint(1, self.longest_task)

    def chance(self, probability: float) -> bool:
        return probability > 0 and self.random.random() < probability

    def inject(self, kind: str, text: str) -> None:
        """Count a fault, and tell of it."""
        self.injected[kind] += 1
        self.note(f"{kind}: {text}")

    def asked(self, one: str, other: str) -> None:
        self._unheard_since.setdefault((one, other), self.now)

    def heartbeats(self, one: str, other: str) -> None:
        """`one` has an answer of `other`."""
        self._unheard_since.pop((one, other), None)

    def not_heard(self, one: str, other: str) -> None:
        """`one` has asked in vain."""
        silence = self.now - self._unheard_since.get((one, other), self.now)
        self.silences[one, other] = max(self.silences.get((one, other), 0), silence)

    def longest_silence(self, one: str, other: str) -> int:
        """For how long `one` has had no answer of `other`, now or at any time before."""
        return max(self.silences.get((one, other), 0), self.now - self._unheard_since.get((one, other), self.now))

    def note(self, text: str) -> None:
        self.transcript.append(f"{self.now - START:>8} {text}")

    def run_for(self, seconds: float) -> None:
        end = self.now + int(seconds * 1000)
        while self._queue and self._queue[0][0] <= end:
            self.now, _, act = heapq.heappop(self._queue)
            act()
            self.steps += 1
            if self.violation or self._errors.seen:
                self._raise()
        self.now = end

    # ------------------------------------------------------------------ what users do

    def submit(self, at: str, document: Document) -> str:
        """A submit, given up when it is not decided in time: the job's id, also when it is refused or gets lost."""
        has_notes = len(self.graphs) % _WITH_NOTES == 0
        document = with_private_notes(document) if has_notes else document
        job_id = self._new_job(document)
        if has_notes:
            self.noted.add(job_id)
        self.note(f"submit {job_id} at {at}")
        self._submit(at, job_id, job_id, document)
        if self.chance(self.faults.repeat_request):
            again = self._new_job(document)
            self.inject("submit repeated", f"{job_id} as {again}")
            self.under_way += 1
            self.at(self.now + self.random.randint(1, 3_000), lambda: self._submit_again(at, again, job_id, document))
        return job_id

    def as_sent(self, sender: str, to: str, command: Command) -> Command:
        """Return the command as the sender, which may be a liar, has sent it."""
        lie = self.lies.get((sender, to))
        return command if lie is None else lie(command)

    def check_notes(self, to: str, job_id: str, sent: object) -> None:
        """Check that a party is not sent the private notes of others."""
        text = repr(sent) if job_id in self.noted else ""
        for party_id in self.party_ids:
            if party_id != to and private_note(party_id) in text:
                self.fail(f"party {to} is sent what is only for party {party_id}: {text[:300]}")

    def _submit_again(self, at: str, job_id: str, request_id: str, document: Document) -> None:
        self.under_way -= 1
        self._submit(at, job_id, request_id, document)

    def _new_job(self, document: Document) -> str:
        job_id = f"{20260101000000000000 + len(self.graphs):020d}0"
        self.graphs[job_id], self.seats[job_id] = upstream_of(document), parties_of(document)
        self.submitted[job_id] = self.now
        common = document.runtime_conf["job_parameters"]["common"]
        attempts = common["retry"]["max_attempts"] if "retry" in common else common["auto_retries"] + 1
        if "retry" in common:
            self.returning[job_id] = common["retry"]["duration"]
        allowed = [self.ceilings_at.get(party.party_id, NO_CEILINGS).max_attempts for party in self.seats[job_id]]
        if any(most is not None and attempts > most for most in allowed):
            self.not_allowed.add(job_id)
        self.policies[job_id] = policies_of(document)
        common = document.runtime_conf["job_parameters"]["common"]
        self.fewest[job_id] = common.get("min_available", {}).get("host", 0)
        if acts_without_faults(document):
            self.restless.add(job_id)
        return job_id

    def _submit(self, at: str, job_id: str, request_id: str, document: Document) -> None:
        server = self.parties[at].any_server()
        if server is None:
            return
        submits, now = server.use_cases.submits, self.now

        def take() -> None:
            with suppress(FlowError):
                parsed = ParsedJob(document, parse_document(submits._units.context, document.content))
                known = submits._units.carry_out(lambda unit: submits._take(unit, job_id, parsed, request_id, "", ()))
                server.http.at(now + _SUBMIT_TIMEOUT, lambda: submits._give_up(known))

        server.http.at(now, take)

    def stop(self, at: str, job_id: str) -> None:
        self.note(f"stop {job_id} at {at}")
        self.stopped.add(job_id)
        server = self.parties[at].any_server()

        def act() -> None:
            assert server is not None
            with suppress(FlowError):
                server.use_cases.jobs.stop(job_id)

        if server is not None:
            server.http.at(self.now, act)

    def ask(self, at: str, text: str, request: Callable[[UseCases], object]) -> None:
        """Of the use cases of a party, which may refuse it; where no server is up, nothing happens."""
        server = self.parties[at].any_server()

        def act() -> None:
            assert server is not None
            with suppress(FlowError):
                request(server.use_cases)
                self.note(f"{text} at {at}")
                self.requests[text.split()[0]] += 1

        if server is not None:
            server.http.at(self.now, act)

    def change(self, at: str, job_id: str, change: Change) -> None:
        """Other parameters for a job: a request that is mostly refused. Nobody is asked beforehand."""

        def request(use_cases: UseCases) -> None:
            use_cases.jobs.change_parameters(job_id, change, use_cases.jobs.preview_change(job_id, change).base)

        self.ask(at, f"change {job_id} {change}", request)

    def set_priority(self, at: str, job_id: str, priority: int) -> None:
        self.ask(at, f"priority {priority} for {job_id}", lambda asked: asked.jobs.set_priority(job_id, priority))

    def hold(self, at: str, job_id: str) -> None:
        self.ask(at, f"hold {job_id}", lambda asked: asked.jobs.hold(job_id, "not now", "somebody"))

    def release(self, at: str, job_id: str) -> None:
        self.ask(at, f"release {job_id}", lambda asked: asked.jobs.release(job_id, "somebody"))

    def hold_intake(self, at: str) -> None:
        self.ask(at, "intake-held", lambda asked: asked.queue.hold_intake("maintenance", "somebody"))

    def release_intake(self, at: str) -> None:
        self.ask(at, "intake-released", lambda asked: asked.queue.release_intake("somebody"))

    def approve(self, at: str, job_id: str) -> None:
        self.ask(at, f"approve {job_id}", lambda asked: asked.approvals.approve(job_id, "a contract", "somebody"))

    def reject(self, at: str, job_id: str) -> None:
        self.rejected.add(job_id)
        self.ask(at, f"reject {job_id}", lambda asked: asked.approvals.reject(job_id, "not with us", "somebody"))

    def attend(self) -> None:
        """People come back and let go what waits for them."""
        for party_id, party in self.parties.items():
            if party.is_on_hold:
                self.release_intake(party_id)
            for row in self.invariants.seen(party).jobs.values():
                if row.hold is not None:
                    self.release(party_id, row.job_id)
                if row.consent is not None and row.consent.approval is Approval.PENDING and not row.is_final:
                    self.approve(party_id, row.job_id)

    def rerun(self, at: str, job_id: str, component: str = "", force: bool = False, resumes: bool = False) -> None:
        """A request that is mostly refused: the job is not over, or has nothing left to do."""
        server = self.parties[at].any_server()

        def act() -> None:
            assert server is not None
            with suppress(FlowError):
                if resumes:
                    server.use_cases.jobs.resume(job_id)
                else:
                    server.use_cases.jobs.rerun(job_id, {"component_name": component, "force": force})
                self.note(f"rerun {job_id} at {at}, {component or 'all'}, force {force}, resumed {resumes}")
                self.reruns += 1

        if server is not None:
            server.http.at(self.now, act)

    # ------------------------------------------------------------------ the end of the faults

    def cut(self, one: str, other: str) -> None:
        """Nothing gets from one to the other any more; the other direction stays."""
        self.note(f"cut {one}->{other}")
        self.cuts.add((one, other))

    def kill_route(self, one: str, other: str) -> None:
        """One cannot open a connection to the other any more; what it answers still arrives."""
        if self.is_calm:
            return
        self.inject("dead route", f"{one}->{other}")
        self.dead_routes.add((one, other))

    def calm_down(self) -> None:
        """The faults stop: the network works, who is down comes back, and who has shrunk for good stays so."""
        self.note("the faults stop")
        self.is_calm = True
        self.faults = CALM
        self.cuts.clear()
        self.dead_routes.clear()
        self.longest_task = min(self.longest_task, 400)      # the bound is not for what the jobs themselves take
        self.longest_stop = 50
        for party in self.parties.values():
            party.recover()
            party.engine.request_force_stop()

    def stabilize(self, seconds: float = 300) -> float:
        """The faults stop; the seconds that everything takes to settle, which has a bound."""
        self.calm_down()
        begin = self.now
        if any(party.stays_shrunk for party in self.parties.values()):
            self._until(self.invariants.settled.unsettled_while_shrunk, begin, seconds)
            for party in self.parties.values():
                party.grow_again()
            begin = self.now
        self._until(self.invariants.settled.unsettled, begin, seconds)
        settled = (self.now - begin) / 1000
        self.run_for(self.rules.poll_interval * 2 / 1000)       # what comes late changes nothing
        self.invariants.settled.check_settled()
        if self.keeps_record:
            self.run_for(_COSIGNED_WITHIN)
            check_records(self)
        if self.violation or self._errors.seen:
            self._raise()
        return settled

    def _until(self, left: Callable[[], str], begin: int, seconds: float) -> None:
        """Run until nothing is left that this tells, which has a bound."""
        what = "everything"
        while what:
            if self.now - begin > seconds * 1000:
                self.fail(f"not settled after {seconds:g} s: {what}")
                self._raise()
            self.attend()
            self.run_for(_LOOK / 1000)
            self.check_waiting()
            what = left()

    def check_waiting(self) -> None:
        """Every job that has waited for a while says what for."""
        for party in self.parties.values():
            if not any(server.scheduling.is_up for server in party.servers):
                continue
            for row in self.invariants.seen(party).jobs.values():
                waits = row.is_initiator and row.status is JobStatus.WAITING and not (row.ready_owner or row.hold)
                if waits and not row.wait_reason and self.now - self.submitted[row.job_id] > QUIET_SILENCE:
                    self.fail(f"{row.key} waits and does not say why")

    # ------------------------------------------------------------------ what is seen

    def status(self, job_id: str) -> dict[str, str]:
        return {
            f"{row.party.role} {party_id}": row.status.value
            for party_id, party in self.parties.items()
            for row in self.invariants.seen(party).jobs.values()
            if row.job_id == job_id
        }

    def job(self, at: str, job_id: str) -> Job | None:
        """The row of its initiator at this party, as the last commit has left it."""
        rows = self.invariants.seen(self.parties[at]).jobs.values()
        return next((row for row in rows if row.job_id == job_id and row.is_initiator), None)

    def ends(self) -> Counter[str]:
        """How the jobs ended, as their initiators say; a refused submit leaves nothing."""
        found = Counter(
            row.status.value
            for party in self.parties.values()
            for row in self.invariants.seen(party).jobs.values()
            if row.is_initiator
        )
        found["refused or lost"] = len(self.graphs) - sum(found.values())
        return found

    def fail(self, message: str) -> None:
        """A rule is broken. Kept, not raised: what is being simulated would take it for an error of its own."""
        self.violation = self.violation or message

    def _raise(self) -> None:
        if self.violation:
            raise Violation(self, self.violation)
        first, *rest = self._errors.seen[0].splitlines()
        raise Violation(self, f"an error was logged: {first}" + (f" ... {rest[-1]}" if rest else ""))


class Violation(AssertionError):
    """A rule is broken in this world."""

    def __init__(self, world: World, message: str) -> None:
        self.message = message
        lines = "\n".join(world.transcript[-60:])
        super().__init__(f"seed {world.seed}, step {world.steps}: {message}\n{lines}")


class _Errors(logging.Handler):
    """An error in a log is a broken rule: the use cases decide, they do not stumble."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []
        logger = logging.getLogger("fate_flow")
        logger.handlers[:] = [self]
        logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith(_OF_WITNESSES):
            return               # a witness that names a liar: `rules/records.py` says whether it should
        self.seen.append(self.format(record))
