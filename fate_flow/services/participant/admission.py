"""Whether this party accepts a job, and how much it would reserve for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from fate_flow.core.access.authority import PARTY_0, JobBinding, Said, Statement, objection, party_id_of
from fate_flow.core.access.key_list import KeyState
from fate_flow.core.model.document import JobDocument
from fate_flow.core.model.errors import BadRequest, OperationFailed, PermissionDenied, Refused
from fate_flow.core.model.job import Claim, Command, CommandKind, EnginePart, Task, TaskKey
from fate_flow.core.model.program import ProgramSpec
from fate_flow.core.model.spec import JobSpec, Party, TaskSpec
from fate_flow.core.model.status import TaskStatus
from fate_flow.core.planning.participant.admission import excess
from fate_flow.core.streams.pairs import Pair
from fate_flow.core.text.phrases import counted
from fate_flow.core.wire.v1.job_bodies import Create, incarnations_in, read_create
from fate_flow.jobspec.effective import Effective, effective_at
from fate_flow.jobspec.formats import FORMATS, withheld_from
from fate_flow.services.context.documents import (
    digest_of_received,
    for_rows,
    key_of_received,
    parse_document,
    remember_accepted,
)
from fate_flow.services.context.ports import Context
from fate_flow.services.context.space import check_space_for_party
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.models.lookup import why_id_is_taken, why_models_are_missing, why_name_is_taken
from fate_flow.services.participant.rows import plain_v1_incarnation
from fate_flow.services.workers.allowed import above_ceilings, granted_programs, not_granted, nothing_granted
from fate_flow.services.workers.holding import check_quota_of_held
from fate_flow.services.workers.placement import (
    COMMON_PARAMETERS,
    placement,
    request_at,
    requests_at,
    why_task_not_placed,
)
from fate_flow.services.workers.tables import TablesAtSubmit
from fate_flow.store.contract.party_keys import message_keys
from fate_flow.store.values import Document

_MOST_NAMED = 3          # tasks in a refusal


@dataclass(frozen=True)
class Admitted:
    """A `create` of a job that this party takes part in, and the binding that the job would get, or has."""

    create: Create
    document: Document
    spec: JobSpec
    offered: JobBinding
    bound: JobBinding | None        # what the job id is bound to here


def accept(unit: UnitOfWork, spec: JobSpec, job_id: str = "") -> None:
    """Check that all seats of this party can take part in the job; if one cannot, none does.

    `job_id`: of the job, which may have stored models already.

    Raises Refused, naming all limits that the job exceeds; PermissionDenied, naming what its initiator was not
    granted; OperationFailed for a table that is missing or disabled, a missing column, a stored model that is missing,
    or a program that this party does not run; OperationFailed as in `request`; TooMany for more cores or
    GPUs than all jobs of the initiator may hold."""
    check_granted(unit, spec)
    for seat in own_seats(unit.context, spec):
        _accept(unit, spec, seat, job_id)


def check_granted(unit: UnitOfWork, spec: JobSpec) -> None:
    """Check that the initiator was granted what the job needs at all seats of this party.

    It comes before every other check of what is here, so that a party without a grant learns nothing else about this
    party. Raises PermissionDenied."""
    if why := why_not_granted(unit, spec):
        raise PermissionDenied(why)


def why_not_granted(unit: UnitOfWork, spec: JobSpec) -> str:
    """Return text about what the initiator was not granted at the first seat of this party that is concerned; empty if
    it was granted all."""
    return next(filter(None, (not_granted(unit, spec, seat) for seat in own_seats(unit.context, spec))), "")


def own_seats(context: Context, spec: JobSpec) -> tuple[Party, ...]:
    """Return this party's seats in the job; party 0 is the server of its initiator."""
    own = context.party_id
    here = (own, PARTY_0) if spec.initiator.party_id in (own, PARTY_0) else (own,)
    return tuple(seat for seat in spec.parties if seat.party_id in here)


