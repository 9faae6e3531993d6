"""Who has to act for a job to go on, in one sentence: the question that a partner's silence makes hard to answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fate_flow.core.model.status import SeatStatus
from fate_flow.core.planning.replies import SILENT, UNREADY

Explained = Mapping[str, Any]


def who_acts(job: Explained, own_party_id: str) -> str:
    """Return who has to act, from what `explained` says; empty if nobody has to: it runs, or it is over as it should
    be."""
    if job["status"] in ("running", "ready", "success"):
        return _silent(job)
    if job["status"] == "waiting":
        return WAITING[job["waits_for"]](job)
    if not job["caused_by"]:
        return ""
    return f"{_people(job['caused_by'], own_party_id)}: {_ENDED[job['status']]}."


_ENDED = {"failed": "the cause is there", "timeout": "the cause is there", "canceled": "the job was stopped there"}


def _silent(job: Explained) -> str:
    """A party that is not the initiator knows its connection to the initiator alone."""
    if job["initiator_trouble"]:
        return f"The operators of party {job['initiator']['party_id']}: {job['initiator_trouble']}."
    trouble = next((one for one in job["parties"] if one["trouble"]), None)
    return f"The operators of party {trouble['party_id']}: {trouble['trouble']}." if trouble else ""


def _release(job: Explained) -> str:
    return f"{(job['hold'] or {}).get('by') or 'Somebody'} holds the job: whoever may release it."


def _approval(job: Explained) -> str:
    parties = job["awaiting_approval"]
    return " and ".join(f"The people of {party}" for party in parties) + " decide whether they take part." if (
        parties) else "You: approve or reject the job."


def _answer(job: Explained) -> str:
    return _not_ready(job["parties"]) or "The people of the party that is not ready."


def _size(_: Explained) -> str:
    return "Whoever submitted it: the job asks for more than a party has in all. Stop it and ask for less."


def _initiator(job: Explained) -> str:
    return _silent(job) or f"Nobody here: {_shown(job['initiator'])} knows its place in the queue."


def _parties(job: Explained) -> str:
    return _not_joined(job) or "Nobody: it goes on by itself, since every party knows that it begins again."


def _pause(job: Explained) -> str:
    return _not_joined(job) or "Nobody: it begins again by itself when its pause is over."


def _capacity(_: Explained) -> str:
    return "Nobody: it starts by itself when the cores are free."


def _place(_: Explained) -> str:
    return "Nobody: it starts by itself when its turn comes."


WAITING: Mapping[str, Callable[[Explained], str]] = {
    "release": _release, "awaiting_approval": _approval, "answer": _answer, "size": _size, "initiator": _initiator,
    "parties": _parties, "retry_backoff": _pause, "room": _capacity, "turn": _place,
}  # fmt: skip
"""Who acts for a waiting job, by the word for what it waits for."""


def _not_joined(job: Explained) -> str:
    """Return who acts for a party that does not take part again yet; empty if each does."""
    late = " and ".join(_shown(one) for one in job["parties"] if one["status"] == SeatStatus.JOINING.value)
    return _not_ready(job["parties"]) or (
        late and f"The operators of {late}, unless it confirms soon that the job begins again."
    )


def _not_ready(parties: Sequence[Mapping[str, Any]]) -> str:
    """A party that is silent is its operators' affair; one that says why it is not ready may be held by its people."""
    silent = [one for one in parties if one["message"].startswith(SILENT)]
    found = silent or [one for one in parties if one["message"].startswith(UNREADY)]
    who = "operators" if silent else "people"
    return " ".join(f"The {who} of {_shown(one)}, which {one['message']}." for one in found)


def _people(party: str, own_party_id: str) -> str:
    return "Your own party" if party.rpartition(" ")[2].rpartition("-")[2] == own_party_id else f"The people of {party}"


def _shown(party: Mapping[str, str]) -> str:
    return f"{party['role']} {party['party_id']}"
