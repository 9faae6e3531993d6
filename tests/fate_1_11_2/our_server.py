"""A server of ours beside the genuine one: use cases, scheduler and public application over the memory store.

Nothing runs by itself: workers are seen as a test says, time goes on when it says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from fate_flow.api.app import create_public_app
from fate_flow.api.http.services import Services
from fate_flow.components.providers.table import CATALOGUE
from fate_flow.core.model.job import Answer, Command, Job, JobKey, Task, TaskKey
from fate_flow.core.model.spec import Party
from fate_flow.services.context.ports import Observation, Rules
from fate_flow.services.scheduling.events import JobChanged, OutboxFilled, QueueChanged, SchedulerEvent, WorkerChanged
from fate_flow.services.scheduling.scheduler import Scheduler
from fate_flow.services.use_cases.use_cases import UseCases
from fate_flow.settings.parties import Route
from fate_flow.settings.settings import Settings
from fate_flow.store.values import TableMeta
from tests.kit.api.routes_compiled_once import with_routes_compiled_once
from tests.kit.services.fakes import HandTransport
from tests.kit.services.hand_server import HandServer
from tests.kit.services.sights import RUNS, made

FATE, OURS = "10000", "9999"
_TABLES = ("t", "nope")      # which the recorded jobs read; of the second the recorded worker found nothing
Ask = Callable[[Party, str, Mapping[str, Any]], Answer]


class OurServer:
    """Party 9999; what it sends waits in `transport`."""

    def __init__(self, rules: Rules | None = None, ask: Ask | None = None) -> None:
        self.hand = HandServer(OURS, cores=20, rules=rules)
        self.hand.context = replace(self.hand.context, modules=CATALOGUE)
        with self.hand.store.transaction() as tx:
            for name in ("t", "nope"):       # what the recorded jobs read; the file of `nope` has gone
                tx.save_table(TableMeta("peer", name, f"standalone:///peer/{name}", 1, {}), 1)
        self.transport, self.seconds = HandTransport(), 50.0
        self.scheduler = Scheduler(self.hand.context, self.transport, "home-1", "home-", lambda: self.seconds)
        assert self.scheduler.is_chosen()
        with self.hand.store.transaction() as tx:
            for name in _TABLES:
                tx.save_table(TableMeta("peer", name, f"standalone:///peer/{name}", 3, {"header": "x", "sid": "id"}), 1)
        self._events: list[SchedulerEvent] = []
        self.use_cases = UseCases(self.hand.context, self._wake, 4, 0.0)
        settings = Settings(party_id=OURS, home=Path("/nowhere"), log_dir=Path("/nowhere"), routes={FATE: Route("http://fate")})
        services = Services(settings, self.hand.context, self.use_cases, cast("Any", None), lambda: "", ask or _nobody)
        self._client = with_routes_compiled_once(lambda: create_public_app(services)).test_client()

    def _wake(self, jobs: Sequence[str], outbox: bool, queue: bool, *_: object) -> None:
        self._events += [JobChanged(job_id) for job_id in jobs]
        self._events += [OutboxFilled()] if outbox else []
        self._events += [QueueChanged()] if queue else []

    def settle(self) -> None:
        """The scheduler takes in what it was told."""
        while self._events:
            events, self._events = self._events, []
            self.scheduler.step(events)

    def hears(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
        """What it answers to a request of another party, below `/v1`."""
        response = self._client.post(f"/v1{path}", json=body, headers=dict(headers))
        assert response.status_code == 200, (path, response.data)
        self.settle()
        found: dict[str, Any] = response.get_json()
        return found

    def after(self, seconds: float) -> None:
        """Time goes on, and the scheduler looks at everything once more."""
        self.seconds += seconds
        self.scheduler.poll()

    def sends(self) -> list[Command]:
        """What it has sent since the last time."""
        return self.transport.take()

    # ------------------------------------------------------------------ workers

    def worker_of(self, key: TaskKey) -> str:
        worker_id = self.task(key).worker_id
        assert worker_id, f"{key} has no worker"
        return worker_id

    def sees(self, key: TaskKey, observation: Observation) -> None:
        """The worker of a task is seen so."""
        worker_id = self.worker_of(key)
        self.hand.engine.sights[worker_id] = observation
        self.scheduler.step([WorkerChanged(worker_id)])

    def runs(self, key: TaskKey) -> None:
        self.sees(key, RUNS)

    def succeeds(self, key: TaskKey) -> None:
        self.sees(key, made("t"))

    # ------------------------------------------------------------------ what is there

    def task(self, key: TaskKey) -> Task:
        with self.hand.store.reading() as tx:
            found: Task | None = tx.task(key)
        assert found is not None, key
        return found

    def job(self, job_id: str, role: str) -> Job:
        with self.hand.store.reading() as tx:
            found: Job | None = tx.job(JobKey(job_id, Party(role, OURS)))
        assert found is not None, job_id
        return found


def _nobody(to: Party, endpoint: str, _: Mapping[str, Any]) -> Answer:
    raise AssertionError(f"{to} is asked at {endpoint}")
