"""What the words of Ray mean: the status of a job, why it failed, and answers to a submission.

Each is a table. A status that is not in it is unknown, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from fate_flow.engines.placed.cluster import Stage, Submission, Taken, Waiting

TITLE = "Ray"

STATUSES: Mapping[str, Stage] = {
    "PENDING": Stage.PENDING,
    "RUNNING": Stage.ALIVE,
    "SUCCEEDED": Stage.ENDED,
    "FAILED": Stage.ENDED,
    "STOPPED": Stage.ENDED,
}

CAUSES: Mapping[str, str] = {
    "RUNTIME_ENV_SETUP_FAILURE": "not_started",
    "JOB_SUPERVISOR_ACTOR_START_TIMEOUT": "not_placed",
    "JOB_SUPERVISOR_ACTOR_START_FAILURE": "not_started",
    "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE": "not_placed",
    "JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE": "node_lost",
    "JOB_SUPERVISOR_ACTOR_DIED": "node_lost",
    "JOB_ENTRYPOINT_COMMAND_START_ERROR": "not_started",
}
"""The cause of an end by Ray's `error_type`. With any other, such as JOB_ENTRYPOINT_COMMAND_ERROR, the job has ended by
itself."""

_OUT_OF_MEMORY = "running low on memory"      # what the memory monitor of a node says of what it has killed

_REFUSED = frozenset({400, 404, 405, 413, 414, 415, 422})
_NOT_ADMITTED = frozenset({401, 403, 429})
_THERE = "already exists"
_NO_AGENT = "please try again later"
_MOST_TEXT = 300
_ADVICE = "see there: ray status"


def cause_of(error_type: str, message: str) -> str:
    """Return the cause of an end that Ray has caused; empty if the job has ended by itself."""
    cause = CAUSES.get(error_type, "")
    return "out_of_memory" if cause == "node_lost" and _OUT_OF_MEMORY in message else cause


def waiting_of(message: str) -> Waiting:
    """Return why a job is pending. Ray knows no more than whether it asks for resources, or for an environment."""
    if "runtime environment" in message:
        return Waiting("other", f"waits in {TITLE} for resources, or for its runtime environment", _ADVICE)
    if "resources" in message:
        return Waiting("resources", f"waits in {TITLE} for resources", _ADVICE)
    return Waiting("other", f"waits in {TITLE}", _ADVICE)


def answer_of(status: int, text: str) -> Submission:
    """Return what the answer to a submission means, if it is not the one that accepts it.

    The same id is refused by the server of Ray, whatever happened to the first submission, so `already exists` says
    that it has arrived. A redirect, or an error of a proxy, says nothing."""
    said = f"status {status}: {_last_line(text)}"
    if status in _NOT_ADMITTED:
        return Submission(Taken.NOT_REACHED, f"{said} (engines.<name>.token_file)" if status != 429 else said)
    if _THERE in text:
        return Submission(Taken.ACCEPTED, said)
    if status == 500 and _NO_AGENT in text:
        return Submission(Taken.NOT_REACHED, said)       # a head that has just started
    return Submission(Taken.REFUSED if status in _REFUSED else Taken.IN_DOUBT, said)


def one_line(text: str) -> str:
    return " ".join(text.split())[:_MOST_TEXT]


def _last_line(text: str) -> str:
    """Return the last line that says something: of a traceback, that is the error."""
    lines = [line for line in text.splitlines() if line.strip()]
    return one_line(lines[-1]) if lines else "no text"
