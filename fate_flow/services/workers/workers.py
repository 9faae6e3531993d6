"""A party's own share of a task: launching its worker, following it, and saying how it ended.

The party is the finaliser of its party tasks. What a worker did is read from its folder (runner, exit and result
files), never from what somebody claims; the initiator is told by a report, which carries version and incarnation.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from signal import Signals
from typing import Any

from fate_flow.core.access.authority import party_id_of
from fate_flow.core.model.errors import BadRequest, StorageFailed
from fate_flow.core.model.grammar import (
    check_component_name,
    check_incarnation,
    check_job_id,
    check_party_id,
    check_role,
    check_task_id,
    check_version,
)
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import Answer, Command, CommandKind, Job, Report, Task, TaskKey, Worker, WorkerEnd
from fate_flow.core.model.program import MODULE as COMMAND
from fate_flow.core.model.program import ProgramSpec, program_at
from fate_flow.core.model.program_scope import Place, environment, peers
from fate_flow.core.model.reasons import RULES, Author, Reason, may_say, task_status_for
from fate_flow.core.model.spec import READS_BY_NAME, JobSpec, Party, TaskSpec
from fate_flow.core.model.status import TASK_BROKEN, TASK_END, TaskStatus, WorkerStatus
from fate_flow.core.planning.actions import MoveTask
from fate_flow.core.planning.elastic import elastic_slots
from fate_flow.core.planning.replicas import (
    COLLECTOR,
    Collect,
    Dismiss,
    Done,
    Replace,
    ShareFailed,
    beyond_keeping,
    describe,
    newest,
    next_step,
    ranks,
)
from fate_flow.core.text.exit_codes import describe_exit_code, describe_signal
from fate_flow.core.text.os_errors import os_error_text
from fate_flow.core.text.phrases import sanitized
from fate_flow.jobspec.ceilings import stop_allowed
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.ports import InputTable, LaunchOrder, Observation, Program, TaskOutputs
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.workers.allowed import why_not_now
from fate_flow.services.workers.failed_workers import count_here, count_in, said_in_report
from fate_flow.services.workers.tables import parameters_with_table, problem_with_table
from fate_flow.store.contract.transaction import READ, Metric, OutputTable, TableMeta, Transaction

# ---------------------------------------------------------------------- starting


def start_worker(unit: UnitOfWork, job: Job, task: Task, without: tuple[str, ...] = ()) -> Answer:
    """Order the workers of this party task, or pass it over where the job says so; `without`: who is missing."""
    spec = unit.spec(job.job_id)
    if spec is None:
        return Answer(100, f"job {job.job_id} has no document")
    if task.key.party in spec.tasks[task.key.name].passed_at:
        move_party_task(unit, task, TaskStatus.PASS, Reason.NOT_NEEDED)
        return Answer(data=report_of(_again(unit, task)))
    if why := why_not_now(unit, spec, task.key):
        finish_party_task(unit, task, Reason.NOT_ALLOWED, why)
        return Answer(data=report_of(_again(unit, task)))
    _publish_upstream(unit, spec, task.key)
    workers = [_order(unit, task.key, slot, rank) for slot, rank in _fixed(unit, spec, task.key)]
    unit.tx.set_worker(task.key, workers[0].worker_id, without)
    unit.note(Event.EXECUTOR_ASKED, **_place(task.key))
    for worker in workers:
        now = _again(unit, task)
        if now.party_status is not TaskStatus.WAITING:
            break                     # what is missing for one is missing for all: the first has said so
        _launch(unit, worker, now, spec)
    return Answer(data=report_of(_again(unit, task)))


def _fixed(unit: UnitOfWork, spec: JobSpec, key: TaskKey) -> list[tuple[int, int | None]]:
    """Slot and rank of each worker that a party task begins with: those that its reservation is for."""
    command = program_at(spec.tasks[key.name], key.party)
    if command is None:
        return [(0, 0)]
    before = unit.tx.workers_of_task(replace(key, version=key.version - 1)) if key.version else ()
    found = ranks(command, before)
    elastic = elastic_slots(command, found)
    return [(slot, rank) for slot, rank in enumerate(found) if slot not in elastic]


def _order(unit: UnitOfWork, key: TaskKey, slot: int, rank: int | None, attempt: int = 0) -> Worker:
    worker = new_worker(unit, key, slot, rank, attempt)
    unit.tx.add_worker(worker)
    return worker


def new_worker(unit: UnitOfWork, key: TaskKey, slot: int, rank: int | None, attempt: int) -> Worker:
    """One that is to be stored and launched."""
    worker_id = unit.context.fresh_id()
    return Worker(
        worker_id, key, WorkerStatus.CREATED, unit.context.engine.folder_for(key, worker_id), unit.now,
        since=unit.steady, slot=slot, rank=rank, attempt=attempt,
    )  # fmt: skip


def launch_later(unit: UnitOfWork, worker: Worker, task: Task, spec: JobSpec) -> None:
    """One more worker of a share that has begun, which ends when it may not go on here any more."""
    if why := why_not_now(unit, spec, task.key):
        _exit(unit, worker, task, Reason.NOT_ALLOWED, why)
        stop_party_task(unit, _again(unit, task), Reason.NOT_ALLOWED, why)
    else:
        _launch(unit, worker, task, spec)


def _launch(unit: UnitOfWork, worker: Worker, task: Task, spec: JobSpec) -> None:
    """After the commit: open the exchange, write the worker's folder, wake the spawner."""
    order = launch_order(unit, spec, worker, task)
    if isinstance(order, str):
        _fail_launch(unit, worker, task, order)
        return
    context = unit.context
    parties = order.parties

    def launch() -> None:
        try:
            context.exchange.open(task.key, task.incarnation, parties, order.speaks_as)
            context.engine.launch(order)
        except (OSError, StorageFailed) as error:
            text = os_error_text(error) if isinstance(error, OSError) else str(error)
            context.launch_problems[worker.worker_id] = sanitized(text, _LONGEST_MESSAGE)
            raise
        context.launch_problems.pop(worker.worker_id, None)

    unit.after_commit(launch)


