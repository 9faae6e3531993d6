"""What an initiator does differently for a party that speaks plain v1, as the servers of FATE Flow 1.x do."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from fate_flow.core.model.artifact import DEFAULT_STAGE
from fate_flow.core.model.job import CommandKind, Seat, Task, TaskKey
from fate_flow.core.model.modules import ExchangesMessages, ModuleInfo
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import JobSpec, Party, TaskSpec
from fate_flow.core.model.status import JobStatus, SeatStatus, TaskStatus
from fate_flow.core.planning.actions import Send
from fate_flow.core.planning.gang import cause_of
from fate_flow.core.planning.view import JobView, plain_v1_parties, send
from fate_flow.core.wire.v1.task_bodies import TaskRow


def objection(spec: JobSpec, party: Party, modules: Mapping[str, ModuleInfo]) -> str:
    """Return why the job cannot run with this party if it speaks plain v1; empty if it can."""
    if staged := [f"{task.name} (stage {task.stage})" for task in spec.tasks_of(party) if task.stage != DEFAULT_STAGE]:
        return f"speaks plain FATE v1, which has no stages: {', '.join(staged)}"
    if stored := [f"{task.name} reads {one}" for task in spec.tasks_of(party) for one in task.models_at(party)]:
        return f"speaks plain FATE v1, which does not have our stored models: {', '.join(stored)}"
    if reading := [task.name for task in spec.tasks_of(party) if task.stored_at(party)]:
        return f"speaks plain FATE v1, where an input is always an output of the job: {', '.join(reading)}"
    named = [f"{task.name} ({task.module})" for task in spec.tasks_of(party) if _needs_messages(task, party, modules)]
    if not named:
        return ""
    return (
        f"speaks plain FATE v1, whose servers carry no messages of {', '.join(named)}: "
        "that needs a server of ours at every party of it"
    )


def not_run_there(spec: JobSpec, party: Party, left_out: Collection[str]) -> str:
    """Return text that names the tasks that the job has at a party and its server does not run; empty if there are
    none.

    `left_out`: the components of which a plain v1 server makes no row, by its answer to `create`. FATE's initiators
    then run the task without the party. Here only the document can leave out a party, because the others may learn more
    of each other without it."""
    named = [f"{task.name} ({task.module})" for task in spec.tasks_of(party) if task.name in left_out]
    if not named:
        return ""
    return (
        f"does not run {', '.join(named)} at role {party.role} (need_run: false in its answer to create): "
        "use components that its server runs there"
    )


def _needs_messages(task: TaskSpec, party: Party, modules: Mapping[str, ModuleInfo]) -> bool:
    module, running = modules.get(task.module), [one for one in task.parties if one not in task.passed_at]
    return isinstance(module, ExchangesMessages) and module.exchanges_messages and party in running and len(running) > 1


def task_row(view: JobView, key: TaskKey, version: int) -> TaskRow:
    """Return the row of a task that a plain v1 server inserts."""
    common = view.spec.common
    return TaskRow(key, version, view.job.initiator, common.federated_mode, common.collect_type)


def canceled_text(view: JobView, lead: Task, first: Task) -> str:
    """Return the message for a task that a plain v1 party canceled by itself; empty for any other task.

    A plain v1 party cancels a task only if a user there stops the job. It reports nothing but the cancel; its request
    to stop the job may come later. `first`: the row that gives the end of the task."""
    theirs = [str(party) for party in plain_v1_parties(view) if str(party) == cause_of(first)]
    if lead.status is not TaskStatus.CANCELED or first.reason is not Reason.STOPPED or lead.policy or not theirs:
        return ""
    return f"{lead.key.name} was canceled on {theirs[0]}, where a user has stopped it"


_HAS_BEGUN = frozenset({SeatStatus.STARTED, SeatStatus.STOPPING, SeatStatus.DRAINING})


def before_end(view: JobView, seat: Seat, final: JobStatus) -> Iterator[Send]:
    """Ask a plain v1 party to keep the model, before it learns the final status, as FATE's initiators do.

    They do not do so for a canceled job."""
    if seat.is_plain_v1 and seat.status in _HAS_BEGUN and final is not JobStatus.CANCELED:
        yield send(view, seat, CommandKind.MODEL)


def after_end(view: JobView, seat: Seat) -> Iterator[Send]:
    if seat.is_plain_v1 and seat.status in _HAS_BEGUN:
        yield send(view, seat, CommandKind.CLEAN, body=view.spec.roles)