def _accept(unit: UnitOfWork, spec: JobSpec, party: Party, job_id: str) -> None:
    if why := above_ceilings(unit, spec, party):
        raise Refused(why)
    _check_streams(unit.context, spec, party)
    _check_tables(unit, spec, party)
    if why := why_models_are_missing(unit, spec, party) or why_name_is_taken(unit, spec, party, job_id):
        raise OperationFailed(why)
    _check_programs(unit, spec, party)
    request(unit, spec, party)
    check_quota_of_held(unit, spec)


def _check_streams(context: Context, spec: JobSpec, party: Party) -> None:
    """Raise OperationFailed if this server cannot carry the streams of a task, or open those to another party."""
    for task in spec.tasks_of(party):
        for port in task.ports:
            called = port.called_by(party)
            if not context.carries_streams and (called or port.callers_of(party)):
                text = f"{party} has no gateway, which carries streams (parties.listen.port, there): {task.name}"
                raise OperationFailed(text)
            for other in called:
                if why := context.why_no_stream(other.party_id):
                    raise OperationFailed(Pair(task.name, port.name, party, other).not_reached(why))


def _check_programs(unit: UnitOfWork, spec: JobSpec, party: Party) -> None:
    initiator = spec.initiator.party_id
    for task, program in _programs_of(spec, party):
        objection = unit.context.program_policy.objection(program, initiator, granted_programs(unit, initiator))
        if objection:
            raise OperationFailed(f"{task.name} ({task.module}) is not run at {party}: {objection}")


def request(unit: UnitOfWork, spec: JobSpec, party: Party) -> Claim:
    """Return what the job reserves for this seat, and on which engine if that is not the default by then.

    Raises OperationFailed if this party can never give what all its seats in the job need there, or as `placement`."""
    context, place = unit.context, placement(unit.context, spec, party)
    for task in spec.run_at(party):
        if why := why_task_not_placed(context, spec, task, party):
            raise OperationFailed(why)
    of_seats = {one: requests_at(context, spec, one) for one in own_seats(context, spec)}
    is_own = party_id_of(spec.initiator, context.party_id) == context.party_id
    for engine in of_seats[party]:
        seats = [seat for seat, requests in of_seats.items() if engine in requests]
        found = excess([of_seats[one][engine] for one in seats], context.engines.size_of(engine), party, is_own=is_own)
        if found is not None:
            raise OperationFailed(f"the job {found.message} ({', '.join(_places_of(spec, seats, found.what))})")
    _check_gpus_of_programs(spec, party)
    own, others = request_at(context, spec, party), list(of_seats[party].items())[1:]
    elsewhere = tuple(EnginePart(engine, one.cores, one.memory, one.gpus) for engine, one in others)
    return Claim(own.cores, own.memory, engine=place.engine, gpus=own.gpus, elsewhere=elsewhere)


def _places_of(spec: JobSpec, seats: Iterable[Party], what: str) -> Iterator[str]:
    """Yield the keys that say how much a job asks for: of the job, and of the first tasks that state it themselves."""
    yield spec.paths.of(f"{COMMON_PARAMETERS}.task_{what}")
    stated = (
        task.name for task in spec.tasks.values()
        if any(getattr(task.resources_at(seat), what) is not None for seat in seats)
    )  # fmt: skip
    for name in islice(stated, _MOST_NAMED):
        yield spec.paths.of(f"{COMMON_PARAMETERS}.task_conf.{name}.{what}")
    yield spec.paths.of(f"{COMMON_PARAMETERS}.task_parallelism")


def _check_gpus_of_programs(spec: JobSpec, party: Party) -> None:
    """Check that the workers of each program get the same number of GPUs. Raises OperationFailed."""
    for task, program in _programs_of(spec, party):
        gpus = spec.parameters_of(task, party).task_gpus
        if gpus % program.min_replicas:
            key = "task_gpus" if task.resources_at(party).gpus is None else f"task_conf.{task.name}.gpus"
            place = spec.paths.of(f"{COMMON_PARAMETERS}.{key}")
            raise OperationFailed(
                f"{place}: {counted(gpus, 'GPU')} cannot be shared evenly by the {program.min_replicas} workers of "
                f"{task.name} at {party}; write a multiple of {program.min_replicas}"
            )