def launch_order(unit: UnitOfWork, spec: JobSpec, worker: Worker, task: Task) -> LaunchOrder | str:
    """All that the worker needs, or what is missing for it."""
    key = task.key
    task_spec = spec.tasks[key.name]
    inputs = _inputs(unit.tx, key, task_spec)
    if isinstance(inputs, str):
        return inputs
    is_own = party_id_of(spec.initiator, unit.context.party_id) == unit.context.party_id
    if problem := problem_with_table(unit.tx, task_spec, key.party, is_own):
        return problem
    parameters = spec.parameters[key.party]
    return LaunchOrder(
        worker=worker,
        module=task_spec.module,
        incarnation=task.incarnation,
        parties=tuple((party.role, party.party_id) for party in _running(task_spec, task.without)),
        parameters=parameters_with_table(unit.tx, task_spec, key.party),
        inputs=inputs,
        outputs=tuple(one.alias for one in task_spec.outputs if one.kind == "data"),
        task_cores=parameters.task_cores,
        timeout_seconds=unit.context.ceilings.timeout_of(task_spec.timeout_at(key.party)),
        stop_seconds=stop_seconds(unit, key),
        speaks_as=task.worker_id or worker.worker_id,
        stage=task_spec.stage,
        program=_program(spec, worker, task, parameters.task_cores),
        work_folders=_work_folders(unit.tx, worker),
    )


def _work_folders(tx: Transaction, worker: Worker) -> tuple[str, ...]:
    if worker.slot != COLLECTOR:
        return ()
    ranked = {one.rank: one.folder for one in newest(tx.workers_of_task(worker.task)) if one.rank is not None}
    return tuple(ranked[rank] for rank in sorted(ranked))


def _program(spec: JobSpec, worker: Worker, task: Task, cores: int) -> Program | None:
    """The user's own program with what it is told of its place; None for a built-in component."""
    of_task = spec.tasks[worker.task.name]
    command = program_at(of_task, worker.task.party)
    if command is None or worker.slot == COLLECTOR:
        return None
    own_cores = worker.cores if worker.is_elastic else None
    place = Place(worker.task, task.incarnation, worker.slot, worker.rank, worker.attempt, cores, own_cores)
    known = tuple(peers(of_task, task.without))
    return Program(command, environment(of_task, place), known, spec.initiator.party_id)


def _running(task: TaskSpec, without: tuple[str, ...]) -> tuple[Party, ...]:
    return tuple(party for party in task.parties if party not in task.passed_at and str(party) not in without)


def _inputs(tx: Transaction, key: TaskKey, task: TaskSpec) -> tuple[InputTable, ...] | str:
    found = []
    for one in task.inputs:
        if one.kind != "data":
            continue
        for source in one.sources:
            outputs = {out.data_name: out for out in tx.outputs(key.job_id, source.producer, key.party)}
            made = outputs.get(source.alias)
            table = tx.table(made.namespace, made.name) if made else None
            if table is None:
                return f"input {one.kind}.{one.key}: {source.producer}.{source.alias} has no table at {key.party}"
            found.append(InputTable(one.key, table))
    return tuple(found)


def _fail_launch(unit: UnitOfWork, worker: Worker, task: Task, message: str) -> None:
    _exit(unit, worker, task, Reason.LAUNCH_FAILED, message)
    _go_on(unit, task, Reason.LAUNCH_FAILED, message)


# ---------------------------------------------------------------------- following


