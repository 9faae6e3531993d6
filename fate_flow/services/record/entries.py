"""What becomes an entry of the record: changes of statuses, acts of people, decisions, workers, and messages between
parties."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fate_flow.core.model.history import HistoryEntry
from fate_flow.core.model.job import Answer, Command, CommandKind, TaskKey, Worker
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JOB_END
from fate_flow.core.record.carried import Direction, SeatCount
from fate_flow.core.record.commitment import commitment, number_of
from fate_flow.core.record.entry import OWN_LOG, Kind, NewEntry, log_with, new_entry
from fate_flow.core.record.log import StoredEntry
from fate_flow.core.record.refusal_counts import Refusals
from fate_flow.core.record.request_counts import Requests
from fate_flow.core.record.segment import Segment
from fate_flow.core.streams.counts import PortCount
from fate_flow.core.wire.v1.job_answers import quota_in, why_in
from fate_flow.core.wire.v1.recorded import answer_content, question_content, request_content
from fate_flow.core.wire.v1.retcodes import OF_PERMISSIONS, OF_QUOTAS

FreshSalt = Callable[[], str]
TraceOf = Callable[[str], str]
"""Returns the trace of a job by its id; empty if it has none."""


def of_moves(moves: Iterable[HistoryEntry], fresh_salt: FreshSalt, trace_of: TraceOf) -> Iterator[NewEntry]:
    """Yield the entry of each change that goes into the history of a job. Its text for people is a commitment: the
    text lies beside the entry, and may be erased."""
    for one in moves:
        fields = {
            "level": one.level.value, "party": str(one.party) if one.party else "", "task": one.task,
            "version": one.version or None, "old": one.old, "new": one.new, "reason": one.reason,
            "cause": one.caused_by, "exit": one.exit_status,
        }  # fmt: skip
        trace = trace_of(one.job_id)
        yield _with_text(OWN_LOG, Kind.STATUS, one.at, fields, one.job_id, trace, one.message, fresh_salt)


def ends_job(entry: StoredEntry) -> bool:
    """Return whether the entry says that a job of this party has ended here. It is looked at with each entry that is
    sealed, so its text is not read."""
    content = entry.content
    return entry.kind == Kind.STATUS and b'"level":"job"' in content and any(one in content for one in _FINAL)


_FINAL = tuple(f'"new":"{one.value}"'.encode() for one in JOB_END)


def of_act(
    at: int, what: str, who: str, job_id: str, trace: str, text: str, fresh_salt: FreshSalt
) -> NewEntry:  # fmt: skip
    """Return the entry of what somebody has asked for. `who`: the random id of the person; empty if nobody has to say
    who he is here. `text`: what is not for everybody, such as the name of a table."""
    return _with_text(OWN_LOG, Kind.ACT, at, {"what": what, "who": who}, job_id, trace, text, fresh_salt)


@dataclass(frozen=True)
class Question:
    """What another party was asked while a client waits, and what it has answered. `at`: when, in milliseconds since
    1970; `path`: below `/v1`."""

    at: int
    to: Party
    path: str
    body: Mapping[str, Any]
    answer: Answer


def of_question(
    one: Question, what: str, who: str, job_id: str, trace: str, fresh_salt: FreshSalt
) -> NewEntry:  # fmt: skip
    """Return the entry of a question; `who`: as of an act. The other party does not see it: who asks here, and what it
    has answered, is this party's own affair."""
    salt = fresh_salt()
    fields = {
        "what": what, "who": who, "party": one.to.party_id, "seat": str(one.to), "retcode": one.answer.retcode,
        **_commitments(one, salt),
    }  # fmt: skip
    return new_entry(OWN_LOG, Kind.QUESTION, one.at, fields, job_id=job_id, trace=trace, salt=salt)


@dataclass(frozen=True)
class Replied:
    """What this party has answered another one, `caller`, that has asked for `what`. `path`, `body`: of the question;
    `job_id`: of a job that is here; empty if it is about none."""

    what: str
    caller: str
    path: str
    body: Mapping[str, Any]
    answer: Answer
    job_id: str = ""


def of_reply(one: Replied, at: int, trace: str, fresh_salt: FreshSalt) -> NewEntry:
    """Return the entry of an answer of this party. The other one does not see it, as it does not see its own."""
    salt = fresh_salt()
    fields = {"what": one.what, "party": one.caller, "retcode": one.answer.retcode, **_commitments(one, salt)}
    return new_entry(OWN_LOG, Kind.REPLIED, at, fields, job_id=one.job_id, trace=trace, salt=salt)


