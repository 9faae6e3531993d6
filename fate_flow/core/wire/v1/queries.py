"""Queries between parties: they change nothing and are not commands. Plain v1 has only the last one.

- `intake`: whether the party reserves for new jobs, and on request, whether it reaches the sender.
- `validate`: what the party would answer to a `create`; the body is that of the `create`, with the seat.
- `history`: the moves of a job that the party has recorded.
- `task/log`: a part of the output of a worker; a client's request has the same fields.
- `output/table`: the names of the output tables of a component; the body is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeGuard

from fate_flow.core.model.errors import BadRequest, PeerUnreachable
from fate_flow.core.model.grammar import (
    check_component_name,
    check_job_id,
    check_party_id,
    check_role,
    check_whole,
    shown,
)
from fate_flow.core.model.job import Answer, Command, CommandKind
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import WorkerStatus
from fate_flow.core.text.phrases import sanitized
from fate_flow.core.wire.v1.extensions import EXTENSIONS
from fate_flow.core.wire.v1.heartbeat import WayBack, read_way_back

CALL_BACK = "call_back"
"""The key in the body of `create`, `validate` and `intake` by which the caller asks whether it can be reached."""


def wants_call_back(body: Mapping[str, Any]) -> bool:
    return body.get(CALL_BACK) is True


def intake_query(*, call_back: bool) -> dict[str, Any]:
    return {CALL_BACK: True} if call_back else {}


def intake_data(hold: Mapping[str, Any] | None, problem: str, clock: int) -> dict[str, Any]:
    """Return the data of the answer. `problem`: why this party does not reach the caller; empty if it does. `clock`:
    milliseconds since 1970."""
    way_back = WayBack(0.0, problem).as_body() if problem else None
    return {"hold": hold, "way_back": way_back, "extensions": EXTENSIONS, "clock": clock}


def clock_in(answer: Answer) -> int | None:
    """Return what the clock of the answering party has shown, in milliseconds since 1970; None if it does not say."""
    clock = answer.data.get("clock") if isinstance(answer.data, Mapping) else None
    return clock if isinstance(clock, int) and not isinstance(clock, bool) and 0 <= clock < _END_OF_TIME else None


_END_OF_TIME = 1 << 53       # milliseconds; JSON's numbers are exact up to there


def way_back_in(answer: Answer) -> WayBack | None:
    return read_way_back(answer.data.get("way_back")) if isinstance(answer.data, Mapping) else None


def hold_in(answer: Answer) -> Mapping[str, Any] | None:
    """Return the hold in the answer to `intake`, with its values unchecked; None if there is none."""
    hold = answer.data.get("hold") if answer.is_ok and isinstance(answer.data, Mapping) else None
    return hold if isinstance(hold, Mapping) else None


def validate_body(create: Mapping[str, Any], party: Party) -> dict[str, Any]:
    """Return the body of `validate` for the seat of this party. `create`: the body of the `create` it is about."""
    return {**create, "role": party.role, "party_id": party.party_id}


def read_validate(body: Mapping[str, Any]) -> Command:
    """Return the `create` that the query is about. Raises BadRequest."""
    party = Party(check_role(body.get("role")), check_party_id(body.get("party_id")))
    return Command(CommandKind.CREATE, check_job_id(body.get("job_id")), party, body=body)


def preview_data(effective: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """Return the data of the answer to `validate`. Its key distinguishes it from answers of servers without this query.

    `effective`: the limits of the workers; None if the party would refuse."""
    return {"previewed": True} if effective is None else {"previewed": True, "effective": effective}


def is_preview(answer: Answer) -> bool:
    return isinstance(answer.data, Mapping) and answer.data.get("previewed") is True


def effective_in(data: object) -> list[Mapping[str, Any]]:
    """Return the limits in the answer to `validate` or `create`, unchecked."""
    effective = data.get("effective") if isinstance(data, Mapping) else None
    return [one for one in effective if isinstance(one, Mapping)] if isinstance(effective, list) else []


def history_query(job_id: str) -> dict[str, Any]:
    return {"job_id": job_id}


def read_history_query(body: Mapping[str, Any]) -> str:
    """Return the job id. Raises BadRequest."""
    return check_job_id(body.get("job_id"))


def history_data(moves: list[dict[str, Any]]) -> dict[str, Any]:
    return {"moves": moves}


def moves_in(answer: Answer) -> list[Any] | None:
    """Return the moves in the answer to `history`, unchecked; None if there are none."""
    moves = answer.data.get("moves") if answer.is_ok and isinstance(answer.data, Mapping) else None
    return moves if isinstance(moves, list) else None


STREAMS = ("stdout", "stderr")
USUAL_BYTES, MOST_BYTES = 256 * 1024, 4 * 1024 * 1024
INCOMPLETE = 3
"""The most bytes of a character that is not complete: it belongs to the next piece."""
NEXT_OFFSET = "next_offset"
WORKERS_FROM, WORKERS = "workers_from", "workers"
MOST_LISTED = 100
_LONGEST = 1_000
_HIGHEST = 2**31


@dataclass(frozen=True)
class TaskLogQuery:
    """The body of `task/log`: which part of which worker's output. None: the default, which needs the worker."""

    job_id: str
    component: str
    party: Party
    stream: str = STREAMS[0]
    size: int = USUAL_BYTES              # bytes at the end, or from the offset on
    offset: int | None = None            # the first byte; None: the last bytes
    worker: int | None = None            # the number of the worker; None: the first
    attempt: int | None = None           # the number of its process; None: the newest
    version: int | None = None           # of the task; None: the newest
    workers_from: int | None = None      # also list the workers of the version, from this number on; None: do not

    def as_body(self) -> dict[str, Any]:
        body = {"job_id": self.job_id, "component_name": self.component}
        numbers = {
            "worker": self.worker, "attempt": self.attempt, "task_version": self.version,
            "bytes": None if self.size == USUAL_BYTES else self.size, "offset": self.offset,
            WORKERS_FROM: self.workers_from,
        }  # fmt: skip
        return {
            **body,
            **({} if self.stream == STREAMS[0] else {"stream": self.stream}),
            **{key: value for key, value in numbers.items() if value is not None},
            "role": self.party.role,
            "party_id": self.party.party_id,
        }