class WorkerWatch:
    """Looks at workers and moves their party tasks accordingly."""

    def observe(self, unit: UnitOfWork, worker_id: str) -> None:
        """Look at one worker that has events, or that it is time to look at."""
        worker = unit.tx.worker(worker_id)
        if worker is not None and worker.status is not WorkerStatus.EXITED:
            self._follow(unit, worker)

    def observe_all(self, unit: UnitOfWork) -> None:
        """The safety net: every worker that has not exited."""
        for worker in unit.tx.unfinished_workers():
            with unit.isolated(f"worker {worker.worker_id} of {worker.task}"):
                self._follow(unit, worker)

    def _follow(self, unit: UnitOfWork, worker: Worker) -> None:
        task = unit.tx.task(worker.task)
        if task is None:
            return
        observation = unit.context.engine.observe(worker)
        if observation.state == "created":
            self._await_launch(unit, worker, task)
            return
        if worker.status is WorkerStatus.CREATED and observation.pid:
            worker, task = self._started(unit, worker, task, observation)
        if observation.state in ("exited", "lost"):
            self._ended(unit, worker, task, observation)
        elif _is_to_end(worker, task):
            self._remind(unit, worker)

    def _await_launch(self, unit: UnitOfWork, worker: Worker, task: Task) -> None:
        if _is_to_end(worker, task):
            self._remind(unit, worker)
        if unit.steady - worker.since <= unit.context.rules.launch:
            self._launch_again(unit, worker, task)
            return
        problem = unit.context.launch_problems.pop(worker.worker_id, "")
        text = f"no process came up within {unit.context.rules.launch // 1000} s"
        message = f"{text}: {problem}" if problem else text
        _exit(unit, worker, task, Reason.LAUNCH_FAILED, message)
        self._remind(unit, worker)      # a process that comes up after all must not run beside the next attempt's
        _go_on(unit, task, Reason.LAUNCH_FAILED, message)

    def _launch_again(self, unit: UnitOfWork, worker: Worker, task: Task) -> None:
        """The server may have died between the row and the folder; launching is idempotent by worker id."""
        spec = unit.spec(worker.task.job_id)
        is_overdue = unit.steady - worker.since >= unit.context.rules.poll_interval
        if spec is not None and is_overdue and task.party_status in _BEGINNING and not worker.is_stopping:
            launch_later(unit, worker, task, spec)

    def _started(self, unit: UnitOfWork, worker: Worker, task: Task, observation: Observation) -> tuple[Worker, Task]:
        _move_worker(unit, worker, WorkerStatus.RUNNING, (observation.pid, observation.pid_started))
        unit.note(Event.EXECUTOR_STARTED, outcome="success", **_place(task.key))
        if task.party_status is TaskStatus.WAITING:
            move_party_task(unit, task, TaskStatus.RUNNING)
            task = _again(unit, task)
            tell_initiator(unit, task)
        return unit.tx.worker(worker.worker_id) or worker, task

    def _ended(self, unit: UnitOfWork, worker: Worker, task: Task, observation: Observation) -> None:
        reason, message = how_it_ended(task, observation)
        _exit(unit, worker, task, reason, message, _exit_text(observation))
        unit.context.launch_problems.pop(worker.worker_id, None)
        if task.is_over_here:
            return          # the job did not wait for it: what it made counts no more
        if reason is not Reason.DONE and not _is_to_end(worker, task):
            _note_error(unit, task, f"{reason.value}: {message}")
        _go_on(unit, task, reason, message, None if observation.cause in _CAUSES else observation.exit_code)

    def _remind(self, unit: UnitOfWork, worker: Worker) -> None:
        context, grace = unit.context, stop_seconds(unit, worker.task)
        unit.after_commit(lambda: context.engine.stop(worker, grace))


def _is_to_end(worker: Worker, task: Task) -> bool:
    return worker.is_stopping or task.party_status is TaskStatus.STOPPING


def _go_on(unit: UnitOfWork, task: Task, reason: Reason, message: str, exit_code: int | None = None) -> None:
    """A worker of this party task has ended so: what follows for the share of this party."""
    task = _again(unit, task)
    spec = unit.spec(task.key.job_id)
    command = program_at(spec.tasks[task.key.name], task.key.party) if spec is not None else None
    if spec is not None:
        count_here(unit, spec, task)
    if command is None or spec is None:
        finish_party_task(unit, task, reason, message, exit_code)
    elif task.party_status is TaskStatus.STOPPING:
        if not _living(unit, task):
            finish_party_task(unit, task, task.reason or reason, task.message)
    elif not task.is_over_here:
        _next_step(unit, task, spec, command, message, exit_code)


def _next_step(
    unit: UnitOfWork, task: Task, spec: JobSpec, command: ProgramSpec, message: str, exit_code: int | None
) -> None:
    match next_step(command, unit.tx.workers_of_task(task.key)):
        case ShareFailed(failed_worker, why):
            text = f"{describe(failed_worker, command)}{message}" + (f" ({why})" if why else "")
            stop_party_task(unit, task, failed_worker.reason or Reason.WORKER_KILLED, text, exit_code=exit_code)
        case Replace(failed):
            for worker in failed:
                _replace(unit, task, spec, worker)
            if spec.max_failed_workers is not None:
                tell_initiator(unit, task)
        case Dismiss(spares):
            for worker in spares:
                dismiss(unit, worker, Reason.STOPPED, "all ranks are done without it")
        case Collect():
            launch_later(unit, _order(unit, task.key, COLLECTOR, None), task, spec)
        case Done():
            finish_party_task(unit, task, Reason.DONE, "")