def check_early(context: Context, spec: JobSpec) -> None:
    """Read programs that are allowed by their digest, before the transaction in which the job is accepted.

    Errors are ignored here; the use case itself finds them."""
    if not context.program_policy.reads_programs:
        return
    with suppress(Exception):
        for party in own_seats(context, spec):
            for _, program in _programs_of(spec, party):
                context.program_policy.objection(program, spec.initiator.party_id)


@dataclass(frozen=True)
class ReadEarly:
    """What was parsed before the transaction in which jobs are accepted. `specs`: by `key_of_received`; `creates`: by
    the place of the command."""

    specs: Mapping[str, JobSpec]
    creates: Mapping[int, JobSpec]


def read_early(context: Context, commands: Iterable[Command]) -> ReadEarly:
    """Parse the `create`s whose programs have to be read, or whose streams may have to be tried, and do `check_early`
    for the former. Errors are ignored here; the use case itself finds them."""
    specs: dict[str, JobSpec] = {}
    creates: dict[int, JobSpec] = {}
    reads_programs = context.program_policy.reads_programs
    for place, command in enumerate(commands):
        if command.kind is CommandKind.CREATE and (reads_programs or mentions_ports(command.body)):
            with suppress(Exception):
                document = read_create(command.body, FORMATS).document
                digest = digest_of_received(document)
                key = key_of_received(document, digest)
                if key not in specs:
                    specs[key] = context.accepted.get(digest) or parse_document(context, document)
                    check_early(context, specs[key])
                creates[place] = specs[key]
    return ReadEarly(specs, creates)


_DEPTH = 6             # of `ports` in the body of a `create`


def mentions_ports(body: object, depth: int = _DEPTH) -> bool:
    """Return whether a document may have streams: whether one of its upper levels has the key `ports`."""
    if not isinstance(body, Mapping) or depth < 0:
        return False
    return "ports" in body or any(mentions_ports(one, depth - 1) for one in body.values())


def _programs_of(spec: JobSpec, party: Party) -> Iterator[tuple[TaskSpec, ProgramSpec]]:
    """Yield the user's own programs at this seat, each with its task."""
    for task in spec.tasks_of(party):
        program = task.programs.get(party)
        if program is not None:
            yield task, program


def _check_tables(unit: UnitOfWork, spec: JobSpec, party: Party) -> None:
    context = unit.context
    tables = TablesAtSubmit(unit.tx, context.kinds, context.modules, spec, party, own_seats(context, spec))
    problem = next(tables.problems(), "")
    if problem:
        raise OperationFailed(problem)


def effective_here(context: Context, spec: JobSpec, party: Party) -> tuple[Effective, ...]:
    """Return the limits for the workers of this seat that differ from what the job asks for."""
    rules = context.rules
    return effective_at(party, spec, context.ceilings, rules.stop_grace_seconds, rules.longest_stop_seconds)


def admit(unit: UnitOfWork, statement: Statement, command: Command, caller: str) -> Admitted:
    """Return the job in a `create`, if this party takes part in it with all its seats.

    Raises BadDocument or BadRequest if the job is wrong; PermissionDenied if this caller may not create it, or not
    with this content; TooMany if it has too many jobs here; NoSpace; and the errors of `accept`."""
    create = read_create(command.body, FORMATS)
    rows = unit.tx.jobs_here(command.job_id)
    if not rows:
        check_unfinished_jobs(unit, caller, adds_one=statement is CommandKind.CREATE)
    digest = digest_of_received(create.document)
    spec = _parsed(unit, create.document, digest, command.to, caller)
    offered = JobBinding(command.job_id, spec.initiator, frozenset(spec.parties), digest, create.revision)
    said = Said(statement, caller, unit.context.party_id, command.to, offered)
    if why := objection(said, None):
        raise PermissionDenied(why)
    check_granted(unit, spec)
    bound = unit.binding(command.job_id, has_rows=bool(rows))
    if why := objection(said, bound):
        raise PermissionDenied(why)
    if not rows:
        check_space_for_party(unit.context, caller)
    if command.to not in spec.parties:
        raise BadRequest(f"role: {command.to} has no seat in job {command.job_id}")
    check_own_seats(unit.context, create.document, spec)
    check_none_is_revoked(unit, spec)
    check_keys(unit, command.to, spec)
    accept(unit, spec, command.job_id)
    if bound is None and (why := why_id_is_taken(unit, spec, command.job_id)):
        raise PermissionDenied(why)
    if statement is CommandKind.CREATE:
        remember_accepted(unit.context, digest, spec)
    return Admitted(create, for_rows(create.document, spec, create.name, create.description), spec, offered, bound)


