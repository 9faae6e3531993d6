"""The heartbeat of an initiator, its answer, and the statement that a party cannot reach the sender of a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import check_job_id, shown
from fate_flow.core.model.peer import LONGEST_ERROR
from fate_flow.core.text.phrases import sanitized
from fate_flow.core.wire.v1.extensions import EXTENSIONS

_MOST_SECONDS = 1e9
_MOST_REPORTS = 256


def heartbeat_of(jobs: Sequence[tuple[str, int]], checkpoint: str = "", question: str = "") -> dict[str, Any]:
    """Return the body of a heartbeat. `jobs`: the jobs that run at the party, with their runs. `checkpoint`: a message
    to it as a witness (`add-checkpoint`); empty if there is none. `question`: the id that goes with it."""
    body: dict[str, Any] = {"jobs": [list(one) for one in jobs]}
    return {**body, "checkpoint": checkpoint, "question": question} if checkpoint else body


def checkpoint_in(body: Mapping[str, Any]) -> tuple[str, str]:
    """Return the message to a witness in a heartbeat, and the id of the question that it follows from; empty if there
    is none."""
    found, question = body.get("checkpoint"), body.get("question")
    return found if isinstance(found, str) else "", question if isinstance(question, str) else ""


def with_cosigned(data: Mapping[str, Any], status: int, text: str) -> dict[str, Any]:
    """Return the data of an answer to a heartbeat, with the answer of the witness to its checkpoint."""
    return {**data, "cosigned": {"status": status, "text": text}}


def cosigned_in(data: Mapping[str, Any]) -> tuple[int, str] | None:
    """Return the answer of a witness in the answer to a heartbeat, with its status; None if there is none."""
    found = data.get("cosigned")
    if not isinstance(found, Mapping):
        return None
    status, text = found.get("status"), found.get("text")
    return (status, text) if isinstance(status, int) and isinstance(text, str) else None


def with_round_trip(data: Mapping[str, Any], milliseconds: int | None) -> dict[str, Any]:
    """Return the data of an answer to a heartbeat, with how long requests of its party to the caller take; None: not
    known."""
    return {**data, "round_trip_ms": milliseconds} if milliseconds is not None else dict(data)


def round_trip_in(data: Mapping[str, Any]) -> int | None:
    """Return how many milliseconds requests of the answering party to this one take; None if it does not say."""
    found = data.get("round_trip_ms")
    if not isinstance(found, int) or isinstance(found, bool):
        return None
    return found if 0 <= found < _MOST_SECONDS else None


def read_heartbeat(body: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return the jobs of a heartbeat with their runs, without entries of another form.

    Raises BadRequest if there is no list, or for a malformed job id or run."""
    listed = body.get("jobs")
    if not isinstance(listed, list):
        raise BadRequest("jobs: must be a list of [job id, run]")
    return [(check_job_id(one[0]), _run(one[1])) for one in listed if isinstance(one, list) and len(one) == 2]


def _run(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise BadRequest(f"jobs: {shown(value)} is not the number of a run")


@dataclass(frozen=True)
class WayBack:
    """A party's statement that it cannot reach the server that sent the request."""

    seconds: float
    error: str

    def as_body(self) -> dict[str, Any]:
        return {"seconds": self.seconds, "error": self.error}


def read_way_back(value: object) -> WayBack | None:
    """Read another party's statement; None if there is none. Values out of range are replaced by defaults."""
    if not isinstance(value, Mapping):
        return None
    given = value.get("seconds")
    seconds = given if isinstance(given, (int, float)) and 0 <= given < _MOST_SECONDS else 0
    return WayBack(float(seconds), sanitized(value.get("error"), LONGEST_ERROR))


@dataclass(frozen=True)
class HeartbeatReply:
    """A party's answer to the heartbeat of an initiator."""

    ended: Mapping[str, str]                     # jobs that are over or unknown at the party, with the reason
    way_back: WayBack | None = None              # None: as far as the party knows, it reaches the initiator
    reports: tuple[Mapping[str, Any], ...] = ()  # reports of shares that the party could not deliver otherwise

    def as_data(self) -> dict[str, Any]:
        """Return the data of the answer, with our extensions, for a sender that was restarted since `create`."""
        data: dict[str, Any] = {"ended": dict(self.ended)}
        if self.way_back is not None:
            data.update(way_back=self.way_back.as_body(), reports=list(self.reports))
        return {**data, "extensions": EXTENSIONS}

    @property
    def is_new(self) -> bool:
        return bool(self.ended or self.way_back is not None or self.reports)


def read_heartbeat_reply(data: Mapping[str, Any]) -> HeartbeatReply:
    ended, reports = data.get("ended"), data.get("reports")
    listed = ended.items() if isinstance(ended, Mapping) else ()
    given = reports if isinstance(reports, list) else []
    return HeartbeatReply(
        {str(job_id): str(why) for job_id, why in listed},
        read_way_back(data.get("way_back")),
        tuple(one for one in given[:_MOST_REPORTS] if isinstance(one, Mapping)),
    )
