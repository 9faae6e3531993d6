"""A host whose task has several workers, and how each of them is seen to end."""

from __future__ import annotations

from fate_flow.components.providers.command import COMMAND_PROVIDER
from fate_flow.core.model.job import CommandKind, TaskKey, Worker
from fate_flow.core.model.program import ProgramSpec
from fate_flow.services.context.ports import Observation, Rules
from fate_flow.services.workers.watch import WorkerWatch
from tests.kit.modules import Module
from tests.kit.services.hand_server import HandServer
from tests.kit.services.party_commands import task_command
from tests.kit.values import HOST, JOB_ID

START = task_command(CommandKind.TASK_START)


class ProgramPolicy:
    reads_programs = False

    def __init__(self, said: str = "") -> None:
        self.said = said

    def objection(self, command: ProgramSpec, initiator: str, granted: object = None) -> str:
        return self.said


def a_server(program_policy: ProgramPolicy | None = None, party_id: str = "10000") -> HandServer:
    host = HandServer(party_id, rules=Rules())
    for name, value in (
        ("modules", {"Command": Module(COMMAND_PROVIDER), "Work": Module()}),
        ("program_policy", program_policy or ProgramPolicy()),
    ):
        object.__setattr__(host.context, name, value)
    return host


def replicas(host: HandServer, version: int = 0) -> tuple[Worker, ...]:
    with host.store.reading() as tx:
        found: tuple[Worker, ...] = tx.workers_of_task(TaskKey(JOB_ID, "a", version, HOST))
    return tuple(sorted(found, key=lambda one: (one.slot, one.attempt)))


def see(host: HandServer, *sights: Observation | None, slots: tuple[int, ...] = ()) -> None:
    """The newest worker of each slot is seen so, one after the other; None: nothing is looked at."""
    for slot, observation in zip(slots or range(len(sights)), sights, strict=True):
        if observation is not None:
            worker = [one for one in replicas(host) if one.slot == slot][-1]
            host.engine.sights[worker.worker_id] = observation
            with host.unit() as unit:
                WorkerWatch().observe(unit, worker.worker_id)