def _commitments(one: Question | Replied, salt: str) -> Mapping[str, str]:
    raw = bytes.fromhex(salt)
    return {
        "request": commitment("request", raw, question_content(one.path, one.body)),
        "answer": commitment("answer", raw, answer_content(one.answer)),
    }  # fmt: skip


def of_decision(command: Command, caller: str, answer: Answer, at: int, fresh_salt: FreshSalt) -> NewEntry | None:
    """Return the entry of what this party has decided about a command of another one: whether it takes part in a job,
    and what a quota or a missing permission has refused; None if nothing was to be decided."""
    quota = quota_in(answer.data)
    if quota or answer.retcode in OF_QUOTAS:
        about = "quota"
    elif answer.retcode in OF_PERMISSIONS:
        about = "permission"
    elif command.kind is CommandKind.CREATE:
        about = "admission"
    else:
        return None
    is_accepted = answer.is_ok and not quota
    fields = {
        "about": about, "party": caller, "command": command.kind.value, "quota": quota,
        "outcome": "accepted" if is_accepted else "refused", "retcode": answer.retcode,
    }  # fmt: skip
    why = why_in(answer.data) if quota else "" if answer.is_ok else answer.retmsg
    return _with_text(OWN_LOG, Kind.DECISION, at, fields, command.job_id, command.trace, why, fresh_salt)


def of_refusals(one: Refusals, at: int, fresh_salt: FreshSalt) -> NewEntry:
    """Return the entry of callers that were refused before anything was read as a command. An address is committed to:
    it may be that of a person, and may be guessed by trying."""
    fields = {
        "party": one.party_id, "route": one.route, "cause": one.cause, "retcode": one.retcode or None,
        "count": one.count, "first": one.first, "last": one.last,
    }  # fmt: skip
    return _with_text(OWN_LOG, Kind.REFUSED, at, fields, "", "", one.address, fresh_salt)


def of_requests(one: Requests, at: int, _: FreshSalt) -> NewEntry:
    """Return the entry of requests that have none of their own."""
    fields = {
        "party": one.party_id, "what": one.what, "direction": one.direction.value, "count": one.count,
        "first": one.first, "last": one.last, "answered": None if one.is_answered else False,
    }  # fmt: skip
    return new_entry(OWN_LOG, Kind.REQUESTS, at, fields)


def of_worker(
    worker: Worker, step: str, at: int, said: Mapping[str, Any], trace: str, fresh_salt: FreshSalt
) -> NewEntry:  # fmt: skip
    """Return the entry of a worker that was ordered or has ended. `said`: what it was given, or has made; it is
    committed to, since it names programs and tables."""
    key = worker.task
    fields = {
        "worker": worker.worker_id, "step": step, "party": str(key.party), "task": key.name,
        "version": key.version or None,
    }  # fmt: skip
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return _with_text(OWN_LOG, Kind.WORKER, at, fields, key.job_id, trace, text, fresh_salt)


def of_exchange(
    task: TaskKey, carried: Iterable[SeatCount], at: int, trace: str, fresh_salt: FreshSalt
) -> Iterator[NewEntry]:  # fmt: skip
    """Yield the entries of what an attempt of a task has exchanged with each other seat, in each direction. Topics and
    digests are committed to, since contents may be guessed by trying."""
    for one in carried:
        fields = {
            "party": str(task.party), "task": task.name, "version": task.version or None,
            "direction": one.direction.value, "other": str(one.other), "channels": one.channels,
            "partial": one.partial or None, "messages": one.messages, "bytes": one.size,
        }  # fmt: skip
        listed = ",".join(channel.as_json() for channel in one.listed)
        text = f'{{"all":"{one.digest.hex()}","listed":[{listed}]}}'
        yield _with_text(OWN_LOG, Kind.EXCHANGE, at, fields, task.job_id, trace, text, fresh_salt)


def of_streams(
    task: TaskKey, counts: Iterable[PortCount], at: int, trace: str, fresh_salt: FreshSalt
) -> Iterator[NewEntry]:  # fmt: skip
    """Yield the entries of what the streams of an attempt of a task have carried, by port, other seat and direction."""
    for one in counts:
        for direction, size, each in (
            (Direction.RECEIVED, one.received, one.received_each), (Direction.SENT, one.sent, one.sent_each),
        ):  # fmt: skip
            fields = {
                "party": str(task.party), "task": task.name, "version": task.version or None,
                "direction": direction.value, "other": str(one.other), "port": one.name, "streams": one.streams,
                "partial": one.streams - len(each) or None, "bytes": size,
            }  # fmt: skip
            listed = [{"bytes": count, "sha256": digest} for count, digest in sorted(each)]
            text = json.dumps({"listed": listed}, sort_keys=True, separators=(",", ":"))
            yield _with_text(OWN_LOG, Kind.EXCHANGE, at, fields, task.job_id, trace, text, fresh_salt)