def _replace(unit: UnitOfWork, task: Task, spec: JobSpec, old: Worker) -> None:
    """The slot goes on in another process: at once, or with the next poll when the last one lived for a moment only, so
    that what cannot run does not keep the server busy."""
    new = _order(unit, task.key, old.slot, old.rank, old.attempt + 1)
    forget_old(unit, new)
    if unit.steady - old.since >= A_MOMENT:
        launch_later(unit, new, task, spec)


def forget_old(unit: UnitOfWork, new: Worker) -> None:
    """A slot that goes on in one process after the other fills no disk: what the oldest of them have left goes."""
    engine = unit.context.engine
    for worker in beyond_keeping(unit.tx.workers_of_task(new.task), new):
        unit.after_commit(partial(engine.forget, worker))


A_MOMENT = 1_000       # milliseconds
_BEGINNING = (TaskStatus.WAITING, TaskStatus.RUNNING)


def _living(unit: UnitOfWork, task: Task) -> list[Worker]:
    """The workers of this party task that have been ordered and have not exited."""
    if not task.worker_id:
        return []
    if task.module == COMMAND:
        workers: tuple[Worker | None, ...] = unit.tx.workers_of_task(task.key)
    else:
        workers = (unit.tx.worker(task.worker_id),)
    return [one for one in workers if one is not None and one.status is not WorkerStatus.EXITED]


def how_it_ended(task: Task, observation: Observation) -> tuple[Reason, str]:
    """The reason that follows from what is to be seen. A stop that was ordered beats what came of it."""
    if task.party_status is TaskStatus.STOPPING:
        return task.reason or Reason.STOPPED, task.message
    if observation.state == "lost":
        return Reason.WORKER_KILLED, "the process and its runner are gone and left no exit status"
    if observation.cause in _CAUSES:
        reason, text = _CAUSES[observation.cause]
        # what a process says that we have ended, it says of our signal
        return reason, (observation.message if reason is Reason.LAUNCH_FAILED else "") or text
    if observation.succeeded and observation.exit_code == 0:
        return Reason.DONE, ""
    if observation.message:
        return Reason.WORKER_ERROR, observation.message
    left = "although its result says success" if observation.succeeded else "and left no result"
    if not observation.signal:
        code = describe_exit_code(observation.exit_code) if observation.exit_code is not None else "no exit code"
        return Reason.WORKER_CRASHED, f"the process ended with {code} {left}"
    if observation.signal in _OWN_FAULTS:
        return Reason.WORKER_CRASHED, f"the process crashed with {describe_signal(observation.signal)} {left}"
    return Reason.WORKER_KILLED, f"the process ended with {describe_signal(observation.signal)} {left}"


_OWN_FAULTS = frozenset({
    Signals.SIGSEGV, Signals.SIGABRT, Signals.SIGBUS, Signals.SIGFPE, Signals.SIGILL, Signals.SIGTRAP, Signals.SIGSYS,
})  # fmt: skip
"""What a process brings upon itself: its next attempt does the same. Whoever ends one from outside takes another."""


_CAUSES: Mapping[str, tuple[Reason, str]] = {
    "timeout": (Reason.TASK_TIMEOUT, "ran longer than the task may"),
    "server_lost": (Reason.SERVER_LOST, "its own server was gone for too long"),
    "not_started": (Reason.LAUNCH_FAILED, "the program could not be started"),
    "stopped": (Reason.WORKER_KILLED, "was stopped from outside"),
}


def settle_outputs(unit: UnitOfWork, job_id: str, move: MoveTask) -> None:
    """What this party's shares of a task have made, now that the initiator has said how it ended over all parties:
    published when it succeeded, else dropped. Follows the move of the federated status, so it is done once.

    Until then it is prepared only: it stands in the worker's folder and in files that no row names, so that nobody
    reads what one party has finished and another one has to make anew."""
    for task in _finished_here(unit, job_id, move):
        if move.new is TaskStatus.SUCCESS:
            _publish(unit, task)
        elif move.new in TASK_BROKEN:
            _drop(unit, task)


def _finished_here(unit: UnitOfWork, job_id: str, move: MoveTask) -> list[Task]:
    """This party's shares that succeeded, of a task that ends with this move."""
    if move.new not in TASK_END:
        return []
    keys = [TaskKey(job_id, move.name, move.version, seat.party) for seat in unit.tx.jobs_here(job_id)]
    found = [task for task in map(unit.tx.task, keys) if task is not None and task.runs_here]
    return [task for task in found if task.party_status is TaskStatus.SUCCESS]


def _made_by(unit: UnitOfWork, task: Task) -> TaskOutputs:
    if task.module == COMMAND:
        every = unit.tx.workers_of_task(task.key)
        worker = next((one for one in every if one.slot == COLLECTOR), None)
    else:
        worker = unit.tx.worker(task.worker_id) if task.worker_id else None
    return unit.context.engine.observe(worker).made if worker is not None else TaskOutputs()


