"""One party's server without processes, network or clock: the use cases over the memory store, all else by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from fate_flow.core.model.approval import ApprovalRule
from fate_flow.core.model.job import Answer, Command, EngineState, Job, JobKey, Task, TaskKey
from fate_flow.core.model.resources import LOCAL, EngineSize
from fate_flow.core.model.spec import JobParameters, Party
from fate_flow.core.quotas.queues import QueueRule, Queues
from fate_flow.core.quotas.quota import PartyQuota, Quotas
from fate_flow.jobspec.ceilings import NO_CEILINGS, Ceilings
from fate_flow.services.context.documents import ParsedJob, parse_document
from fate_flow.services.context.ports import Context, Engines, PartyEngine, Rules
from fate_flow.services.context.unit_of_work import UnitOfWork, unit_of_work
from fate_flow.services.initiator.initiator import Coordinator
from fate_flow.services.participant.participant import Participant
from fate_flow.services.workers.watch import WorkerWatch
from fate_flow.store.contract.transaction_retry import Retry
from fate_flow.store.memory.store import MemoryStore
from fate_flow.store.values import Document
from tests.kit.modules import Module
from tests.kit.services.fakes import HandEngine, HandExchange, HandFiles, HandRecord
from tests.kit.values import HOST, JOB_ID, NOW


class HandServer:
    """Its clock stands at `now`, its steady time where the test puts it (else where the store has it); ids count."""

    def __init__(
        self, party_id: str = "9999", cores: int = 8, rules: Rules | None = None, store: Any = None, memory: int = 0,
        ceilings: Ceilings = NO_CEILINGS, approval: ApprovalRule | None = None,
        engines: Mapping[str, int] | None = None, devices: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
        queues: Mapping[str, QueueRule] = MappingProxyType({}),
        engine_parties: Mapping[str, frozenset[str]] = MappingProxyType({}),
        labels: Mapping[str, frozenset[str]] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        """`engines`: the cores of each of its engines, the default first; else it has `local` with `cores`; `devices`:
        the GPUs of an engine by its name, `labels` the words for nodes that it knows."""
        self.now = NOW
        self.steady: int | None = None
        self.exchange, self.files, self.record = HandExchange(), HandFiles(), HandRecord()
        self.devices, self.labels = dict(devices), dict(labels)
        self._sizes = {
            name: EngineSize(1, most, memory, gpus=len(devices.get(name, ())))
            for name, most in (engines or {LOCAL: cores}).items()
        }
        self.engines = {name: HandEngine(name) for name in self._sizes}
        self.engine = next(iter(self.engines.values()))
        self.store = store or MemoryStore()
        self._ids = 0
        self.paused = 0.0        # seconds, before transactions that were begun anew
        self.context = Context(
            party_id=party_id, url="http://127.0.0.1:9380", store=self.store, engines=self._engines(*self._sizes),
            exchange=self.exchange, files=self.files, record=self.record,
            modules={"Work": Module(), "Upload": Module(origin="upload", file_read="file")},
            defaults=JobParameters(task_cores=1), rules=rules or Rules(),
            routes=frozenset({"9999", "10000", "10001"}), clock=lambda: self.now, fresh_id=self._fresh_id,
            retry=Retry(lambda: self.paused, self._pause, lambda: 0.5), ceilings=ceilings,
            approval=approval or ApprovalRule(),
            queues=Queues(party_id, queues, engine_parties),
            # one party may fill it, for tests of queues
            quotas=Quotas(party_id, PartyQuota(cores_share=1.0, gpus_share=1.0)),
        )  # fmt: skip
        with self.store.transaction() as tx:
            for name, size in self._sizes.items():
                state = EngineState(
                    name, size.cores, memory, size.cores, memory, section=f"section of {name}", gpus=size.gpus
                )
                tx.register_engine(state, {}, NOW)

    def _engines(self, *names: str) -> Engines:
        return Engines({
            name: PartyEngine(
                self.engines[name], self._sizes[name], self.devices.get(name, ()), self.labels.get(name, frozenset())
            )
            for name in names
        })

    def configure(self, *names: str) -> None:
        """Its operator restarts it with these engines, the default first."""
        object.__setattr__(self.context, "engines", self._engines(*names))

    def _pause(self, seconds: float) -> None:
        self.paused += seconds

    def _fresh_id(self) -> str:
        self._ids += 1
        return f"{self._ids:032x}"

    @contextmanager
    def unit(self) -> Iterator[UnitOfWork]:
        with unit_of_work(self.context, steady=self.steady) as unit:
            yield unit

    def parsed(self, document: Document) -> ParsedJob:
        """A document as a client's request is read."""
        return ParsedJob(document, parse_document(self.context, document.content))

    def handle(self, command: Command, caller: str = "9999") -> Answer:
        """Carry out a command of another party."""
        with self.unit() as unit:
            return Participant().handle(unit, command, caller)

    # ------------------------------------------------------------------ what is there

    def job(self, party: Party = HOST, job_id: str = JOB_ID) -> Job:
        found = self.job_or_none(party, job_id)
        assert found is not None
        return found

    def job_or_none(self, party: Party = HOST, job_id: str = JOB_ID) -> Job | None:
        with self.store.reading() as tx:
            found: Job | None = tx.job(JobKey(job_id, party))
        return found

    def task(self, name: str = "a", party: Party = HOST, version: int = 0) -> Task:
        with self.store.reading() as tx:
            found = tx.task(TaskKey(JOB_ID, name, version, party))
        assert isinstance(found, Task)
        return found

    def free_cores(self, engine: str = "") -> int:
        """Of the default engine, unless another one is named."""
        with self.store.reading() as tx:
            return int(tx.engine(engine or self.context.engines.default).remaining_cores)

    def outbox(self) -> list[Command]:
        with self.store.reading() as tx:
            return list(tx.commands_after(0))

    def watch(self, name: str = "a", party: Party = HOST) -> None:
        """Look at the worker of a task, as the scheduler does when it has events."""
        with self.unit() as unit:
            WorkerWatch().observe(unit, worker_of(self, name, party))
            self.settle(unit)

    def settle(self, unit: UnitOfWork) -> None:
        """Carry what changed as far as it goes, as the scheduler does."""
        for job_id in tuple(unit.pending.dirty):
            Coordinator(Participant(), "owner").advance(unit, job_id)

    def snapshot(self) -> dict[str, Any]:
        """All that a command may change, to be compared."""
        with self.store.reading() as tx:
            return {
                "jobs": tx.jobs_here(JOB_ID), "tasks": tx.tasks(JOB_ID), "workers": tx.workers_of(JOB_ID),
                "engines": [tx.engine(name) for name in self.engines], "outbox": tx.commands_after(0),
            }


def worker_of(server: HandServer, name: str = "a", party: Party = HOST, version: int = 0) -> str:
    return server.task(name, party, version).worker_id