def of_own_keys(at: int, number: int, digest: str) -> NewEntry:
    """Return the entry of this party's own key list. `digest`: SHA-256 of its content, which is public."""
    return new_entry(OWN_LOG, Kind.KEYS, at, {"number": number, "list": digest})


@dataclass(frozen=True)
class OwnServer:
    """A server of this party. `configuration`: the names of its files, each with its SHA-256 in hex, as they were when
    the server was started. `name`: of the server, if there are several, else empty."""

    release: str
    configuration: str
    name: str = ""


class ServerStep(StrEnum):
    STARTED = "started"
    STOPPED = "stopped"
    OFF = "off"                  # it was started while `record.switch` is false, beside a record that is there


def of_server(one: OwnServer, step: ServerStep, at: int, fresh_salt: FreshSalt) -> NewEntry:
    """Return the entry of a server that was started or stopped. The digests of its configuration are committed to:
    whoever knows most of a file may find the rest, such as passwords, by trying."""
    fields = {"step": step.value, "release": one.release, "server": one.name}
    return _with_text(OWN_LOG, Kind.SERVER, at, fields, "", "", one.configuration, fresh_salt)


def of_segment(segment: Segment, root: str, at: int) -> NewEntry:
    """Return the entry of a segment that was moved into a file. `root`: of the tree of its entries, in hex."""
    fields = {
        "of": segment.log, "of_epoch": segment.epoch, "first": segment.first, "end": segment.end, "root": root,
    }  # fmt: skip
    return new_entry(OWN_LOG, Kind.SEGMENT, at, fields)


def _with_text(
    log: str, kind: Kind, at: int, fields: Mapping[str, Any], job_id: str, trace: str, text: str,
    fresh_salt: FreshSalt,
) -> NewEntry:  # fmt: skip
    if not text:
        return new_entry(log, kind, at, fields, job_id=job_id, trace=trace)
    salt = fresh_salt()
    digest = commitment("message", bytes.fromhex(salt), text.encode())
    said = {**fields, "message": digest}
    return new_entry(log, kind, at, said, job_id=job_id, trace=trace, salt=salt, text=text)


def of_sent(command: Command, at: int) -> NewEntry:
    """Return the entry of a command that goes to the outbox with a salt."""
    return new_entry(
        log_with(command.to.party_id), Kind.SENT, at, _about(command, command.salt), job_id=command.job_id,
        trace=command.trace, salt=command.salt,
    )  # fmt: skip


def of_answered(command: Command, answer: Answer, at: int) -> NewEntry:
    """Return the entry of the answer to a command, or of its failure."""
    salt = bytes.fromhex(command.salt)
    fields = {
        "number": number_of(salt), "retcode": answer.retcode, "acknowledged": answer.is_recorded or None,
        "answer": commitment("answer", salt, answer_content(answer)),
    }  # fmt: skip
    return new_entry(
        log_with(command.to.party_id), Kind.ANSWERED, at, fields, job_id=command.job_id, trace=command.trace,
        salt=command.salt,
    )  # fmt: skip


def of_received(command: Command, caller: str, answer: Answer, at: int, fresh_salt: FreshSalt) -> NewEntry:
    """Return the entry of a command of another party, and of the answer to it. A party that keeps no record sends no
    salt: then nobody else knows the number."""
    salt = command.salt or fresh_salt()
    digest = commitment("answer", bytes.fromhex(salt), answer_content(answer))
    fields = {**_about(command, salt), "retcode": answer.retcode, "answer": digest}
    return new_entry(
        log_with(caller), Kind.RECEIVED, at, fields, job_id=command.job_id, trace=command.trace, salt=salt
    )  # fmt: skip


def _about(command: Command, salt: str) -> dict[str, Any]:
    raw = bytes.fromhex(salt)
    return {
        "number": number_of(raw), "command": command.kind.value, "seat": str(command.to), "run": command.run,
        "task": command.task, "version": command.version or None, "argument": command.argument,
        "request": commitment("request", raw, request_content(command)),
    }  # fmt: skip