def _drop(unit: UnitOfWork, task: Task) -> None:
    """Tables of this attempt; one that was only handed on is somebody else's."""
    context = unit.context
    for _, table in _made_by(unit, task).tables:
        if table.namespace == f"output_{task.key.job_id}" and unit.tx.table(table.namespace, table.name) is None:
            unit.after_commit(partial(context.files.drop_table, table))


def _publish_upstream(unit: UnitOfWork, spec: JobSpec, key: TaskKey) -> None:
    """What this task reads has been made at all parties, else it would not begin: the word of that may come later."""
    upstream = spec.tasks[key.name].producers
    for task in unit.tx.tasks(key.job_id) if upstream else ():
        if task.key.party != key.party or task.key.name not in upstream:
            continue
        if task.party_status is not TaskStatus.SUCCESS or task.status is TaskStatus.SUCCESS:
            continue
        if not task.is_final:
            done = MoveTask(
                task.key.name, task.key.version, task.status, TaskStatus.SUCCESS, Reason.DONE,
                caused_by=str(spec.initiator),
            )  # fmt: skip
            move_federated(unit, key.job_id, done)
        elif all(one.task.version != task.key.version for one in unit.tx.outputs(key.job_id, task.key.name, key.party)):
            _publish(unit, task)        # of an earlier run, which ended before it was told


def _publish(unit: UnitOfWork, task: Task) -> None:
    """Make what the worker wrote known: tables, metrics, summary."""
    made, names = _made_by(unit, task), _aliases(unit, task)
    outputs = []
    for key, table in made.tables:
        saved = _save_table(unit, task, table)
        outputs.append(OutputTable(task.key, names.get(key, key), table.namespace, table.name, saved.job_id))
    unit.tx.save_outputs([*outputs, *_read_by(unit, task)], unit.now)
    unit.tx.save_metrics((Metric(task.key, *metric) for metric in made.metrics), unit.now)
    if made.summary:
        unit.tx.save_summary(task.key, made.summary, unit.now)


def _read_by(unit: UnitOfWork, task: Task) -> list[OutputTable]:
    """What it found by its parameters, for the way of that table; a Reader hands it on, which tells of it."""
    spec = unit.spec(task.key.job_id)
    if spec is None or task.module not in READS_BY_NAME:
        return []
    table = spec.tasks[task.key.name].table_at(task.key.party)
    return [OutputTable(task.key, READ, *table)] if table else []


def _upload_settings(unit: UnitOfWork, task: Task) -> Mapping[str, Any]:
    """Its parameters here."""
    spec = unit.spec(task.key.job_id)
    return spec.tasks[task.key.name].parameters.get(task.key.party, {}) if spec is not None else {}


def _aliases(unit: UnitOfWork, task: Task) -> dict[str, str]:
    """The names that the DSL gives to what a component makes, by the component's own names, in their order."""
    spec = unit.spec(task.key.job_id)
    if spec is None:
        return {}
    aliases = [one.alias for one in spec.tasks[task.key.name].outputs if one.kind == "data"]
    return dict(zip(unit.context.outputs_of(task.module), aliases, strict=False))


WRITTEN, _BOUND = "writer", "table_bind"
_ORIGIN_OF = {"Upload": "upload", "Writer": WRITTEN, "Fetch": _BOUND}
"""Of tables that users name: they are nobody's to clean up."""


def _save_table(unit: UnitOfWork, task: Task, table: TableMeta) -> TableMeta:
    """What is known of it from now on. Who hands on a table that somebody else wrote leaves its record alone."""
    is_named = task.module in _ORIGIN_OF
    known = unit.tx.table(table.namespace, table.name)
    if known is not None and known.uri == table.uri and not is_named:
        return known
    saved = _as_uploaded(unit, task, table) if is_named else table
    unit.tx.save_table(saved, unit.now)
    return saved


def _as_uploaded(unit: UnitOfWork, task: Task, table: TableMeta) -> TableMeta:
    """The table as who asked for it described it."""
    given = _upload_settings(unit, task)
    origin = _BOUND if given.get("is_bound") else _ORIGIN_OF[task.module]
    return replace(
        table, origin=origin, partitions=given.get("partition") or 1,
        id_delimiter=given.get("id_delimiter") or ",",
        have_head=bool(given.get("head", 1)), extend_sid=bool(given.get("extend_sid")),
    )


# ---------------------------------------------------------------------- stopping and ending


