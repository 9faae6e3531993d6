"""The bodies of commands about a job, as the initiator writes them and a participant reads them.

A body of plain v1 has few of these fields; a missing one is None or has its default. Plain v1 servers ignore fields
that they do not know.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fate_flow.core.model.document import FATE_V1, Disclosure, JobDocument, fate_v1_document
from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import check_incarnation, check_version, shown, shown_key
from fate_flow.core.model.job import JobKey
from fate_flow.core.model.spec import CONF_PARTS, Party
from fate_flow.core.model.status import JobStatus
from fate_flow.core.text.phrases import sanitized
from fate_flow.core.wire.v1.endings import JobEnd, job_end_in, read_job_end
from fate_flow.core.wire.v1.extensions import EXTENSIONS, speaks_plain_v1
from fate_flow.core.wire.v1.fields import LONGEST_TEXT, order_in, parties_in, seconds_in, whole_in
from fate_flow.core.wire.v1.queries import CALL_BACK

_LONGEST_NAME = 500


@dataclass(frozen=True)
class Create:
    """The body of `create`; its other fields follow from the document.

    A party that knows the format of the document in `document` takes that, and looks at no other field of the body for
    what the job is. Any other party takes `dsl` and `runtime_conf`: a document in FATE v1 has only these. `disclosure`
    is about the document that the party takes."""

    document: JobDocument                # what the receiver parses, binds and checks
    name: str = ""                       # those of the body, which the job's digest does not cover
    description: str = ""
    incarnations: Mapping[str, str] = field(default_factory=dict)      # of the first tasks, by name
    revision: int = 0                    # how often the parameters were changed
    is_plain_v1: bool = False            # the sender offers no extensions

    def as_body(
        self, job_id: str, initiator: Party, roles: Mapping[str, Any], dsl: Mapping[str, Any],
        runtime_conf: Mapping[str, Any],
    ) -> dict[str, Any]:  # fmt: skip
        """Return the body (party-api-v1, section 2), with our extensions announced.

        `dsl`, `runtime_conf`: the job in FATE v1, for parties that do not know the format of the document."""
        body: dict[str, Any] = {
            "job_id": job_id,
            "name": self.name,
            "description": self.description,
            "dsl": dsl,
            "runtime_conf": runtime_conf,
            "train_runtime_conf": {},
            "roles": roles,
            "initiator_role": initiator.role,
            "initiator_party_id": initiator.party_id,
            "extensions": EXTENSIONS,
            "incarnations": self.incarnations,
            CALL_BACK: True,
        }
        one = self.document
        if one.format != FATE_V1:
            body["document"] = {"format": one.format, "body": one.body, "defaults": one.defaults}
        return {
            **body, **disclosure_body(one.disclosure), **({"revision": self.revision} if self.revision else {}),
        }  # fmt: skip


def read_create(body: Mapping[str, Any], formats: Collection[str]) -> Create:
    """Read the body of `create`; `formats`: the formats of documents that this party knows. Raises BadRequest."""
    document = _document_in(body.get("document"), formats)
    if document is None:
        for key in ("dsl", "runtime_conf"):
            if not isinstance(body.get(key), Mapping):
                raise BadRequest(f"{key}: is missing or is not an object")
        document = fate_v1_document(body["dsl"], body["runtime_conf"])
    document = replace(document, disclosure=disclosure_in(body))
    name, description = sanitized(body.get("name"), _LONGEST_NAME), sanitized(body.get("description"), LONGEST_TEXT)
    given = body.get("incarnations")
    return Create(
        document, name, description, given if isinstance(given, Mapping) else {},
        whole_in(body, "revision") or 0, speaks_plain_v1(body),
    )  # fmt: skip


def _document_in(given: object, formats: Collection[str]) -> JobDocument | None:
    """Return a document of a known format other than FATE v1; None if the body has none. Raises BadRequest."""
    if given is None:
        return None
    if not isinstance(given, Mapping) or not isinstance(given.get("format"), str):
        raise BadRequest("document: is not an object with a format")
    if given["format"] == FATE_V1:
        raise BadRequest(f"document.format: a document of {FATE_V1} is sent as dsl and runtime_conf")
    if given["format"] not in formats:
        return None
    for key in ("body", "defaults"):
        if not isinstance(given.get(key), Mapping):
            raise BadRequest(f"document.{key}: is missing or is not an object")
    return JobDocument(given["format"], given["body"], given["defaults"])


def disclosure_body(disclosure: Disclosure | None) -> dict[str, Any]:
    """Return the field for the private parts of a document; nothing if it has none.

    `whole` is only in commands to the own party."""
    if disclosure is None:
        return {}
    found: dict[str, Any] = {"salts": dict(disclosure.salts), "commitments": dict(disclosure.commitments)}
    return {_DISCLOSURE: {**found, "whole": list(disclosure.whole)} if disclosure.whole else found}


_DISCLOSURE = "disclosure"


def disclosure_in(body: Mapping[str, Any]) -> Disclosure | None:
    """Read the disclosure; whether it fits the document is not checked here. Raises BadRequest."""
    given = body.get(_DISCLOSURE)
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise BadRequest(f"{_DISCLOSURE}: {shown(given)} is not an object")
    found = {}
    for key in ("salts", "commitments"):
        found[key] = given.get(key, {})
        if not isinstance(found[key], Mapping):
            raise BadRequest(f"{_DISCLOSURE}.{key}: {shown(found[key])} is not an object")
    whole = given.get("whole")
    return Disclosure(
        found["salts"], found["commitments"], tuple(map(str, whole)) if isinstance(whole, list) else ()
    )


def incarnations_in(create: Create, names: Collection[str]) -> dict[str, str]:
    """Return the incarnations of these tasks, as far as the body gives them. Raises BadRequest."""
    given = create.incarnations
    return {name: check_incarnation(given[name], f"incarnations.{name}") for name in names if given.get(name)}


@dataclass(frozen=True)
class RoundBody:
    """The body of `dependence/check`, `resource/apply`, `start`, and of `status/waiting` for a job that ran."""

    round_number: int | None = None      # the reservation round; None: the present one
    order: int | None = None             # the job's place in the queue of its initiator
    revision: int = 0                    # how often the parameters were changed
    is_applied_for: bool = False         # of a check: `resource/apply` follows at once, not after the answer
    is_ahead: bool = False               # it is sent with `create`, in one request, or not at all

    def as_body(self) -> dict[str, Any]:
        return {
            "turn": self.round_number,
            **({} if self.order is None else {"order": self.order}),
            **({"revision": self.revision} if self.revision else {}),
            **({_APPLIED_FOR: True} if self.is_applied_for else {}),
            **({_AHEAD: True} if self.is_ahead else {}),
        }


_APPLIED_FOR = "is_applied_for"
_AHEAD = "is_ahead"


def read_round(body: Mapping[str, Any]) -> RoundBody:
    """Raises BadRequest."""
    is_applied_for = body.get(_APPLIED_FOR) is True
    return RoundBody(
        whole_in(body, "turn"), order_in(body), whole_in(body, "revision") or 0, is_applied_for, is_ahead(body)
    )  # fmt: skip


def is_ahead(body: Mapping[str, Any]) -> bool:
    """Return whether the command with this body is sent with the `create` of its job, before that is answered."""
    return body.get(_AHEAD) is True


@dataclass(frozen=True)
class Return:
    """The body of `resource/return`."""

    round_number: int | None = None      # release a reservation of this round or an earlier one; None: any
    still_wants: bool | None = None      # whether the job still waits for capacity; None: not stated

    def as_body(self) -> dict[str, Any]:
        return {"turn": self.round_number, "still_wants": self.still_wants}


def read_return(body: Mapping[str, Any]) -> Return:
    """Raises BadRequest."""
    still_wants = body.get("still_wants")
    return Return(whole_in(body, "turn"), still_wants if isinstance(still_wants, bool) else None)


@dataclass(frozen=True)
class End:
    """The body of `status/<final status>`."""

    end: JobEnd
    is_submit_failed: bool = False       # the job never began: a participant forgets it
    missing: tuple[str, ...] = ()        # the parties without which it succeeded

    def as_body(self) -> dict[str, Any]:
        return {
            **self.end.why(), **self.end.cause(),
            **({"tag": "submit_failed"} if self.is_submit_failed else {}),
            **({"missing": list(self.missing)} if self.missing else {}),
        }  # fmt: skip


def read_end(body: Mapping[str, Any], status: JobStatus, parties: Collection[Party]) -> End:
    """Read the end of a job of these parties."""
    return End(read_job_end(body, status), body.get("tag") == "submit_failed", parties_in(body.get("missing"), parties))


@dataclass(frozen=True)
class Stop:
    """The body of `stop/<final status>`."""

    end: JobEnd
    deadline_seconds: float | None = None    # after it, the initiator goes on without the party

    def as_body(self) -> dict[str, Any]:
        return {**self.end.why(), "deadline_seconds": self.deadline_seconds, **self.end.cause()}


def read_stop(body: Mapping[str, Any], status: JobStatus) -> Stop:
    """Raises BadRequest."""
    return Stop(read_job_end(body, status), seconds_in(body, "deadline_seconds"))


@dataclass(frozen=True)
class NewTask:
    """A version of a task that begins with a run."""

    version: int
    incarnation: str
    auto_retries: int

    def as_body(self) -> dict[str, Any]:
        return {"version": self.version, "incarnation": self.incarnation, "auto_retries": self.auto_retries}


@dataclass(frozen=True)
class LastRun:
    """How the run before ended, for a party that was not told."""

    status: JobStatus
    end: JobEnd


@dataclass(frozen=True)
class NextRun:
    """The body of `status/waiting` that begins a run, or adds tasks to it."""

    tasks: Mapping[str, NewTask]
    kept: Mapping[str, int] | None = None            # versions of tasks whose outputs the party must have kept
    last: LastRun | None = None
    parameters: Mapping[str, Any] | None = None      # the body of `parameter/update`, if they were ever changed

    def as_body(self) -> dict[str, Any]:
        last = {} if self.last is None else {"last": {"status": self.last.status.value, **self.last.end.as_body()}}
        return {
            "tasks": {name: task.as_body() for name, task in self.tasks.items()},
            **({} if self.kept is None else {"kept": dict(self.kept)}),
            **last,
            **({} if self.parameters is None else {"parameters": self.parameters}),
        }


def adds_tasks(body: Mapping[str, Any]) -> bool:
    """Return whether a `status/waiting` names tasks."""
    return bool(body.get("tasks"))


def read_new_tasks(body: Mapping[str, Any], seat: JobKey, names: Collection[str]) -> dict[str, NewTask]:
    """Read the tasks of a run that begins; `names`: those that the seat takes part in. Raises BadRequest."""
    given = body.get("tasks")
    found = {}
    for name, one in given.items() if isinstance(given, Mapping) else ():
        path = f"tasks.{shown_key(name)}"
        if name not in names or not isinstance(one, Mapping):
            raise BadRequest(f"{path}: is not a component of job {seat.job_id} on {seat.party}")
        version = check_version(one.get("version"), f"{path}.version")
        incarnation = check_incarnation(one.get("incarnation"), f"{path}.incarnation")
        found[name] = NewTask(version, incarnation, check_version(one.get("auto_retries"), f"{path}.auto_retries"))
    return found


def read_kept(body: Mapping[str, Any], names: Collection[str]) -> dict[str, int]:
    """Read the versions of those tasks whose outputs the party must have kept. Raises BadRequest."""
    given = body.get("kept")
    versions = given if isinstance(given, Mapping) else {}
    return {name: check_version(versions[name], f"kept.{name}") for name in names if name in versions}


def read_last_run(body: Mapping[str, Any]) -> LastRun:
    """Read how the run before ended; the default is canceled. Raises BadRequest."""
    last = body.get("last")
    given = last if isinstance(last, Mapping) else {"status": JobStatus.CANCELED.value}
    status = job_end_in(str(given.get("status")), "last.status")
    return LastRun(status, read_job_end(given, status))


def parameters_in(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the body of `parameter/update` within that of `status/waiting`; None if there is none."""
    given = body.get("parameters")
    return given if isinstance(given, Mapping) else None


