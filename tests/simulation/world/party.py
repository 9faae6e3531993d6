"""One party: a store, a machine with workers and a clock, and one or two servers, each of two processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fate_flow.components.providers.command import COMMAND_PROVIDER
from fate_flow.core.model.job import Command, CommandKind, EngineState
from fate_flow.core.model.program import ProgramSpec
from fate_flow.core.model.resources import LOCAL, EngineSize
from fate_flow.core.model.spec import JobParameters
from fate_flow.core.quotas.queues import Placement, QueueRule, Queues
from fate_flow.core.quotas.quota import PartyQuota, Quotas
from fate_flow.jobspec.ceilings import NO_CEILINGS
from fate_flow.peers.send_queue import Jobs
from fate_flow.services.context.pending import CapacityNotice
from fate_flow.services.context.ports import BoundEffect, Context, Engines, PartyEngine
from fate_flow.services.scheduling.events import JobChanged, OutboxFilled, QueueChanged, SchedulerEvent, WorkerChanged
from fate_flow.services.scheduling.scheduler import Scheduler
from fate_flow.services.use_cases.use_cases import UseCases
from tests.kit.modules import Module
from tests.simulation.world.engine import FakeEngine
from tests.simulation.world.faults import Crash
from tests.simulation.world.process import Process
from tests.simulation.world.record import SimRecord
from tests.simulation.world.sender import SimSender
from tests.simulation.world.stores import open_books
from tests.simulation.world.witnesses import SimRecordWork, SimWitnessing

if TYPE_CHECKING:
    from tests.simulation.world.world import World

_MOST_EVENTS = 24
_WRITES_OF_A_TRANSACTION = 12
_MOST_PATIENCE = 5.0
_LONGEST_UPTIME = 1_000_000_000


WITH_GPUS = "big"


class SimParty:
    """What outlives a server: rows, workers, and the clock of the machine."""

    def __init__(
        self, world: World, party_id: str, cores: int, memory: int, store: str, servers: int, gpus: int = 0
    ) -> None:  # fmt: skip
        self.world = world
        self.party_id = party_id
        self.size = self._full_size = EngineSize(1, cores, memory)
        # a second engine, on which jobs with GPUs reserve
        self.with_gpus = EngineSize(1, cores, memory, gpus=gpus) if gpus else None
        self.was_shrunk = self.stays_shrunk = False
        self.skew = world.random.randint(-3_600_000, 3_600_000)      # of its wall clock
        self.books = open_books(store, self._before_write)
        self.store = self.books.store
        self.record = SimRecord()
        self.engine = FakeEngine(self)
        self._writes_left: int | None = None       # until the process that writes dies
        self.servers = [Server(self, number) for number in range(servers)]
        self.register_engine()
        context = self.context(self.servers[0].http, "")
        self.witnessing: Any = SimWitnessing(self, context) if world.keeps_record else None
        for server in self.servers:
            server.start()

    def clock(self) -> int:
        return self.world.now + self.skew

    @property
    def is_on_hold(self) -> bool:
        with self.store.reading() as tx:
            return tx.intake_hold() is not None

    def register_engine(self) -> None:
        """As every server does when it starts; what the configuration says may have changed since."""
        with self.store.transaction() as tx:
            for name, size in self.sizes.items():
                state = EngineState(
                    name, size.cores, size.memory, size.cores, size.memory, gpus=size.gpus, remaining_gpus=size.gpus
                )
                tx.register_engine(state, {}, self.clock())

    @property
    def sizes(self) -> dict[str, EngineSize]:
        """Of each of its engines, the default first."""
        return {LOCAL: self.size, **({} if self.with_gpus is None else {WITH_GPUS: self.with_gpus})}

    @property
    def _queues(self) -> dict[str, QueueRule]:
        """The words by which tasks go to the one engine or to the other."""
        return {"plain": QueueRule(Placement(LOCAL)), "rich": QueueRule(Placement(WITH_GPUS))} if self.with_gpus else {}

    def any_server(self) -> Server | None:
        """One that takes requests, as a balancer before them would choose it."""
        up = [server for server in self.servers if server.http.is_up]
        return self.world.random.choice(up) if len(up) > 1 else next(iter(up), None)

    def worker_changed(self, worker_id: str) -> None:
        """The wake-up of the server whose spawner runs it."""
        self.world.random.choice(self.servers).wake(WorkerChanged(worker_id))

    def power_cut(self) -> None:
        """All servers and all workers of this party are gone at once."""
        self.engine.lose_all()
        for server in self.servers:
            server.end()

    def shrink(self, cores: int) -> None:
        """An operator writes another number into the configuration and restarts the servers."""
        self.was_shrunk = True
        self.resize(replace(self._full_size, cores=cores))

    def resize(self, size: EngineSize) -> None:
        self.size = size
        for server in self.servers:
            server.end()
        self.register_engine()

    def recover(self) -> None:
        """The faults have stopped: everybody is up, and the machine is what it was unless it stays shrunk."""
        if self.size != self._full_size and not self.stays_shrunk:
            self.resize(self._full_size)
        for server in self.servers:
            server.recover()

    def grow_again(self) -> None:
        """The operator gives the cores back."""
        self.stays_shrunk = False
        self.recover()

    # ------------------------------------------------------------------ transactions, and processes that die in them

    def context(self, process: Process, owner: str) -> Context:
        world = self.world
        silent: Any = _Silent()
        return Context(
            party_id=self.party_id, url="http://sim", store=_Watched(self, process, owner),
            engines=Engines({
                name: PartyEngine(self.engine, size, tuple(f"gpu {one}" for one in range(size.gpus)))
                for name, size in self.sizes.items()
            }),
            exchange=silent, files=silent, record=self.record, modules=_MODULES, defaults=JobParameters(task_cores=1),
            rules=world.rules,
            routes=frozenset(world.party_ids), clock=self.clock,
            fresh_id=lambda: f"{world.random.getrandbits(128):032x}", carry_out=_EffectRunner(world, process).take,
            ceilings=world.ceilings_at.get(self.party_id, NO_CEILINGS), program_policy=_Open(), approval=world.approval,
            fresh_salt=lambda: f"{world.salts.getrandbits(256):064x}",
            fresh_trace=lambda: f"{world.salts.getrandbits(128):032x}",
            queues=Queues(self.party_id, self._queues),
            keeps_record=world.keeps_record, quotas=Quotas(self.party_id, PartyQuota(cores_share=world.cores_share)),
        )  # fmt: skip

    @contextmanager
    def transaction(self, owner: str) -> Any:
        """One of a process of ours: it may die at any write, or right after the commit."""
        if self.world.chance(self.world.faults.crash):
            self._writes_left = self.world.random.randint(0, _WRITES_OF_A_TRANSACTION)
        try:
            with self.store.transaction() as tx:
                yield tx
            self.world.invariants.committed(self, owner)
            if self._writes_left is not None:
                raise Crash
        finally:
            self._writes_left = None
            self.record.forget()

    def _before_write(self) -> None:
        if self._writes_left is None:
            return
        if self._writes_left == 0:
            raise Crash
        self._writes_left -= 1


class _Watched:
    """The store as one process sees it."""

    def __init__(self, party: SimParty, process: Process, owner: str) -> None:
        self._party = party
        self._process = process
        self._owner = owner

    def reading(self) -> Any:
        return self._party.store.reading()

    def snapshot(self) -> Any:
        return self._party.store.snapshot()

    def transaction(self) -> Any:
        return self._party.transaction(self._owner)


class _EffectRunner:
    """What follows a commit, a little later and one after the other; a process that dies takes the rest with it."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self._effects: deque[BoundEffect] = deque()

    def take(self, effects: Iterable[BoundEffect]) -> None:
        if not self._effects:
            self._process.at(self._world.now + self._world.random.randint(0, 3), self._carry_out)
        self._effects.extend(effects)

    def _carry_out(self) -> None:
        while self._effects:
            if self._world.chance(self._world.faults.crash):
                self._effects.clear()
                raise Crash
            self._effects.popleft()()