def stop_party_task(
    unit: UnitOfWork, task: Task, reason: Reason, message: str = "", deadline_seconds: float | None = None,
    exit_code: int | None = None, caused_by: str = "",
) -> None:  # fmt: skip
    """A party task that has not ended is to end: at once when no worker was ordered, else when it has gone.

    `caused_by`: the party that is the cause of it, when it is not this one itself.
    `deadline_seconds`: who asks waits no longer than this; without it the worker has this party's own grace."""
    if task.is_over_here:
        return
    workers = _living(unit, task)
    if task.party_status is TaskStatus.STOPPING:
        for worker in workers if deadline_seconds == 0 else ():
            _stop_worker(unit, worker, 0)
        return
    if not workers:
        finish_party_task(unit, task, reason, message, exit_code, caused_by)
        return
    unit.note(Event.TASK_STOP_ASKED, **_version(task.key))
    move_party_task(unit, task, TaskStatus.STOPPING, reason, message, task_status_for(reason), exit_code, caused_by)
    text = message or ("" if reason is Reason.STOPPED else reason.value)
    why = WorkerEnd(Reason.STOPPED, text, caused_by or str(task.key.party))
    for worker in workers:
        unit.tx.mark_stopping(worker.worker_id, why)
        _stop_worker(unit, worker, deadline_seconds)
    tell_initiator(unit, _again(unit, task))


def dismiss(unit: UnitOfWork, worker: Worker, reason: Reason, message: str) -> None:
    """A worker is not needed any more while others of its share go on."""
    unit.tx.mark_stopping(worker.worker_id, WorkerEnd(reason, message, str(worker.task.party)))
    _stop_worker(unit, worker)


def _stop_worker(unit: UnitOfWork, worker: Worker, deadline_seconds: float | None = None) -> None:
    context, grace = unit.context, stop_seconds(unit, worker.task)
    if deadline_seconds is not None:
        grace = min(grace, deadline_seconds)
    unit.after_commit(lambda: context.engine.stop(worker, grace))


def stop_seconds(unit: UnitOfWork, key: TaskKey) -> float:
    """From SIGTERM to SIGKILL: what the job asks for, as far as this party allows, else what this party has."""
    rules, spec = unit.context.rules, unit.spec(key.job_id)
    asked = spec.tasks[key.name].stop_seconds if spec is not None and key.name in spec.tasks else None
    return stop_allowed(asked, rules.stop_grace_seconds, rules.longest_stop_seconds)


def finish_party_task(
    unit: UnitOfWork, task: Task, reason: Reason, message: str, exit_code: int | None = None, caused_by: str = ""
) -> None:
    """The final word of this party on its share; told to the initiator."""
    if task.is_over_here:
        return
    if task.party_status is TaskStatus.STOPPING and task.reason is not None:
        # A stop that was ordered beats what came of it.
        reason, message, caused_by = task.reason, task.message, task.caused_by
    end = task_status_for(reason)
    if not move_party_task(unit, task, end, reason, message, exit_code=exit_code, caused_by=caused_by):
        now = _again(unit, task)
        if now.party_status is not task.party_status:     # another process of this server was faster: decide anew
            finish_party_task(unit, now, reason, message, exit_code, caused_by)
            return
    exchange, key, incarnation = unit.context.exchange, task.key, task.incarnation
    unit.after_commit(lambda: exchange.close(key, incarnation))
    tell_initiator(unit, _again(unit, task))


def move_party_task(
    unit: UnitOfWork, task: Task, new: TaskStatus, reason: Reason | None = None, message: str = "",
    target: TaskStatus | None = None, exit_code: int | None = None, caused_by: str = "",
) -> bool:  # fmt: skip
    """Write the party status, with the lines that operators follow it by."""
    caused_by = (caused_by or str(task.key.party)) if reason else ""
    unit.note(Event.TASK_STATUS_ASKED, **_version(task.key))
    done = unit.tx.move_party_task(task, new, unit.now, reason, message, target, exit_code, caused_by)
    if done:
        note_share(unit, task, new, reason, message, caused_by)
    event = Event.TASK_STATUS_WRITTEN if done else Event.TASK_STATUS_UNCHANGED
    unit.note(event, info={"party_status": new.value}, **_version(task.key))
    return done


def move_federated(unit: UnitOfWork, job_id: str, move: MoveTask, is_decided: bool = True) -> None:
    """Write the federated status where it is not this party's to decide, or ends with the job, on record.

    `is_decided`: the initiator says so. What only ends here with the job may have succeeded everywhere, and be kept by
    a rerun: nothing of it is dropped."""
    version = {"job_id": job_id, "task_id": f"{job_id}_{move.name}", "task_version": move.version}
    unit.note(Event.TASK_STATUS_ASKED, **version)
    done = unit.tx.move_task(job_id, move, unit.now)
    if done:
        note_task(unit, job_id, move)
        if is_decided or move.new is TaskStatus.SUCCESS:
            settle_outputs(unit, job_id, move)
    event = Event.TASK_STATUS_WRITTEN if done else Event.TASK_STATUS_UNCHANGED
    unit.note(event, info={"status": move.new.value}, **version)