@dataclass(frozen=True)
class Parameters:
    """The body of `parameter/update`."""

    conf: Mapping[str, Any]              # the parts of the runtime conf that can be changed, all of them
    components: tuple[str, ...]          # the components whose own parameters have changed
    revision: int | None = None          # how often the parameters were changed; None: plain v1 does not count
    disclosure: Disclosure | None = None     # of the changed document

    def as_body(self) -> dict[str, Any]:
        own = {"components": list(self.components), "revision": self.revision}
        return {**self.conf, **own, **disclosure_body(self.disclosure)}


def read_parameters(body: Mapping[str, Any]) -> Parameters:
    """Raises BadRequest."""
    revision = whole_in(body, "revision")
    conf = {kind: body.get(kind) for kind in CONF_PARTS}
    for kind, value in conf.items():
        if not isinstance(value, Mapping):
            raise BadRequest(f"{kind}: {shown(value)} is not an object")
    named = body.get("components")
    components = tuple(one for one in named if isinstance(one, str)) if isinstance(named, list) else ()
    return Parameters(conf, components, revision, disclosure_in(body))


def progress_body(percent: int) -> dict[str, Any]:
    """Return the body of `update`."""
    return {"progress": percent}


def progress_in(body: Mapping[str, Any]) -> int | None:
    """Read the progress in the body of `update`, from 0 to 100; None if it is missing. Other fields are ignored."""
    progress = body.get("progress")
    return max(0, min(100, progress)) if isinstance(progress, int) else None


def align_body(seat: JobKey) -> dict[str, Any]:
    """Return the body of `align`, the heartbeat of plain v1, from this seat."""
    return {"job_id": seat.job_id, "role": seat.party.role, "party_id": seat.party.party_id}