class Server:
    """The use cases and the scheduler of one server, each in a process of its own."""

    def __init__(self, party: SimParty, number: int) -> None:
        self.party = party
        self.name = f"{party.party_id}.{number}"
        self.http = Process(party.world, f"{self.name} http", lambda: self._comes_back(self._start_http))
        self.scheduling = Process(
            party.world, f"{self.name} scheduler", lambda: self._comes_back(self._start_scheduling)
        )

    def start(self) -> None:
        self._start_http()
        self._start_scheduling()

    def end(self) -> None:
        self.http.end()
        self.scheduling.end()

    def recover(self) -> None:
        for process in (self.http, self.scheduling):
            process.go_on()
        self.start()

    def _comes_back(self, start: Callable[[], None]) -> None:
        world = self.party.world
        world.at(world.now + world.random.randint(10, 5_000), start)

    def _start_http(self) -> None:
        if self.http.is_up:
            return
        self.http.begin()
        context = self.party.context(self.http, "")
        self.use_cases = UseCases(context, self._wake, 8, 5.0, reach=self._why_unreached)

    def _why_unreached(self, party_id: str) -> str:
        """A short question, which has an answer at once."""
        way = (self.party.party_id, party_id)
        return "connection refused" if way in self.party.world.dead_routes else ""

    def _wake(
        self, jobs: Sequence[str], outbox: bool, queue: bool, informed_party: str, described: Sequence[CapacityNotice]
    ) -> None:  # fmt: skip
        events: list[SchedulerEvent] = [JobChanged(job_id) for job_id in jobs]
        if outbox:
            events.append(OutboxFilled())
        if queue:
            events.append(QueueChanged(informed_party))
        self.wake(*events, *described)

    def wake(self, *events: SchedulerEvent) -> None:
        """From another process of this server: may get lost."""
        world = self.party.world
        if world.chance(world.faults.lose_wakeup):
            world.inject("ring lost", self.name)
        else:
            self.scheduling.at(world.now + 1, lambda: self.record_heartbeat(*events))

    # ------------------------------------------------------------------ the scheduler process, as scheduling.py runs it

    def _start_scheduling(self) -> None:
        if self.scheduling.is_up:
            return
        self.scheduling.begin()
        world = self.party.world
        owner = f"{self.name}-{self.scheduling.life}"
        context = self.party.context(self.scheduling, owner)
        booted = world.now - world.random.randint(0, _LONGEST_UPTIME)
        self.scheduler = Scheduler(context, self, owner, f"{self.name}-", lambda: (world.now - booted) / 1000)
        self._senders: dict[str, SimSender] = {}
        self._events: deque[SchedulerEvent] = deque()
        self._is_poll_due = self._is_beat_due = False
        self._round_at: int | None = None
        self.scheduling.at(world.now + 1, self._poll_due)
        self.scheduling.at(world.now + 3, self._beat_due)
        self.record_work = SimRecordWork(self, self.scheduling) if world.keeps_record else None

    def _poll_due(self) -> None:
        world = self.party.world
        self._is_poll_due = True
        self.scheduling.at(world.now + world.rules.poll_interval, self._poll_due)
        self._round_soon(world.now)

    def _beat_due(self) -> None:
        world = self.party.world
        self._is_beat_due = True
        self.scheduling.at(world.now + world.rules.heartbeat_interval, self._beat_due)
        self._round_soon(world.now)

    def record_heartbeat(self, *events: SchedulerEvent) -> None:
        self._events.extend(events)
        self._round_soon(self.party.world.now + self.party.world.random.randint(0, 3))

    def _round_soon(self, when: int) -> None:
        if self._round_at is None or when < self._round_at:
            self._round_at = when
            self.scheduling.at(when, self._round)

    def _round(self) -> None:
        if self._round_at is None or self.party.world.now < self._round_at:
            return      # one that was to come later than the round that has been meanwhile
        self._round_at = None
        if self.scheduler.is_chosen():
            self._work()
        else:
            self._events.clear()
            for sender in self._senders.values():
                sender.forget()
            self._is_poll_due = self._is_beat_due = False
        alarm = self.scheduler.seconds_to_alarm()
        if alarm is not None:
            patience = max(1, int(1000 * min(_MOST_PATIENCE, alarm)))
            self._round_soon(self.party.world.now + patience)

    def _work(self) -> None:
        while self._events:
            self.scheduler.step([self._events.popleft() for _ in range(min(len(self._events), _MOST_EVENTS))])
        self.scheduler.fire_alarms()
        if self._is_poll_due:
            self._is_poll_due = False
            self.scheduler.poll()
        if self._is_beat_due:
            self._is_beat_due = False
            self.scheduler.beat()
            for sender in self._senders.values():
                sender.report_silence()

    # ------------------------------------------------------------------ the transport of its scheduler

    def post(self, commands: tuple[Command, ...]) -> None:
        if self.party.world.chance(self.party.world.faults.crash):
            raise Crash      # between the commit and what was to be sent
        hints = [command for command in commands if command.kind is CommandKind.CAPACITY]
        if hints:
            self.party.world.hints["sent"] += len(hints)
            life = f"{self.scheduling.name} {self.scheduling.life}"
            self.party.world.invariants.capacity.sends_capacity_notices(self.party, life, hints)
        for to in dict.fromkeys(command.to.party_id for command in commands):
            self._sender(to).post([command for command in commands if command.to.party_id == to])

    def heartbeat(self, party_id: str, jobs: Jobs) -> None:
        self._sender(party_id).beat(jobs)

    def _sender(self, party_id: str) -> SimSender:
        if party_id not in self._senders:
            self._senders[party_id] = SimSender(self, party_id)
        return self._senders[party_id]


class _Silent:
    """An exchange and files that do nothing."""

    def uncollected_streams(self) -> tuple[()]:
        return ()

    def carried(self, *_: object) -> tuple[()]:
        return ()

    def collected_streams(self, _: object) -> AbstractContextManager[tuple[()]]:
        return nullcontext(())

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **kwargs: None


_MODULES = {"Work": Module(), "Command": Module(COMMAND_PROVIDER)}


class _Open:
    """Lets everything run."""

    reads_programs = False

    def objection(self, command: ProgramSpec, initiator: str, granted: object = None) -> str:
        return ""