def note_share(
    unit: UnitOfWork, task: Task, new: TaskStatus, reason: Reason | None, message: str, caused_by: str = ""
) -> None:
    """The share of one party in a task has moved."""
    key = task.key
    unit.moves(
        HistoryLevel.PARTY_TASK, key.job_id, task.party_status, new, party=key.party, task=key.name,
        version=key.version,
        reason=reason, message=message, caused_by=caused_by,
    )  # fmt: skip


def note_task(unit: UnitOfWork, job_id: str, move: MoveTask) -> None:
    """The federated status of a task has moved."""
    unit.moves(
        HistoryLevel.TASK, job_id, move.old, move.new, task=move.name, version=move.version, reason=move.reason,
        message=move.message, caused_by=move.caused_by,
        exit_status=exit_text(move.exit_code),
    )  # fmt: skip


def note_version(
    unit: UnitOfWork, key: TaskKey, caused_by: str, reason: Reason | None = None, message: str = ""
) -> None:
    """A version of a task has come to be at all its parties: why, and whose doing it is."""
    unit.moves(
        HistoryLevel.TASK, key.job_id, None, TaskStatus.WAITING, task=key.name, version=key.version, reason=reason,
        message=message, caused_by=caused_by,
    )  # fmt: skip


def _which(worker: Worker) -> str:
    """Which of several workers; nothing for the first one of its party task."""
    if worker.slot == 0 == worker.attempt:
        return ""
    if worker.slot == COLLECTOR:
        return "collects the outputs"
    without = "elastic" if worker.is_elastic else "spare"
    rank = without if worker.rank is None else f"rank {worker.rank}"
    return f"worker {worker.slot} ({rank}), process {worker.attempt}"


def exit_text(code: int | None) -> str:
    """An exit code as a history has it; empty where there is none."""
    return "" if code is None else f"exit code {code}"


def _exit_text(observation: Observation) -> str:
    if observation.exit_code is not None:
        return exit_text(observation.exit_code)
    return f"signal {observation.signal}" if observation.signal is not None else observation.cause or observation.state


def _exit(unit: UnitOfWork, worker: Worker, task: Task, reason: Reason, message: str, exit_status: str = "") -> None:
    """A worker has exited, by this reason where nobody had told it to stop."""
    given = (worker.reason, worker.message, worker.caused_by) if worker.is_stopping else (None, "", "")
    if given[0] is not None:
        end = WorkerEnd(given[0], given[1], given[2], exit_status)
    else:
        cause = task.caused_by if task.party_status is TaskStatus.STOPPING else ""
        end = WorkerEnd(reason, message, cause or str(task.key.party), exit_status)
    _move_worker(unit, worker, WorkerStatus.EXITED, end=end)


def _move_worker(
    unit: UnitOfWork, worker: Worker, new: WorkerStatus, process: tuple[int, int] = (0, 0), end: WorkerEnd | None = None
) -> None:
    """`process`: its pid, and when that began."""
    if unit.tx.move_worker(worker, new, unit.now, *process, end):
        key, given = worker.task, end.message if end else ""
        unit.moves(
            HistoryLevel.WORKER, key.job_id, worker.status, new, party=key.party, task=key.name, version=key.version,
            reason=end.reason if end else None, message=": ".join(filter(None, (_which(worker), given))),
            caused_by=end.caused_by if end else "", exit_status=end.exit_status if end else "",
        )  # fmt: skip
        if new is WorkerStatus.EXITED and (worker.cores or worker.memory):
            unit.free(unit.context.party_id, key.job_id)


def _note_error(unit: UnitOfWork, task: Task, report: str) -> None:
    key = task.key
    unit.note(
        Event.TASK_ERROR_REPORT, job_id=key.job_id, role=key.party.role, party_id=key.party.party_id,
        task_id=key.task_id, report=report,
    )  # fmt: skip


# ---------------------------------------------------------------------- reports


def tell_initiator(unit: UnitOfWork, task: Task) -> None:
    """Report this party's share to whoever decides; the own server is told by looking at the job."""
    job_id = task.key.job_id
    if unit.tx.job_here(job_id) is not None:
        unit.touch(job_id)
        return
    own = next((job for job in unit.tx.jobs_here(job_id) if job.party == task.key.party), None)
    if own is None:
        return
    unit.touch(job_id)      # a row that ends when it has drained may end now
    key, body = task.key, {**report_of(task, own.is_plain_v1), **said_in_report(unit, task)}
    unit.send(
        Command(
            CommandKind.REPORT, job_id, own.initiator, own.run, key.name, key.version, body["party_status"], body
        )
    )


def report_of(task: Task, is_plain_v1: bool = False) -> dict[str, Any]:
    """The wire form of a report (party-api-v1, section 4); `reason`, `message` and `incarnation` are ours.

    `is_plain_v1`: for an initiator that speaks plain v1, in which what is stopping still runs."""
    key = task.key
    text = {TaskStatus.STOPPING: TaskStatus.RUNNING} if is_plain_v1 else {}
    status, party_status = text.get(task.status, task.status), text.get(task.party_status, task.party_status)
    return {
        "job_id": key.job_id,
        "component_name": key.name,
        "task_id": key.task_id,
        "task_version": key.version,
        "role": key.party.role,
        "party_id": key.party.party_id,
        "status": status.value,
        "party_status": party_status.value,
        "incarnation": task.incarnation,
        "reason": task.reason.value if task.reason else None,
        "message": task.message,
        "error_report": task.message,
        "exit_code": task.exit_code,
        "caused_by": task.caused_by or None,
        "start_time": task.start_time or None,
        "end_time": task.end_time or None,
        "elapsed": task.end_time - task.start_time if task.end_time and task.start_time else None,
    }


