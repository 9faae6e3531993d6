"""Read a submitted job, pass it to the use cases, and answer the client (client-api-v1, sections 3.1 and 3.3)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fate_flow.api.http.arguments import read_text
from fate_flow.api.http.caller import caller, trace_of_request
from fate_flow.api.http.declared import FREE, NOTHING, TEXT, Arguments, Schema, described
from fate_flow.api.http.services import Ask, Services
from fate_flow.api.v1.envelope import SUCCESS, UNCAUGHT, require
from fate_flow.api.v1.jobs.job_file import read_yaml
from fate_flow.core.model.document import JobDocument
from fate_flow.core.model.errors import BadRequest, Busy, FlowError, NoSpace, OperationFailed, StorageFailed
from fate_flow.core.model.grammar import shown
from fate_flow.core.model.history import HistoryEntry, HistoryLevel
from fate_flow.core.model.job import Answer
from fate_flow.core.model.spec import JobSpec, Party
from fate_flow.core.model.status import SeatStatus
from fate_flow.core.planning.plain_v1 import objection
from fate_flow.core.wire.v1.paths import INTAKE, VALIDATE
from fate_flow.core.wire.v1.plain_v1 import has_no_such_route
from fate_flow.core.wire.v1.queries import intake_query, preview_data, validate_body
from fate_flow.jobspec.fate_v1.job_parameters import REMOVED_KEYS_WARNING
from fate_flow.jobspec.fate_v1.model_name import model_id_of
from fate_flow.jobspec.fate_v2.reader import FATE_V2
from fate_flow.jobspec.fate_v2.submitted import as_submitted
from fate_flow.jobspec.formats import NATIVE, has_private_parts_not_for, parse_or_problems
from fate_flow.jobspec.text.lines import Lines
from fate_flow.services.context.disclosure import as_given_to
from fate_flow.services.context.documents import ParsedJob, completed
from fate_flow.services.context.ports import Context
from fate_flow.services.initiator.submission import create_body
from fate_flow.services.models.choosing import Chosen, with_chosen_models
from fate_flow.services.models.inheriting import with_inheritance
from fate_flow.services.models.predicting import is_prediction, prediction
from fate_flow.services.participant.admission import effective_here
from fate_flow.settings.settings import Settings
from fate_flow.store.values import Document

SUBMIT_FAILED = 103
_REQUEST_ID = re.compile(r"[!-~]{1,100}")


def _both(dsl: str, conf: str) -> Schema:
    """Return a schema for the two documents under these names, without a job file."""
    documents: Arguments = {dsl: FREE, conf: FREE}
    return {"required": [dsl, conf], "properties": {**documents, "job_file": NOTHING}}


_UNKNOWN = "Unknown keys are ignored, and named in data.warnings."
_DSL = described(FREE, f"FATE's DSL, version 2: components, with their modules, inputs and outputs. {_UNKNOWN}")
_CONF = described(FREE, f"FATE's runtime conf: roles, initiator, job_parameters, component_parameters. {_UNKNOWN}")
SUBMISSION: Arguments = {
    "job_dsl": _DSL,
    "job_runtime_conf": _CONF,
    "dsl": described(FREE, "Another name of job_dsl."),
    "runtime_conf": described(FREE, "Another name of job_runtime_conf."),
    "name": described(TEXT, "The first 500 characters are kept."),
    "notes": TEXT,
    "job_file": described(
        TEXT, "A native job file in YAML, instead of the documents; see /v1/schema/job.json. Or a DAG of FATE 2."
    ),
}
SUBMISSION_NEEDS: tuple[Schema, ...] = (
    {
        "required": ["job_file"],
        "properties": {
            "job_file": {"type": "string"},
            **dict.fromkeys(("job_dsl", "job_runtime_conf", "dsl", "runtime_conf"), NOTHING),
        },
    },
    _both("job_dsl", "job_runtime_conf"),
    _both("dsl", "runtime_conf"),
)  # fmt: skip
REQUEST_ID: Arguments = {
    "request_id": {
        "type": "string", "pattern": "^[!-~]{0,100}$", "description": "Identifies a repeated submit.",
    },
}  # fmt: skip
IDEMPOTENCY_KEY: Arguments = {
    "Idempotency-Key": {**REQUEST_ID["request_id"], "description": "Another place for request_id, with precedence."},
}


@dataclass(frozen=True)
class Submitted:
    """A job that every party has accepted."""

    job_id: str
    spec: JobSpec
    warnings: tuple[str, ...] = ()       # besides those of the document

    @property
    def retmsg(self) -> str:
        return REMOVED_KEYS_WARNING if REMOVED_KEYS_WARNING in self.spec.warnings else SUCCESS


class SubmitFailed(OperationFailed):
    """The job was not accepted. Nothing of it is stored, so the answer has no job id."""


@dataclass(frozen=True)
class SentJob:
    """A job as a client sent it, parsed once."""

    job: ParsedJob | None           # None if the document has problems
    problems: Sequence[str]         # each with its path, and with its line in a job file
    lines: Lines = field(default_factory=Lines)


def read_job(body: Mapping[str, Any], context: Context) -> SentJob:
    """Parse the job of a body: a native file, which is read strictly, a DAG of FATE 2, or FATE 1's two documents.

    Raise BadRequest; with a file, its `data.problems` has all problems."""
    text = body.get("job_file")
    if text is None:
        return parse_job(_read_document(body, context), context)
    if not isinstance(text, str):
        raise BadRequest(f"job_file: {shown(text)} is not the text of a file")
    if any(body.get(name) is not None for name in _DOCUMENTS):
        raise BadRequest(f"job_file: contains the whole job; {' and '.join(_DOCUMENTS[:2])} cannot be sent with it")
    reading = read_yaml(text)
    lines = Lines(reading.lines)
    # Only a DAG has `dag` at its top, of which FATE ignores keys that it does not know.
    if isinstance(reading.value, Mapping) and "dag" in reading.value:
        chosen = Chosen(reading.value)
        dag = as_submitted(reading.value, context.party_id, context.modules)
        file = JobDocument(FATE_V2, with_inheritance(context, dag))
    else:
        chosen = with_chosen_models(context, reading.value)
        file = JobDocument(NATIVE, chosen.file)
    spec, problems = _parsed(file, context, strict=file.format == NATIVE)
    if chosen.problems:
        spec, problems = None, [one.message for one in chosen.problems]
    if spec is None:
        wrong = [*map(lines.in_message, problems[:_MOST_PROBLEMS]), *_and_more(len(problems))]
        raise BadRequest(wrong[0], data={"problems": wrong})
    return SentJob(ParsedJob(Document(spec.dsl, spec.stated_conf, {}, own=file), spec, chosen.texts), (), lines)


_MOST_PROBLEMS = 100


def _and_more(count: int) -> list[str]:
    return [f"... and {count - _MOST_PROBLEMS} more"] if count > _MOST_PROBLEMS else []


_DOCUMENTS = ("job_dsl", "job_runtime_conf", "dsl", "runtime_conf")


def parse_job(document: Document, context: Context) -> SentJob:
    """Parse a document that has not been submitted before."""
    spec, problems = _parsed(document.content, context)
    return SentJob(None if spec is None else ParsedJob(document, spec), problems)


def _parsed(
    document: JobDocument, context: Context, *, strict: bool = False
) -> tuple[JobSpec | None, Sequence[str]]:
    return parse_or_problems(document, modules=context.modules, defaults=context.defaults, strict=strict)


def _read_document(body: Mapping[str, Any], context: Context) -> Document:
    """Return the two documents of a job, under the names that the CLI or a server uses; of a job that
    predicts, those of its deployed model. Raise BadRequest."""
    dsl, conf = (_either(body, f"job_{name}", name) for name in ("dsl", "runtime_conf"))
    if isinstance(conf, dict) and is_prediction(conf):
        dsl, conf = prediction(context, conf)
    require({"job_dsl": dsl, "job_runtime_conf": conf}, "job_dsl", "job_runtime_conf")
    for key, value in (("job_dsl", dsl), ("job_runtime_conf", conf)):
        if not isinstance(value, dict):
            raise BadRequest(f"{key}: {shown(value)} is not an object")
    name, notes = read_text(body, "name")[:500], read_text(body, "notes")
    return Document(dsl, conf, {}, name, notes)


def read_request_id(body: Mapping[str, Any], header: str) -> str:
    """Return the id of a repeated submit; the header takes precedence over the body. Raise BadRequest."""
    value = header or read_text(body, "request_id")
    if value and not _REQUEST_ID.fullmatch(value):
        raise BadRequest(f"request_id: {shown(value)} is not 1 to 100 printable characters without spaces")
    return value


def hand_over(
    services: Services, sent: SentJob, request_id: str = "", check: Callable[[JobSpec], None] | None = None
) -> Submitted:
    """Hand a job to the use case, with a new id.

    Raise SubmitFailed; Busy, StorageFailed and NoSpace unchanged, since a later try may succeed."""
    job, job_id = sent.job, services.new_job_id()
    if job is None:
        raise SubmitFailed(sent.problems[0])
    try:
        if check is not None:
            check(job.spec)
        whole = parties_that_get_all(services, job.spec)
        known = services.use_cases.submits.submit(job_id, job, request_id, caller(), whole, trace_of_request())
        return Submitted(known, job.spec, warnings_of_whole(job.document, whole))
    except (Busy, StorageFailed, NoSpace):
        raise
    except FlowError as error:
        raise SubmitFailed(sent.lines.in_message(error.message)) from error


def parties_that_get_all(services: Services, spec: JobSpec) -> frozenset[str] | None:
    """Return the ids of the parties of the job that have to get its whole document; None if it has no other parties.

    Parties of which this is not known are asked first. Raise Busy."""
    others = {party.party_id for party in spec.parties} - {services.context.party_id, "0"}
    if not others:
        return None
    if unknown := services.unaware.unknown(others):
        with services.use_cases.submits.waiting():
            body = intake_query(call_back=False)
            services.unaware.ask(unknown, lambda party_id: services.ask_party(Party("host", party_id), INTAKE, body))
    return services.unaware.among(others)


def warnings_of_whole(document: Document, whole: Collection[str] | None) -> tuple[str, ...]:
    """Return a warning for each party that gets parameters of other parties."""
    return tuple(
        f"party {party_id} gets the parameters of all parties: its server does not offer to be without them"
        for party_id in sorted(whole or ()) if has_private_parts_not_for(document.content, party_id)
    )  # fmt: skip


def ask_parties(
    services: Services, document: Document, spec: JobSpec, plain_v1: Collection[Party] = ()
) -> dict[Party, Answer]:
    """Return the answer that each party would give to this job; this server has already checked its own seats.

    Each party is shown as much of the document as it will get. Nothing is stored. `plain_v1`: parties known to speak
    plain v1, which does not have this query. Raise Busy."""
    context, job_id = services.context, services.new_job_id()
    document = completed(document, spec, job_id)

    def ask(ask_party: Ask, party: Party) -> Answer:
        if party.party_id in (context.party_id, "0"):
            if why := services.use_cases.submits.why_not_opened(spec, party):
                return Answer(SUBMIT_FAILED, why, preview_data())
            effective = [one.as_dict() for one in effective_here(context, spec, party)]
            return Answer(data=preview_data(effective))
        if party in plain_v1:
            return Answer(UNCAUGHT, "it speaks plain v1 and cannot be asked")
        body = create_body(as_given_to(document, party.party_id), spec, job_id, {})
        answer = ask_party(party, VALIDATE, validate_body(body, party))
        text = objection(spec, party, context.modules) if has_no_such_route(answer) else ""
        return Answer(SUBMIT_FAILED, text, preview_data()) if text else answer

    with (
        services.use_cases.submits.waiting(), services.asking("validate") as ask_party,
        ThreadPoolExecutor(_AT_ONCE) as pool,
    ):  # fmt: skip
        return dict(zip(spec.parties, pool.map(partial(ask, ask_party), spec.parties), strict=True))



_AT_ONCE = 16


def submit_data(services: Services, submitted: Submitted) -> dict[str, Any]:
    """Return the `data` of a successful submit."""
    settings, job_id, initiator = services.settings, submitted.job_id, submitted.spec.initiator
    folder = settings.jobs_dir / job_id
    on_party = folder / initiator.role / initiator.party_id / "job_runtime_on_party_conf.json"
    return {
        "job_id": job_id,
        "code": 0,
        "message": SUCCESS,
        "model_info": {"model_id": model_id_of(submitted.spec.roles), "model_version": job_id},
        "logs_directory": settings.log_dir / job_id,
        "board_url": board_url_of(settings, job_id, initiator),
        "dsl_path": folder / "job_dsl.json",
        "runtime_conf_path": folder / "job_runtime_conf.json",
        "runtime_conf_on_party_path": on_party,
        "train_runtime_conf_path": folder / "train_runtime_conf.json",
        "pipeline_dsl_path": folder / "pipeline_dsl.json",
        "warnings": [*submitted.spec.warnings, *submitted.warnings],
        "effective": _effective(services, job_id),
    }


def _effective(services: Services, job_id: str) -> list[dict[str, Any]]:
    try:
        return list(_capped(services.views.history(job_id) or ()))
    except StorageFailed:      # the client must learn that the job is accepted; the history has these values, too
        return []


def _capped(history: Sequence[HistoryEntry]) -> Iterator[dict[str, Any]]:
    """Yield the requested values that parties lower, from the messages with which they accepted the job."""
    joins = ("", SeatStatus.JOINING.value), SeatStatus.JOINED.value
    for one in history:
        if one.level is HistoryLevel.SEAT and one.old in joins[0] and one.new == joins[1] and one.party and one.message:
            yield {"role": one.party.role, "party_id": one.party.party_id, "message": one.message}


def board_url_of(settings: Settings, job_id: str, party: Party) -> str:
    """Return the URL where FATE's clients expect a board: here, a page with the commands that show a job."""
    return f"{settings.url}/board/jobs/{job_id}?role={party.role}&party_id={party.party_id}"


def _either(body: Mapping[str, Any], *names: str) -> Any:
    return next((body[name] for name in names if body.get(name) is not None), None)