def read_task_log(body: Mapping[str, Any], party: Party | None = None, job_id: str = "") -> TaskLogQuery:
    """Read the body of `task/log`, of another party or of a client. `party`, `job_id`: if they were read from it, or
    chosen, before.

    Raises BadRequest."""
    job_id, component = job_id or check_job_id(body.get("job_id")), check_component_name(body.get("component_name"))
    of = party or Party(check_role(body.get("role")), check_party_id(body.get("party_id")))
    stream = STREAMS[0] if body.get("stream") is None else body["stream"]
    if stream not in STREAMS:
        raise BadRequest(f"stream: {shown(stream)} is neither {' nor '.join(STREAMS)}")
    worker, attempt, version, offset, workers_from = (
        _number_in(body, key, 0, _HIGHEST) for key in ("worker", "attempt", "task_version", "offset", WORKERS_FROM)
    )
    size = _number_in(body, "bytes", 1, MOST_BYTES)
    return TaskLogQuery(
        job_id, component, of, stream, USUAL_BYTES if size is None else size, offset, worker, attempt, version,
        workers_from,
    )


@dataclass(frozen=True)
class LogPiece:
    """What another party answers to `task/log`. Half of a character, which JSON can express, is a question mark."""

    text: str
    next: int                            # the offset behind it
    total: int                           # bytes of the log
    has_exited: bool                     # its worker