def read_report(body: Mapping[str, Any]) -> Report | None:
    """The report in this body, or None when it is none: what a peer sends is not trusted to be well formed."""
    try:
        key = _task_in(body)
        status = TaskStatus(body.get("party_status"))
        incarnation = check_incarnation(body["incarnation"]) if body.get("incarnation") else ""
    except (BadRequest, ValueError):
        return None
    message = sanitized(body.get("message"), _LONGEST_MESSAGE) or sanitized(body.get("error_report"), _LONGEST_MESSAGE)
    start, end = _moment(body.get("start_time")), _moment(body.get("end_time"))
    reason = _reason_in(body, status)
    cause = cause_in(body) or (str(key.party) if reason else "")
    return Report(key, incarnation, status, reason, message, start, end, exit_code_in(body), cause, count_in(body))


def within_its_say(report: Report, parties: Collection[Party]) -> Report:
    """The report without what is not a party's to say: a reason of the initiator's, and somebody else as the cause.

    Another party of the job can be the cause only where the initiator may have said so: where a share was stopped."""
    reason = report.reason
    if reason is not None and not may_say(Author.PARTY, reason):
        reason = PLAIN_V1_REASONS.get(report.status)
    own, named = report.task.party, {str(party): party for party in parties}.get(report.caused_by)
    cause = named if named is not None and reason is not None and _may_name_cause(reason) else own
    return replace(report, reason=reason, caused_by=str(cause) if reason else "")


def _may_name_cause(reason: Reason) -> bool:
    """Whether a share ends by it at somebody else's word, and not by what became of its workers."""
    rule = RULES[reason]
    return may_say(Author.INITIATOR, reason) and rule.retry_event is None and TaskStatus(rule.status) in TASK_BROKEN


def cause_in(body: Mapping[str, Any]) -> str:
    """The party that a body names as the cause (`host 10000`); empty where it names none."""
    value = body.get("caused_by")
    role, _, party_id = value.partition(" ") if isinstance(value, str) else ("", "", "")
    try:
        return str(Party(check_role(role), check_party_id(party_id)))
    except BadRequest:
        return ""


def _task_in(body: Mapping[str, Any]) -> TaskKey:
    """Raises BadRequest."""
    job_id = check_job_id(body.get("job_id"))
    name = body.get("component_name") or check_task_id(body.get("task_id")).removeprefix(f"{job_id}_")
    party = Party(check_role(body.get("role")), check_party_id(body.get("party_id")))
    return TaskKey(job_id, check_component_name(name), check_version(body.get("task_version")), party)


def _reason_in(body: Mapping[str, Any], status: TaskStatus) -> Reason | None:
    """The reason it gives, where the status follows from it; else what the status stands for by itself."""
    try:
        reason = Reason(body.get("reason"))
    except ValueError:
        return PLAIN_V1_REASONS.get(status)
    fits = task_status_for(reason) is status or status is TaskStatus.STOPPING
    return reason if fits else PLAIN_V1_REASONS.get(status)


def exit_code_in(body: Mapping[str, Any]) -> int | None:
    """Of its worker, where the party tells it."""
    code = body.get("exit_code")
    return code if isinstance(code, int) and not isinstance(code, bool) and 0 <= code <= _HIGHEST_EXIT_CODE else None


def _moment(value: object) -> int:
    """Milliseconds since the epoch; 0 for what no column takes."""
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return value if 0 <= value < 2**62 else 0


_LONGEST_MESSAGE = 4_000
_HIGHEST_EXIT_CODE = 255
PLAIN_V1_REASONS = {
    TaskStatus.SUCCESS: Reason.DONE,
    TaskStatus.PASS: Reason.NOT_NEEDED,
    TaskStatus.FAILED: Reason.WORKER_ERROR,
    TaskStatus.CANCELED: Reason.STOPPED,
    TaskStatus.TIMEOUT: Reason.TASK_TIMEOUT,
}
"""What a report of a plain v1 peer, which gives no reason, stands for."""


def _version(key: TaskKey) -> dict[str, object]:
    return {"job_id": key.job_id, "task_id": key.task_id, "task_version": key.version}


def _place(key: TaskKey) -> dict[str, object]:
    return {**_version(key), "role": key.party.role, "party_id": key.party.party_id}


def _again(unit: UnitOfWork, task: Task) -> Task:
    found = unit.tx.task(task.key)
    assert found is not None, "a task row never goes while its job runs"
    return found