def _parsed(unit: UnitOfWork, document: JobDocument, digest: str, seat: Party, caller: str) -> JobSpec:
    """Return what the document says. Raises BadDocument, whose text may name the components that are installed here;
    PermissionDenied instead, if the caller was granted nothing."""
    try:
        return unit.parsed(document, digest)
    except BadRequest as error:
        if why := nothing_granted(unit, caller, seat):
            raise PermissionDenied(why) from error
        raise


def check_unfinished_jobs(unit: UnitOfWork, initiator: str, *, adds_one: bool) -> None:
    """Check that this party may have one more unfinished job here. Raises TooMany.

    `adds_one`: this transaction adds it, and may write; until its end, no other process adds one of this party."""
    if initiator not in (unit.context.party_id, PARTY_0):
        if adds_one:
            unit.tx.lock_jobs_by(initiator)
        unit.context.quotas.check_unfinished_jobs(initiator, unit.tx.open_jobs_by(initiator))


def check_own_seats(context: Context, document: JobDocument, spec: JobSpec) -> None:
    """Check that the document has all parameters of this party's seats. Raises BadRequest.

    The document itself is checked: a digest, by which a specification is remembered, does not say what is withheld."""
    withheld = [seat for seat in own_seats(context, spec) if seat in withheld_from(document)]
    if withheld:
        raise BadRequest(f"disclosure.commitments: parameters of {withheld[0]} are withheld from that party itself")


def check_none_is_revoked(unit: UnitOfWork, spec: JobSpec) -> None:
    """Check that this party revoked none of the others. Raises PermissionDenied.

    The listener and the senders follow a revocation within a second; a job that arrives meanwhile would stay."""
    for party_id in sorted({one.party_id for one in spec.parties} - {unit.context.party_id, PARTY_0}):
        keys = unit.tx.party_keys(party_id)
        if keys is not None and keys.state is KeyState.REVOKED:
            raise PermissionDenied(f"party {party_id} was revoked at party {unit.context.party_id}")


def check_keys(unit: UnitOfWork, party: Party, spec: JobSpec) -> None:
    """Check that this party has the keys of all other parties in the job, because their workers also send requests
    directly to each other. Raises PermissionDenied."""
    others = sorted({one.party_id for one in spec.parties} - {unit.context.party_id, "0"})
    now = unit.context.clock()
    lacking = [one for one in others if unit.context.site.needs_saved_key(one) and not message_keys(unit.tx, one, now)]
    if lacking:
        raise PermissionDenied(f"{party} has no public key of party {', '.join(lacking)} (flow key save, there)")


def first_tasks(unit: UnitOfWork, admitted: Admitted, command: Command) -> list[Task]:
    """Return the tasks of the seat in a `create`, as they begin. Raises BadRequest."""
    spec = admitted.spec
    known = incarnations_in(admitted.create, spec.tasks)
    return [
        Task(
            key=TaskKey(command.job_id, task.name, 0, command.to),
            status=TaskStatus.WAITING,
            party_status=TaskStatus.WAITING,
            runs_here=True,
            incarnation=known.get(task.name) or plain_v1_incarnation(command.job_id, task.name, 0),
            module=task.module,
            auto_retries=task.retry.retries,
            create_time=unit.now,
        )
        for task in spec.tasks_of(command.to)
    ]