def read_log_piece(data: object, query: TaskLogQuery) -> LogPiece:
    """Read what another party answers to a query. Raises PeerUnreachable for an answer of another form, and for one
    that no log can have: so the number of queries for a log follows from its size."""
    said = data if isinstance(data, Mapping) else {}
    text, behind, total = said.get("text"), said.get(NEXT_OFFSET), said.get("bytes")
    if not isinstance(text, str) or not _is_offset(behind) or not _is_offset(total):
        raise PeerUnreachable(f"{query.party} does not answer as this release expects: its release is older")
    offset = max(0, total - query.size) if query.offset is None else query.offset
    if not _fits(len(text), offset, behind, total, query.size):
        raise PeerUnreachable(
            f"{query.party} answers what no log has: {len(text)} characters as bytes {offset} to {behind} of {total}, "
            f"when {query.size} were asked for"
        )
    whole = text.encode("utf-8", "replace").decode()
    return LogPiece(whole, behind, total, said.get("status") == WorkerStatus.EXITED.value)


@dataclass(frozen=True)
class ListedWorker:
    """The newest process of a worker, as another party tells it. The texts are its own; times are milliseconds since
    1970, 0: none."""

    worker: int
    rank: int | None                     # None: spare
    attempt: int
    status: WorkerStatus
    reason: str
    message: str
    exit_status: str
    started: int
    ended: int


@dataclass(frozen=True)
class ListedWorkers:
    """A page of the workers of a version of a task. `next`: the number with which they go on; None: that was all."""

    workers: tuple[ListedWorker, ...]
    count: int                           # of all of them
    next: int | None


def listed_data(found: ListedWorkers) -> dict[str, Any]:
    """Return what the answer to `task/log` says of the workers."""
    rows = [{**asdict(one), "status": one.status.value} for one in found.workers]
    return {"list": rows, "count": found.count, "next": found.next}


def read_listed(data: object, party: Party) -> ListedWorkers:
    """Read what another party says of its workers. Raises PeerUnreachable for anything else, and for too many."""
    said = data.get(WORKERS) if isinstance(data, Mapping) else None
    if said is None:
        raise PeerUnreachable(f"{party} does not list its workers: its release is older")
    try:
        rows, count, behind = said["list"], said["count"], said["next"]
        if len(rows) > MOST_LISTED or not _is_offset(count) or not (behind is None or _is_offset(behind)):
            raise ValueError(said)
        return ListedWorkers(tuple(map(_listed, rows)), count, behind)
    except (KeyError, TypeError, ValueError) as error:
        raise PeerUnreachable(f"{party} lists its workers in a form that this release does not know") from error


def _listed(row: Mapping[str, Any]) -> ListedWorker:
    numbers = [row[key] for key in ("worker", "attempt", "started", "ended")]
    rank = row["rank"]
    if not all(map(_is_offset, numbers)) or not (rank is None or _is_offset(rank)):
        raise ValueError(row)
    reason, message, exit_status = (sanitized(row[key], _LONGEST) for key in ("reason", "message", "exit_status"))
    worker, attempt, started, ended = numbers
    return ListedWorker(
        worker, rank, attempt, WorkerStatus(row["status"]), reason, message, exit_status, started, ended
    )


def _is_offset(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 60


def _fits(characters: int, offset: int, behind: int, total: int, size: int) -> bool:
    """Return whether a log can have this piece: all that was asked for, or all that is left, but for a character that
    is not complete; and a character has 1 to 4 bytes."""
    if behind <= offset:
        return characters == 0 and min(size, total - offset) <= INCOMPLETE
    count = behind - offset
    return count <= size and characters <= count <= 4 * characters and count >= min(size, total - offset) - INCOMPLETE


def _number_in(body: Mapping[str, Any], key: str, minimum: int, maximum: int) -> int | None:
    value = body.get(key)
    return None if value is None else check_whole(value, key, minimum, maximum)


def output_table_data(tables: Iterable[tuple[str, str, str]]) -> list[dict[str, str]]:
    """Return the data of the answer to `output/table`; each table by its name, its namespace and the output's name."""
    return [
        {"table_name": name, "table_namespace": namespace, "data_name": output} for name, namespace, output in tables
    ]
